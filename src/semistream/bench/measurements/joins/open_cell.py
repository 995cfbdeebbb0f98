"""A cell of a figure, opened: its workload, its staged table and its budget are there to make operators of."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from semistream.bench.framework.measurement import Context
from semistream.bench.measurements.joins.prepared_stream import PreparedStream
from semistream.bench.measurements.joins.rate import RateCell, rate_cell
from semistream.bench.measurements.joins.steady import SteadyState, is_scan, make_operator, measure_steady
from semistream.cost.calibration.yardstick import Yardstick
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable
from semistream.workloads import Workload

__all__ = ["OpenCell", "cell_without", "open_cell"]

_LARGEST_BLOCK_TUPLES = 1 << 20


class OpenCell(NamedTuple):
    """What a measurement of `cell` works with."""

    cell: RateCell
    workload: Workload
    table: MasterTable
    budget_bytes: int
    seed: int

    @property
    def is_scan(self) -> bool:
        """Whether R is read from end to end."""
        return is_scan(self.cell.algorithm, self.cell.layout)

    def operator(self, budget_bytes: int | None = None, **options: Any) -> StepOperator:
        """Return the operator; raise `BudgetTooSmall` when it cannot work with so little memory."""
        options = {**self.cell.options, **options}
        return make_operator(
            self.cell.algorithm, self.table, budget_bytes or self.budget_bytes, self.workload, **options
        )

    def stream(self) -> PreparedStream:
        """Return the endless stream, the same for every algorithm."""
        block_tuples = min(_LARGEST_BLOCK_TUPLES, 4 * self.workload.num_rows)
        return PreparedStream(self.workload.stream(self.seed), block_tuples)

    def measure(
        self, budget_bytes: int | None = None, yardstick: Yardstick | None = None, **options: Any
    ) -> SteadyState:
        """Return what the operator does when it never lacks tuples, with a yardstick in turns if there is one."""
        with self.operator(budget_bytes, **options) as op:
            return measure_steady(op, self.stream(), self.table, self.cell.effort, yardstick)


def open_cell(cell: RateCell, context: Context) -> OpenCell:
    """Return the cell with its table staged."""
    workload = cell.workload.make(context.seed, context.shared_data)
    table = context.table(workload, cell.layout, cell.page_bytes)
    budget_bytes = cell.memory_bytes or int(table.num_bytes * (cell.memory_share or 0.0))
    context.report(str(cell))
    return OpenCell(cell, workload, table, budget_bytes, context.seed)


def cell_without(parameters: Mapping[str, Any], own: Collection[str]) -> RateCell:
    """Return the cell of a kind of figure that has parameters of its own beside those of a cell."""
    return rate_cell({name: value for name, value in parameters.items() if name not in own})
