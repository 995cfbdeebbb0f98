"""Targets of benchmarks, as data in ``targets/NAME.toml``, and the rules that compare points with them.

A target compares series (``of``, ``over``) in groups. ``on`` names the compared value: a clock, another value or a
detail. Names may be patterns such as ``"*, skew 1"``: each matching series and group is a line. A list of series, or of
patterns, stands for the lowest of them at each x.

=============  =====================================================================================================
kind           the value to compare with ``least`` or ``most``
=============  =====================================================================================================
``value``      of at x
``ratio``      of / over at x; ``over_on`` names the value of over, if it is another than ``on``
``growth``     of at its last x / at its first
``crossing``   the x from which on of stays below over; infinity if it is above in the end
``reach``      the least x at which of reaches the value of over at ``at``, as a part of ``at``
``error``      the predictions' errors over all series, groups and x: ``take`` is median or worst. Details named by
               ``on`` have an error, with its sign, for each clock
``near best``  the share of all places at which of has at least ``near`` times the best series of over
=============  =====================================================================================================

``at`` is an x, ``"first"``, ``"last"``, ``"every"`` (the weakest of all places counts) or ``"each"`` (every place is a
line). ``over_group`` is the group of over, if it is another than that of ``of``. With ``together`` all matching groups
are one line: the weakest counts. A target without a limit is informative: it is neither met nor missed.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Literal, cast

from semistream.bench.framework.curves import Curve, Curves, check_kind
from semistream.bench.framework.measurement import VALUE
from semistream.bench.framework.result_file import Result
from semistream.bench.framework.spec import load_spec, read_toml, spec_ids
from semistream.core.errors import InvalidArgument

__all__ = ["Judged", "Target", "judge_targets", "targets_of"]

Kind = Literal["value", "ratio", "growth", "crossing", "reach", "error", "near best"]


@dataclass(frozen=True)
class Judged:
    """One line: a target for one series and group.

    ``value`` is None if not measured. ``where`` names series, group and place, as far as the target leaves them open.
    ``met`` is None without a verdict: the line is not measured completely, the target has no limit, or the run has
    another size than the target.
    """

    target: "Target"
    value: float | None
    where: str = ""
    met: bool | None = None

    @property
    def name(self) -> str:
        return f"{self.target.text}, {self.where}" if self.where else self.target.text


@dataclass(frozen=True, kw_only=True)
class Target:
    """A value that a benchmark should reach, at ``least`` or at ``most``; without either it informs only."""

    text: str
    kind: Kind
    of: str | list[str]
    over: str | list[str] | None = None
    on: str = VALUE
    over_on: str | None = None
    at: float | Literal["first", "last", "every", "each"] = "last"
    group: str = "*"
    over_group: str | None = None
    together: bool = False
    clock: str = ""
    take: Literal["median", "worst"] = "median"
    near: float = 1.0
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        check_kind("target", self, _NEEDED)
        if self.least is not None and self.most is not None:
            raise InvalidArgument(f"a target has one limit, least or most: {self.text!r}")

    @property
    def has_limit(self) -> bool:
        return self.least is not None or self.most is not None

    @property
    def limit(self) -> float:
        """The limit; only for a target that has one."""
        return cast(float, self.most if self.least is None else self.least)

    @property
    def bound(self) -> str:
        word = "at most" if self.least is None else "at least"
        return f"{word} {self.limit:g}" if self.has_limit else "no limit"

    def is_met_by(self, value: float) -> bool:
        return value >= self.limit if self.least is not None else value <= self.limit

    def weakest(self, values: dict[str, float]) -> tuple[str, float]:
        """Return the worst value, with its name."""
        pick = min if self.least is not None else max
        unknown = [item for item in values.items() if math.isnan(item[1])]
        return unknown[0] if unknown else pick(values.items(), key=lambda item: item[1])

    def lines(self, result: Result) -> Iterator[Judged]:
        """Yield a line for every measured series and group."""
        spec = result.spec_as_run
        is_judged = self.has_limit and load_spec(result.benchmark).has_size_of_targets(spec.parameters(result.scale))
        found = list(_RULES[self.kind](self, result))
        for where, value in found:
            is_whole = self._is_whole(where, result)
            yield Judged(self, value, where, self.is_met_by(value) if is_judged and is_whole else None)
        if not found:
            yield Judged(self, None)

    def _is_whole(self, where: str, result: Result) -> bool:
        """Whether a line is measured completely: one place of two series, or its whole group, or all groups."""
        is_one_place = isinstance(self.at, float | int) and not isinstance(self.of, list)
        if self.kind in ("value", "ratio") and is_one_place and not self.together and not isinstance(self.over, list):
            return True
        if self.together or self.kind in ("error", "near best"):
            return result.is_complete
        groups = _fitting(list(dict.fromkeys(point.group for point in result.points)), self.group)
        named = [group for group in groups if group in where] if self.group not in groups else [self.group]
        return not any(group in name for group in named for name in result.missing)


def targets_of(benchmark: str) -> list[Target]:
    """Return the targets of a benchmark; none without a file."""
    path = files("semistream.bench") / "targets" / f"{benchmark}.toml"
    if not path.is_file():
        return []
    return [Target(**content) for content in read_toml(path.read_text(encoding="utf-8"), path.name)["target"]]


def judge_targets(result: Result) -> list[Judged]:
    """Compare a result with the targets of its benchmark; figures of papers have claims instead."""
    if result.benchmark not in spec_ids():
        return []
    return [line for target in targets_of(result.benchmark) for line in target.lines(result)]


_Found = Iterator[tuple[str, float]]


def _compared(target: Target, result: Result) -> _Found:
    """Yield values or ratios of every series and group."""
    curves, axis = Curves(result.points, target.on), result.spec_as_run.x
    over_curves = Curves(result.points, target.over_on or target.on)
    for name in _sides(curves.series, target):
        named = "" if name == target.of or isinstance(name, list) else name
        everywhere: dict[str, float] = {}
        for group in _fitting(curves.groups, target.group):
            over_group = group if target.over_group is None else target.over_group
            of, over = _side(curves, group, name), _side(over_curves, over_group, target.over)
            if of is None or (target.over is not None and over is None):
                continue
            grouped = "" if group == target.group else group
            values = {}
            for x in of.places(target.at):
                ratio = _ratio(of.at(x), 1.0 if over is None else over.at(x))
                if ratio is not None:
                    place = axis.text(x) if axis.ticks else f"{axis.label} {axis.text(x)}"
                    values[_joined(grouped, place if target.at in ("every", "each") else "")] = ratio
            if target.at == "each":
                yield from ((_joined(named, place), value) for place, value in values.items())
            elif values and not target.together:
                place, value = target.weakest(values)
                yield _joined(named, place if len(values) > 1 else grouped), value
            everywhere |= values
        if target.together and everywhere:
            place, value = target.weakest(everywhere)
            yield _joined(named, place), value


def _growth(target: Target, of: Curve, over: Curve) -> float | None:
    return None if len(of.x) < 2 else _ratio(of.y[-1], of.y[0])


def _crossing(target: Target, of: Curve, over: Curve) -> float:
    slower = [x for x, theirs in zip(over.x, over.y, strict=True) if (ours := of.near(x)) is None or ours >= theirs]
    later = [x for x in over.x if not slower or x > slower[-1]]
    return (later[0] if slower else 0.0) if later else math.inf


def _reach(target: Target, of: Curve, over: Curve) -> float | None:
    if isinstance(target.at, str) or (wanted := over.at(target.at)) is None:
        return None
    tried = [x for x in of.x if x <= target.at]
    enough = [x for x in tried if (of.at(x) or 0.0) >= wanted]
    # If nothing was enough, not even all of it, the value is the last one tried.
    return None if len(tried) < 2 else min(enough, default=target.at) / target.at


_COURSES: dict[str, Callable[[Target, Curve, Curve], float | None]] = {
    "growth": _growth,
    "crossing": _crossing,
    "reach": _reach,
}


def _courses(target: Target, result: Result) -> _Found:
    """Yield a value of both curves for every group; without ``over`` both are ``of``."""
    curves = Curves(result.points, target.on)
    for group in _fitting(curves.groups, target.group):
        of, over = _side(curves, group, target.of), _side(curves, group, target.over or target.of)
        value = None if of is None or over is None else _COURSES[target.kind](target, of, over)
        if value is not None:
            yield "" if group == target.group else group, value


def _error(target: Target, result: Result) -> _Found:
    errors = [
        abs(point.details[target.on][target.clock])
        for point in result.points
        if isinstance(target.of, str)
        and fnmatchcase(point.series, target.of)
        and fnmatchcase(point.group, target.group)
        and target.clock in point.details.get(target.on, {})
    ]
    if errors:
        taken = statistics.median(errors) if target.take == "median" else max(errors)
        yield f"{len(errors)} cells", math.nan if any(map(math.isnan, errors)) else taken


def _near_best(target: Target, result: Result) -> _Found:
    curves = Curves(result.points, target.on)
    near: list[bool] = []
    for group in _fitting(curves.groups, target.group):
        of, others = _side(curves, group, target.of), _curves_of(curves, group, target.over)
        for x, found in zip(of.x, of.y, strict=True) if of is not None else ():
            best = max((value for curve in others if (value := curve.at(x)) is not None), default=found)
            near.append(found >= target.near * best)
    if near:
        yield f"{len(near)} places", sum(near) / len(near)


_RULES: dict[str, Callable[[Target, Result], _Found]] = {
    "value": _compared,
    "ratio": _compared,
    **dict.fromkeys(_COURSES, _courses),
    "error": _error,
    "near best": _near_best,
}
_NEEDED = {kind: ("over",) if kind in ("ratio", "crossing", "reach", "near best") else () for kind in _RULES}


def _ratio(upper: float | None, lower: float | None) -> float | None:
    """Return upper / lower: infinity for x / 0, so that no place is left out; None for 0 / 0 or an absent value."""
    if upper is None or lower is None:
        return None
    if lower:
        return upper / lower
    return math.copysign(math.inf, upper) if upper else None


def _fitting(names: Sequence[str], pattern: str) -> list[str]:
    return [name for name in names if name == pattern or fnmatchcase(name, pattern)]


def _sides(names: Sequence[str], target: Target) -> Sequence[str | list[str]]:
    """Return the series of ``of``; a series is compared with itself only in another group or by another value."""
    if isinstance(target.of, list):
        return [target.of]
    is_apart = target.over_group is not None or target.over_on is not None
    return [name for name in _fitting(names, target.of) if is_apart or name != target.over]


def _curves_of(curves: Curves, group: str, patterns: str | list[str] | None) -> list[Curve]:
    """Return the measured curves of all series that fit."""
    listed = [patterns] if isinstance(patterns, str) else patterns or []
    fitting = dict.fromkeys(name for pattern in listed for name in _fitting(curves.series, pattern))
    return [curve for name in fitting if (curve := curves.of(group, name)) is not None]


def _side(curves: Curves, group: str, names: str | list[str] | None) -> Curve | None:
    """Return the curve of a series, or the lowest of several at each x."""
    if isinstance(names, str):
        return curves.of(group, names)
    found = _curves_of(curves, group, names)
    places = sorted({x for curve in found for x in curve.x})
    lowest = [min(value for curve in found if (value := curve.at(x)) is not None) for x in places]
    return Curve(tuple(places), tuple(lowest)) if places else None


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
