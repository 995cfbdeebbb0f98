"""What the validation of the cost models measures, and how large."""

from dataclasses import replace

from semistream.bench.operators import QUICK as QUICK_OPERATORS
from semistream.bench.operators import OperatorsSpec
from semistream.bench.operators.cells import Cell, cells_of
from semistream.core.errors import InvalidArgument
from semistream.cost.calibration import MEMORY_SHARES, SKEWS

__all__ = ["DEFAULT", "QUICK", "grid_of", "is_judged", "require_other_points"]

DEFAULT = OperatorsSpec(
    rows=(1_000_000,),
    measured_rows=3_000_000,
    lookup_tuples=5000,
    most_warm_up_tuples=155_000,
    most_warm_up_scans=12,
    least_measured_s=2.5,
)
"""The grid that the targets speak of: R as large as in the figures at laptop scale."""

QUICK = QUICK_OPERATORS
"""A look at the mechanics, without verdicts."""


def grid_of(spec: OperatorsSpec) -> list[Cell]:
    """Return the cells of a run."""
    return [cell for cell in cells_of(spec) if cell.memory_share in spec.memory_shares]


def is_judged(spec: OperatorsSpec) -> bool:
    """Whether a run covers all that the targets speak of."""
    default = replace(DEFAULT, seed=spec.seed)
    has_all = all(
        set(getattr(spec, axis)) >= set(getattr(default, axis))
        for axis in ("rows", "skews", "memory_shares", "algorithms")
    )
    return has_all and spec.conditions() == default.conditions()


def require_other_points(spec: OperatorsSpec) -> None:
    """Raise `InvalidArgument` where a cell is one of the points at which the cost factors are measured."""
    for skew in set(spec.skews) & set(SKEWS):
        for share in set(spec.memory_shares) & set(MEMORY_SHARES):
            raise InvalidArgument(
                f"skew {skew:g} with memory {share:g} is where cost factors are measured, and would validate itself: "
                "give another skew or memory"
            )
