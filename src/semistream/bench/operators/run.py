"""Runs the benchmark of the operators cell by cell; what is finished is kept, and need not be measured again."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from semistream.bench.operators.cells import Cell, CellResult, cells_of
from semistream.bench.operators.measure import measure_cell
from semistream.bench.operators.shedding import shedding_entries
from semistream.bench.operators.spec import OperatorsSpec
from semistream.bench.operators.verdicts import entries_of
from semistream.bench.provenance import Provenance, collect_provenance
from semistream.bench.result_file import BenchResult
from semistream.bench.staged import staged_table
from semistream.core.errors import InvalidArgument
from semistream.storage import MasterTable

__all__ = ["Estimate", "Tables", "require_resumable", "run_operators"]

_Report = Callable[[str], None]


def run_operators(
    spec: OperatorsSpec,
    data_dir: Path,
    report: _Report = lambda message: None,
    keep: Callable[[BenchResult], None] = lambda result: None,
    resumed: BenchResult | None = None,
) -> BenchResult:
    """Measure all cells of ``spec`` and return what they showed.

    Parameters
    ----------
    data_dir
        Where the master tables are, or are staged at the first run.
    report
        Is told what is being done, and how long the rest will take.
    keep
        Is given the result so far after every cell.
    resumed
        An unfinished result, whose cells are not measured again when they were measured by this commit.
    """
    provenance = collect_provenance(spec.seed)
    done = {} if resumed is None else _finished(resumed, spec, provenance)
    tables = Tables(spec, data_dir, report)
    cells = cells_of(spec)
    estimate = Estimate([cell for cell in cells if cell not in done])
    for number, cell in enumerate(cells, 1):
        if cell in done:
            continue
        table = tables.get(cell)
        report(f"cell {number} of {len(cells)}{estimate.left()}: {cell}")
        began_s = time.perf_counter()
        done[cell] = measure_cell(spec, cell, table, provenance.commit)
        estimate.finished(cell, time.perf_counter() - began_s)
        keep(_result(spec, provenance, [done[cell] for cell in cells if cell in done]))
    result = _result(spec, provenance, [done[cell] for cell in cells])
    shedding = shedding_entries(spec, tables.of, result.cells, report)
    return BenchResult(result.benchmark, result.spec, provenance, (*result.entries, *shedding), result.cells)


def _result(spec: OperatorsSpec, provenance: Provenance, results: Sequence[CellResult]) -> BenchResult:
    entries = tuple(entries_of(spec, results))
    return BenchResult("operators", spec.as_dict(), provenance, entries, tuple(result.as_dict() for result in results))


def require_resumable(resumed: BenchResult, benchmark: str, spec: OperatorsSpec) -> None:
    """Raise `InvalidArgument` when a result is of another benchmark, or was measured under other conditions."""
    if resumed.benchmark != benchmark:
        raise InvalidArgument(
            f"the result to resume is of the benchmark {resumed.benchmark!r}: give one of {benchmark!r}"
        )
    conditions = spec.conditions()
    changed = sorted(name for name in conditions if resumed.spec.get(name) != conditions[name])
    if changed:
        raise InvalidArgument(f"the result to resume was measured with other {', '.join(changed)}: start a new one")


def _finished(resumed: BenchResult, spec: OperatorsSpec, provenance: Provenance) -> dict[Cell, CellResult]:
    require_resumable(resumed, "operators", spec)
    results = [CellResult.from_dict(cell) for cell in resumed.cells]
    return {result.cell: result for result in results if result.commit == provenance.commit}


class Tables:
    """The master tables, staged when first asked for."""

    def __init__(self, spec: OperatorsSpec, data_dir: Path, report: _Report) -> None:
        self._spec = spec
        self._data_dir = data_dir
        self._report = report
        self._tables: dict[tuple[int, str], MasterTable] = {}

    def get(self, cell: Cell) -> MasterTable:
        return self.of(cell.rows, cell.layout)

    def of(self, rows: int, layout: str) -> MasterTable:
        if (rows, layout) not in self._tables:
            what = f"staging the {layout} table"
            self._tables[rows, layout] = staged_table(
                self._data_dir,
                rows=rows,
                layout="heap" if layout == "heap" else "clustered",
                page_bytes=self._spec.page_bytes,
                seed=self._spec.seed,
                progress=lambda staged: self._report(f"{what}: {staged:,} of {rows:,} rows"),
            )
        return self._tables[rows, layout]


class Estimate:
    """How long the remaining cells will take, by how long the finished ones took."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._left = sum(cell.weight for cell in cells)
        self._done = 0.0
        self._seconds = 0.0

    def finished(self, cell: Cell, seconds: float) -> None:
        self._left -= cell.weight
        self._done += cell.weight
        self._seconds += seconds

    def left(self) -> str:
        seconds = self._left * (self._seconds / self._done if self._done else 1.0)
        return f", about {seconds / 60:.0f} min left" if seconds >= 60 else ", less than a minute left"
