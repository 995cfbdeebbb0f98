"""One point of a figure."""

from dataclasses import asdict, dataclass, field
from typing import Any

from semistream.cost.cost_factors import MACHINE

__all__ = ["MACHINE", "Point"]


@dataclass(frozen=True)
class Point:
    """What was measured, or predicted, for one series at one place of the x axis.

    Attributes
    ----------
    series
        Such as an algorithm; with a figure of its own for each ``group``, if it has several.
    x
        A number, in the unit of the figure's x axis.
    y
        The value on every clock by the clock's name, or under ``"value"`` where time plays no part. `MACHINE` is this
        machine's, without what passed for want of a core; others are disk profiles.
    details
        What else was measured, with units in the names.
    """

    series: str
    x: float
    y: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    group: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
