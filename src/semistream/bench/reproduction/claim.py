"""Claims of the papers, as data, and the rules that judge them by measured points.

A claim is of one of these kinds; ``of`` and ``over`` name series of the figure.

==========  ==================================================================================================
kind        reproduced when (in direction when)
==========  ==================================================================================================
``ratio``   of / over at x, or where it is largest, lies within 25% of the paper's ratio, and at least half as far from
            1 (on the same side of 1, and 2% away)
``rises``   each value is at least 95% of the one before, and the last 5% above the first (the last is above the first)
``falls``   the same, downwards
``gains``   the value at x lies 2% above the one at the first x (above it)
``level``   no value lies more than 5% above the one at the first x (the last does not)
``peak``    the largest value lies inside, 2% above both ends, and near the paper's place (anywhere inside)
``low``     the same for the smallest value
``above``   of lies 2% above over at every x, or at the one that is given (2% above at more than half of them)
``value``   the value at x lies within 25% of the paper's (within a factor of 2)
``agree``   of is off from over by at most 15%, as a median (40%)
``bursts``  the largest value is at least 4 times the mean (twice)
``drops``   from the last quarter before the middle to the last quarter the mean falls to the paper's part, within 25%
            (it falls)
==========  ==================================================================================================
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import fmean, median
from typing import Literal, NamedTuple

from semistream.bench.framework.curves import Curve, Curves
from semistream.core.errors import InvalidArgument

__all__ = ["Claim", "Finding", "Kind", "Verdict", "weakest"]

Kind = Literal["ratio", "rises", "falls", "gains", "level", "peak", "low", "above", "value", "agree", "bursts", "drops"]

_CLOSE = 0.25
_STEP = 0.05
_CLEAR = 0.02
_GAINED = 0.5
_NEAR = 2.0  # a peak at up to this multiple or part of the paper's place is near it
_GOOD_MODEL, _FAIR_MODEL = 0.15, 0.40
_BURSTY, _UNEVEN = 4.0, 2.0


class Verdict(Enum):
    """From best to worst; the text is what the report says."""

    REPRODUCED = "reproduced"
    IN_DIRECTION = "reproduced in direction"
    NOT_REPRODUCED = "not reproduced"
    NOT_MEASURED = "not measured"


class Finding(NamedTuple):
    """The measured value for one claim on one clock, as a short text, and the verdict."""

    ours: str
    verdict: Verdict


_NOT_MEASURED = Finding("-", Verdict.NOT_MEASURED)


def weakest(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of several verdicts: a figure is as good as its weakest claim.

    Examples
    --------
    >>> weakest([Verdict.REPRODUCED, Verdict.IN_DIRECTION]).value
    'reproduced in direction'
    """
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.NOT_MEASURED)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper about one figure.

    Attributes
    ----------
    text
        The statement, in our words.
    of, over
        Series of the figure.
    at
        The x at which values are compared; ``"first"`` and ``"last"`` are the ends of the axis, ``"best"`` is where a
        ratio is largest.
    paper
        The paper's number, where it gives one: a ratio, a value, or the place of a peak.
    group
        One of the figure's groups; by default all, and the weakest counts.
    """

    text: str
    kind: Kind
    of: str
    over: str | None = None
    at: float | Literal["first", "last", "best"] | None = None
    paper: float | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _RULES:
            raise InvalidArgument(f"kind={self.kind!r} of a claim is unknown: use one of {', '.join(_RULES)}")
        needed = {
            "ratio": ("over", "at", "paper"),
            "above": ("over",),
            "agree": ("over",),
            "gains": ("at",),
            "value": ("at", "paper"),
            "drops": ("paper",),
        }
        for name in needed.get(self.kind, ()):
            if getattr(self, name) is None:
                raise InvalidArgument(f"a claim of kind {self.kind!r} needs {name}: {self.text!r}")

    def judge(self, curves: Curves) -> Finding:
        """Judge the claim by the curves of one clock."""
        groups = curves.groups if self.group is None else [self.group]
        findings = [self._judge(curves, group) for group in groups]
        if not findings:
            return _NOT_MEASURED
        order = list(Verdict)
        worst = max(findings, key=lambda finding: order.index(finding.verdict))
        if len(findings) == 1:
            return worst
        texts = [f"{group}: {finding.ours}" for group, finding in zip(groups, findings, strict=True)]
        return Finding("; ".join(texts), worst.verdict)

    def _judge(self, curves: Curves, group: str) -> Finding:
        of = curves.of(group, self.of)
        over = None if self.over is None else curves.of(group, self.over)
        if of is None or (self.over is not None and over is None):
            return _NOT_MEASURED
        return _RULES[self.kind](self, of, over)

    def _x(self, curve: Curve) -> float:
        if self.at == "first":
            return curve.x[0]
        return self.at if isinstance(self.at, float) else curve.x[-1]


def _finding(ours: str, is_reproduced: bool, is_in_direction: bool) -> Finding:
    if is_reproduced:
        return Finding(ours, Verdict.REPRODUCED)
    return Finding(ours, Verdict.IN_DIRECTION if is_in_direction else Verdict.NOT_REPRODUCED)


def _ratio(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    assert over is not None
    assert claim.paper is not None
    places = of.x if claim.at == "best" else (claim._x(of),)
    ratios = [upper / lower for x in places if (upper := of.at(x)) is not None and (lower := over.at(x))]
    if not ratios:
        return _NOT_MEASURED
    ratio = max(ratios)
    gain, papers_gain = ratio - 1, claim.paper - 1
    is_clear = gain * papers_gain > 0 and abs(gain) >= _CLEAR
    # 1.01 lies within 25% of 1.33, and is no gain of a third.
    is_close = is_clear and _is_close(ratio, claim.paper) and gain / papers_gain >= _GAINED
    return _finding(f"{ratio:.3g}x", is_close, is_clear)


def _is_close(ours: float, paper: float) -> bool:
    return abs(ours - paper) <= _CLOSE * abs(paper)


def _value(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    assert claim.paper is not None
    value = of.at(claim._x(of))
    if value is None:
        return _NOT_MEASURED
    return _finding(f"{value:.3g}", _is_close(value, claim.paper), claim.paper / 2 <= value <= claim.paper * 2)


def _rises(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    return _trend(of.y, of.y)


def _falls(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    return _trend(of.y, [-value for value in of.y])


def _trend(values: Sequence[float], upwards: Sequence[float]) -> Finding:
    if len(values) < 2:
        return _NOT_MEASURED
    size = max(abs(value) for value in values) or 1.0
    steady = all(after >= before - _STEP * abs(before) for before, after in pairwise(upwards))
    rise = upwards[-1] - upwards[0]
    is_reproduced = steady and rise >= _STEP * min(abs(values[0]) or size, size)
    return _finding(f"{values[0]:.3g} -> {values[-1]:.3g}", is_reproduced, rise > 0)


def _gains(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    value = of.at(claim._x(of))
    if value is None or len(of.y) < 2:
        return _NOT_MEASURED
    ratio = value / of.y[0] if of.y[0] else math.inf
    return _finding(f"{ratio:.3g}x", ratio >= 1 + _CLEAR, ratio > 1)


def _level(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    if len(of.y) < 2:
        return _NOT_MEASURED
    most = of.y[0] * (1 + _STEP)
    return _finding(f"{of.y[0]:.3g} -> {of.y[-1]:.3g}", max(of.y) <= most, of.y[-1] <= most)


def _peak(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    return _turn(claim, of, of.y, "highest")


def _low(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    return _turn(claim, of, [-value for value in of.y], "lowest")


def _turn(claim: Claim, of: Curve, upwards: Sequence[float], word: str) -> Finding:
    if len(upwards) < 3:
        return _NOT_MEASURED
    best = max(range(len(upwards)), key=upwards.__getitem__)
    ours = f"{word} at {of.x[best]:.3g}"
    ends = max(upwards[0], upwards[-1])
    if best in (0, len(upwards) - 1) or upwards[best] - ends < _CLEAR * abs(upwards[best]):
        return Finding(f"{ours}, no clear turn", Verdict.NOT_REPRODUCED)
    is_near = claim.paper is None or claim.paper / _NEAR <= of.x[best] <= claim.paper * _NEAR
    return _finding(ours, is_near, True)


def _above(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    assert over is not None
    places = of.x if claim.at is None else (claim._x(of),)
    pairs = [(value, lower) for x in places if (value := of.at(x)) is not None and (lower := over.near(x)) is not None]
    if not pairs:
        return _NOT_MEASURED
    above = sum(value - lower >= _CLEAR * abs(lower) and value > lower for value, lower in pairs)
    ratios = [value / lower for value, lower in pairs if lower]
    ours = f"{min(ratios):.3g}x to {max(ratios):.3g}x" if ratios else f"{above} of {len(pairs)}"
    return _finding(ours, above == len(pairs), above > len(pairs) / 2)


def _agree(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    assert over is not None
    errors = [
        abs(value - other) / abs(other)
        for x, value in zip(of.x, of.y, strict=True)
        if (other := over.at(x)) is not None and other
    ]
    if not errors:
        return _NOT_MEASURED
    error = median(errors)
    ours = f"off by {error:.0%} (median), {max(errors):.0%} (worst)"
    return _finding(ours, error <= _GOOD_MODEL, error <= _FAIR_MODEL)


def _bursts(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    burst = max(of.y) / (sum(of.y) / len(of.y))
    return _finding(f"highest {burst:.3g} times the mean", burst >= _BURSTY, burst >= _UNEVEN)


def _drops(claim: Claim, of: Curve, over: Curve | None) -> Finding:
    assert claim.paper is not None
    quarter = len(of.y) // 4
    if not quarter:
        return _NOT_MEASURED
    part = fmean(of.y[-quarter:]) / fmean(of.y[quarter : 2 * quarter])
    return _finding(f"to {part:.3g} of it", _is_close(part, claim.paper), part < 1)


_RULES: dict[str, Callable[[Claim, Curve, Curve | None], Finding]] = {
    "ratio": _ratio,
    "rises": _rises,
    "falls": _falls,
    "gains": _gains,
    "level": _level,
    "peak": _peak,
    "low": _low,
    "above": _above,
    "value": _value,
    "agree": _agree,
    "bursts": _bursts,
    "drops": _drops,
}
