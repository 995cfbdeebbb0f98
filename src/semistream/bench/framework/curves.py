"""The points of a result as curves, one for each group and series, and the checks of what is said about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semistream.bench.framework.measurement import Point
from semistream.core.errors import InvalidArgument

__all__ = ["Curve", "Curves", "check_kind"]


@dataclass(frozen=True)
class Curve:
    """Values of a series on a clock, by ascending x."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def at(self, x: float) -> float | None:
        """Return the value at the nearest x within 2%, or None."""
        nearest = min(self.x, key=lambda known: abs(known - x), default=None)
        if nearest is None or abs(nearest - x) > 0.02 * max(abs(x), abs(nearest)) + 1e-12:
            return None
        return self.y[self.x.index(nearest)]

    def near(self, x: float) -> float | None:
        """Return the value at x, interpolated if it was not measured; None outside of the curve."""
        if not self.x or not self.x[0] <= x <= self.x[-1]:
            return self.at(x)
        return float(np.interp(x, self.x, self.y))

    def places(self, at: float | str | None) -> Sequence[float]:
        """Return the places that ``at`` names: an x, ``"first"`` or ``"last"``; every x for any other word or None."""
        if isinstance(at, float | int):
            return [at]
        return {"first": self.x[:1], "last": self.x[-1:]}.get(at or "", self.x)


class Curves:
    """All curves of one value, named by ``shown``: a clock, another value of the points, or one of their details."""

    def __init__(self, points: Iterable[Point], shown: str) -> None:
        values: dict[tuple[str, str], dict[float, float]] = {}
        for point in points:
            value = point.y.get(shown, point.details.get(shown))
            if isinstance(value, int | float):
                values.setdefault((point.group, point.series), {})[point.x] = float(value)
        self._curves = {
            name: Curve(tuple(sorted(found)), tuple(found[x] for x in sorted(found))) for name, found in values.items()
        }

    def __bool__(self) -> bool:
        return bool(self._curves)

    @property
    def groups(self) -> list[str]:
        """The groups, in order of measurement."""
        return list(dict.fromkeys(group for group, _ in self._curves))

    @property
    def series(self) -> list[str]:
        """The series, in order of measurement."""
        return list(dict.fromkeys(series for _, series in self._curves))

    def of(self, group: str, series: str) -> Curve | None:
        """Return a curve, or None if it was not measured."""
        return self._curves.get((group, series))


def check_kind(what: str, statement: Any, needed: Mapping[str, Sequence[str]]) -> None:
    """Raise `InvalidArgument` if the kind of a target or claim is unknown, or a field that its kind needs is absent."""
    if statement.kind not in needed:
        raise InvalidArgument(f"kind={statement.kind!r} of a {what} is unknown: use one of {', '.join(needed)}")
    for name in needed[statement.kind]:
        if getattr(statement, name) is None:
            raise InvalidArgument(f"a {what} of kind {statement.kind!r} needs {name}: {statement.text!r}")
