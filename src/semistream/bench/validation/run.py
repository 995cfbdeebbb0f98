"""Runs the validation: calibrates on the tables of the grid, measures its cells and what is advised, and predicts them.

A yardstick is measured in turns with all of it, so that a machine that is faster in one minute than in the next does
not pass for a model that errs.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from semistream.bench.operators import OperatorsSpec
from semistream.bench.operators.cells import Cell, CellResult
from semistream.bench.operators.measure import measure_cell
from semistream.bench.operators.run import Estimate, Tables, require_resumable
from semistream.bench.provenance import Provenance, collect_provenance
from semistream.bench.result_file import BenchResult
from semistream.bench.validation.advised import advised_at
from semistream.bench.validation.cells import ValidatedCell
from semistream.bench.validation.predict import validated
from semistream.bench.validation.spec import grid_of, require_other_points
from semistream.bench.validation.verdicts import entries_of
from semistream.cost.calibration import calibrate
from semistream.cost.cost_factors import AlgorithmFactors, CostFactors
from semistream.cost.disk_profile import HDD
from semistream.cost.yardstick import Yardstick
from semistream.workloads import STREAM_SCHEMA

__all__ = ["run_validation"]

_Report = Callable[[str], None]
_Key = tuple[Cell, tuple[tuple[str, float], ...]]


def run_validation(
    spec: OperatorsSpec,
    data_dir: Path,
    report: _Report = lambda message: None,
    keep: Callable[[BenchResult], None] = lambda result: None,
    resumed: BenchResult | None = None,
) -> BenchResult:
    """Measure all cells of ``spec`` and what is advised at its points, and return them beside what the models say.

    Parameters
    ----------
    data_dir
        Where the master tables are, or are staged at the first run.
    report
        Is told what is being done, and how long the rest will take.
    keep
        Is given the result so far after every cell.
    resumed
        An unfinished result. Its cells are not measured again when they were measured by this commit; they are
        predicted anew.
    """
    require_other_points(spec)
    provenance = collect_provenance(spec.seed)
    done: list[ValidatedCell] = []
    with _Measuring(spec, Tables(spec, data_dir, report), provenance, report, resumed) as measuring:

        def result() -> BenchResult:
            calibrations = {str(rows): found for rows, found in measuring.calibrations.items()}
            listed = tuple(found.as_dict() for found in done)
            content = {**spec.as_dict(), "calibrations": calibrations}
            return BenchResult("validation", content, provenance, tuple(entries_of(spec, done)), listed)

        cells = grid_of(spec)
        for number, cell in enumerate(cells, 1):
            done.append(measuring.validated(cell, f"cell {number} of {len(cells)}"))
            keep(result())
        points = list(dict.fromkeys((cell.rows, cell.skew, cell.memory_share) for cell in cells))
        for number, (rows, skew, share) in enumerate(points, 1):
            what = f"advice {number} of {len(points)}"
            report(f"{what}: asking the models")
            for advised in advised_at(spec, measuring.tables, rows, skew, share, [HDD, measuring.machine(rows)]):
                done.append(measuring.validated(advised.cell, what, advised.settings, advised.clock))
            keep(result())
    return result()


class _Measuring:
    """Measures cells that were not measured yet, and has what they are predicted with.

    Attributes
    ----------
    calibrations
        Factors and where they come from, by the rows of the table: measured on the clustered one, where all operators
        work.
    """

    def __init__(
        self,
        spec: OperatorsSpec,
        tables: Tables,
        provenance: Provenance,
        report: _Report,
        resumed: BenchResult | None,
    ) -> None:
        self._spec = spec
        self.tables = tables
        self._commit = provenance.commit
        self._report = report
        self._measured = {} if resumed is None else _finished(resumed, spec, provenance)
        self._estimate = Estimate([cell for cell in grid_of(spec) if _key(cell) not in self._measured])
        self._yardsticks: dict[int, Yardstick] = {}
        self._open = ExitStack()
        self.calibrations = _kept(resumed, spec, provenance)

    def __enter__(self) -> "_Measuring":
        with self._open:
            for rows in self._spec.rows:
                if rows not in self.calibrations:
                    self.calibrations[rows] = self._calibrate(rows)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _calibrate(self, rows: int) -> dict[str, Any]:
        calibration = calibrate(
            self.tables.of(rows, "clustered"),
            stream_schema=STREAM_SCHEMA,
            algorithms=self._spec.algorithms,
            progress=self._report,
            yardstick=self._yardstick(rows),
        )
        return {
            "factors": {name: factors.as_dict() for name, factors in calibration.factors.by_algorithm.items()},
            "left_out": calibration.left_out,
            "fit_error": calibration.fit_error,
            **{name: calibration.provenance[name] for name in ("memory_shares", "skews", "yardstick_s")},
        }

    def _yardstick(self, rows: int) -> Yardstick:
        if rows not in self._yardsticks:
            table = self.tables.of(rows, "clustered")
            self._yardsticks[rows] = self._open.enter_context(Yardstick(table, Path(table.path).parent))
        return self._yardsticks[rows]

    def machine(self, rows: int) -> CostFactors:
        """Return the clock of this machine, by the cost factors of a table with so many rows."""
        factors = self.calibrations[rows]["factors"]
        return CostFactors({name: AlgorithmFactors(**given) for name, given in factors.items()})

    def validated(
        self, cell: Cell, what: str, settings: Mapping[str, float] | None = None, advised_on: str | None = None
    ) -> ValidatedCell:
        """Return a cell with what is predicted, measured unless it was before."""
        settings = settings or {}
        table, key = self.tables.get(cell), _key(cell, settings)
        if key not in self._measured:
            self._report(f"{what}{self._estimate.left()}: {cell}")
            found = measure_cell(
                self._spec,
                cell,
                table,
                self._commit,
                with_times=False,
                yardstick=self._yardstick(cell.rows),
                options=dict(settings),
            )
            self._measured[key] = found
            if advised_on is None:
                self._estimate.finished(cell, found.wall_s)
        usual_s = self.calibrations[cell.rows]["yardstick_s"]
        return validated(self._measured[key], table, self.machine(cell.rows), usual_s, settings, advised_on)


def _key(cell: Cell, settings: Mapping[str, float] | None = None) -> _Key:
    return cell, tuple(sorted((settings or {}).items()))


def _kept(resumed: BenchResult | None, spec: OperatorsSpec, provenance: Provenance) -> dict[int, dict[str, Any]]:
    """Return calibrations of this commit on this machine that have all algorithms."""
    if resumed is None or _made_by(resumed.provenance) != _made_by(provenance):
        return {}
    return {
        int(rows): content
        for rows, content in resumed.spec.get("calibrations", {}).items()
        if set(spec.algorithms) <= {*content["factors"], *content["left_out"]}
    }


def _made_by(provenance: Provenance) -> tuple[object, ...]:
    return provenance.commit, provenance.cpu, provenance.cores


def _finished(resumed: BenchResult, spec: OperatorsSpec, provenance: Provenance) -> dict[_Key, CellResult]:
    require_resumable(resumed, "validation", spec)
    cells = [ValidatedCell.from_dict(content) for content in resumed.cells]
    return {
        _key(found.cell, found.settings): found.measured_cell
        for found in cells
        if found.measured_cell.commit == provenance.commit
    }
