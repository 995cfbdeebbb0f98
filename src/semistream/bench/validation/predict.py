"""What the cost model of a cell's operator says of it."""

from collections.abc import Mapping
from dataclasses import asdict

from semistream.bench.operators.cells import CellResult
from semistream.bench.validation.cells import Figures, ValidatedCell, measured_figures
from semistream.core.errors import SemistreamError
from semistream.core.semantics import JoinSpec
from semistream.cost.cost_factors import CostFactors
from semistream.cost.disk_profile import HDD
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import JoinCase, predict
from semistream.cost.stream_shape import StreamShape
from semistream.cost.table_shape import TableShape
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA

__all__ = ["join_case", "validated"]


def join_case(table: MasterTable, skew: float) -> JoinCase:
    """Return the join of the synthetic stream with ``table``."""
    stream = StreamShape(keys=KeyDistribution.zipf(table.num_rows, skew))
    return JoinCase(TableShape.of(table), stream, JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key"))


def validated(
    found: CellResult,
    table: MasterTable,
    machine: CostFactors,
    usual_yardstick_s: float,
    settings: Mapping[str, float],
    advised_on: str | None = None,
) -> ValidatedCell:
    """Return a measured cell with what is predicted for it on both clocks."""
    cell = found.cell
    case = join_case(table, cell.skew)
    measured: dict[str, Figures] = {}
    measured_loop = None
    if found.skipped is None:
        measured, counts = measured_figures(found, case.table.rows_per_page, usual_yardstick_s)
        measured_loop = asdict(counts)
    predicted: dict[str, Figures] = {}
    predicted_loop = not_predicted = None
    try:
        for clock in (HDD, machine):
            said = predict(cell.algorithm, case, found.budget_bytes, clock, settings)
            predicted[clock.name] = Figures(said.tuples_per_s, said.loop_s)
            predicted_loop = asdict(said.plan.loop)
    except SemistreamError as error:
        not_predicted = str(error)
    return ValidatedCell(
        measured_cell=found,
        settings=dict(settings),
        advised_on=advised_on,
        predicted=predicted,
        measured=measured,
        predicted_loop=predicted_loop,
        measured_loop=measured_loop,
        not_predicted=not_predicted,
    )
