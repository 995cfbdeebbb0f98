"""What the advisor recommends at the points of the grid."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semistream.bench.operators import OperatorsSpec
from semistream.bench.operators.cells import Cell
from semistream.bench.operators.run import Tables
from semistream.bench.validation.predict import join_case
from semistream.cost.advice import Alternative
from semistream.cost.alternatives import TableForm, Target, find_alternatives, ranked
from semistream.cost.clock import Clock
from semistream.cost.table_shape import Layout

__all__ = ["Advised", "advised_at"]

_LAYOUTS: tuple[Layout, ...] = ("heap", "clustered")


class Advised(NamedTuple):
    """A cell with the settings that the advisor recommends, on one clock."""

    cell: Cell
    settings: dict[str, float]
    clock: str


def advised_at(
    spec: OperatorsSpec, tables: Tables, rows: int, skew: float, memory_share: float, clocks: Sequence[Clock]
) -> Iterator[Advised]:
    """Yield the best alternative on each clock: any algorithm of ``spec``, on either table, with its best settings."""
    for clock in clocks:
        alternatives: list[Alternative] = []
        for layout in _LAYOUTS:
            table = tables.of(rows, layout)
            case = join_case(table, skew)
            target = Target(None, int(table.num_bytes * memory_share), clock)
            form = TableForm(layout, table.page_bytes, False, True, case.table)
            alternatives += find_alternatives(
                target, case.spec, case.stream, [form], names=spec.algorithms
            ).alternatives
        if alternatives:
            best = ranked(alternatives)[0]
            yield Advised(Cell(rows, skew, memory_share, best.algorithm, best.layout), best.settings, clock.name)
