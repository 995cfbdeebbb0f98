"""Runs the validation: calibrates on the tables of the grid, measures its cells, and predicts them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from semistream.bench.operators import OperatorsSpec
from semistream.bench.operators.cells import CellResult
from semistream.bench.operators.measure import measure_cell
from semistream.bench.operators.run import Estimate, Tables
from semistream.bench.provenance import Provenance, collect_provenance
from semistream.bench.result_file import BenchResult
from semistream.bench.validation.cells import ValidatedCell
from semistream.bench.validation.predict import validated
from semistream.bench.validation.spec import grid_of, require_other_points
from semistream.bench.validation.verdicts import entries_of
from semistream.core.errors import InvalidArgument
from semistream.cost.calibration import calibrate
from semistream.cost.cost_factors import AlgorithmFactors, CostFactors
from semistream.workloads import STREAM_SCHEMA

__all__ = ["run_validation"]


def run_validation(
    spec: OperatorsSpec,
    data_dir: Path,
    report: Callable[[str], None] = lambda message: None,
    keep: Callable[[BenchResult], None] = lambda result: None,
    resumed: BenchResult | None = None,
) -> BenchResult:
    """Measure all cells of ``spec``, and return them beside what the models say.

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
    tables = Tables(spec, data_dir, report)
    calibrations = _calibrations(spec, tables, report, _kept(resumed, provenance))
    clocks = {rows: _clock(content["factors"]) for rows, content in calibrations.items()}
    measured = {} if resumed is None else _finished(resumed, spec, provenance)
    cells = grid_of(spec)
    estimate = Estimate([cell for cell in cells if cell not in measured])
    done: list[ValidatedCell] = []

    def result() -> BenchResult:
        content = {**spec.as_dict(), "calibrations": {str(rows): found for rows, found in calibrations.items()}}
        listed = tuple(found.as_dict() for found in done)
        return BenchResult("validation", content, provenance, tuple(entries_of(spec, done)), listed)

    for number, cell in enumerate(cells, 1):
        table = tables.get(cell)
        if cell not in measured:
            report(f"cell {number} of {len(cells)}{estimate.left()}: {cell}")
            measured[cell] = measure_cell(spec, cell, table, provenance.commit, with_times=False)
            estimate.finished(cell, measured[cell].wall_s)
        done.append(validated(measured[cell], table, clocks[cell.rows]))
        keep(result())
    return result()


def _calibrations(
    spec: OperatorsSpec, tables: Tables, report: Callable[[str], None], kept: dict[int, dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Return the factors for every size of table, measured on the clustered one: there all operators work."""
    found: dict[int, dict[str, Any]] = {}
    for rows in spec.rows:
        if rows in kept:
            found[rows] = kept[rows]
            continue
        calibration = calibrate(
            tables.of(rows, "clustered"), stream_schema=STREAM_SCHEMA, algorithms=spec.algorithms, progress=report
        )
        found[rows] = {
            "factors": {name: factors.as_dict() for name, factors in calibration.factors.by_algorithm.items()},
            "left_out": calibration.left_out,
            "fit_error": calibration.fit_error,
            "memory_shares": calibration.provenance["memory_shares"],
            "skews": calibration.provenance["skews"],
        }
    return found


def _clock(factors: dict[str, dict[str, float]]) -> CostFactors:
    return CostFactors({name: AlgorithmFactors(**given) for name, given in factors.items()})


def _kept(resumed: BenchResult | None, provenance: Provenance) -> dict[int, dict[str, Any]]:
    if resumed is None or resumed.provenance.commit != provenance.commit:
        return {}
    return {int(rows): content for rows, content in resumed.spec.get("calibrations", {}).items()}


def _finished(resumed: BenchResult, spec: OperatorsSpec, provenance: Provenance) -> dict[Any, CellResult]:
    if resumed.benchmark != "validation":
        raise InvalidArgument(
            f"the result to resume is of the benchmark {resumed.benchmark!r}: give one of 'validation'"
        )
    conditions = spec.conditions()
    changed = sorted(name for name in conditions if resumed.spec.get(name) != conditions[name])
    if changed:
        raise InvalidArgument(f"the result to resume was measured with other {', '.join(changed)}: start a new one")
    results = [ValidatedCell.from_dict(content).measured_cell for content in resumed.cells]
    return {result.cell: result for result in results if result.commit == provenance.commit}
