"""Claims of the papers, as data in ``claims``, and the rules that judge them by measured points.

A claim is of one of these kinds; ``of`` and ``over`` name series of the figure. ``at`` is the x at which values are
compared: a number, ``"first"``, ``"last"``, or ``"best"``, where a ratio is largest. ``paper`` is the paper's number: a
ratio, a value, or the place of a peak. Without ``group`` all groups of the figure are judged, and the weakest counts.

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
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib.resources import files
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from semistream.bench.framework.curves import Curve, Curves, check_kind
from semistream.bench.framework.measurement import MACHINE, VALUE
from semistream.bench.framework.result_file import Result
from semistream.bench.framework.spec import read_toml
from semistream.cost.clock import HDD

__all__ = [
    "DISK_CLOCK",
    "MACHINE_CLOCK",
    "Claim",
    "JudgedFigure",
    "Verdict",
    "claimed_figures",
    "claims_of",
    "judge",
    "weakest",
]

DISK_CLOCK, MACHINE_CLOCK = HDD.name, MACHINE

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


def weakest(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of several verdicts: a figure is as good as its weakest claim."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.NOT_MEASURED)


class Finding(NamedTuple):
    """The measured value for one claim on one clock, as a short text, and the verdict."""

    ours: str
    verdict: Verdict


_NOT_MEASURED = Finding("-", Verdict.NOT_MEASURED)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper about one figure, in our words."""

    text: str
    kind: Kind
    of: str
    over: str | None = None
    at: float | Literal["first", "last", "best"] | None = None
    paper: float | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        check_kind("claim", self, {kind: rule.needed for kind, rule in _RULES.items()})

    def judge(self, curves: Curves) -> Finding:
        """Judge the claim by the curves of one clock."""
        groups = curves.groups if self.group is None else [self.group]
        findings = [self._judge(curves, group) for group in groups]
        if len(findings) == 1:
            return findings[0]
        texts = [f"{group}: {finding.ours}" for group, finding in zip(groups, findings, strict=True)]
        return Finding("; ".join(texts) or "-", weakest([finding.verdict for finding in findings]))

    def _judge(self, curves: Curves, group: str) -> Finding:
        rule = _RULES[self.kind]
        of, over = curves.of(group, self.of), curves.of(group, self.over or self.of)
        if of is None or over is None or len(of.x) < rule.least_points:
            return _NOT_MEASURED
        found = rule.judge(self, of, over)
        if found is None:
            return _NOT_MEASURED
        ours, is_reproduced, is_in_direction = found
        if is_reproduced:
            return Finding(ours, Verdict.REPRODUCED)
        return Finding(ours, Verdict.IN_DIRECTION if is_in_direction else Verdict.NOT_REPRODUCED)


_Found = tuple[str, bool, bool]
"""The measured value as a text, whether the claim is reproduced, and whether it is in direction."""


class _Rule(NamedTuple):
    """How to judge claims of one kind, the fields that they need, and how many points."""

    judge: Callable[[Claim, Curve, Curve], _Found | None]
    needed: tuple[str, ...] = ()
    least_points: int = 1


def _is_close(ours: float, paper: float) -> bool:
    return abs(ours - paper) <= _CLOSE * abs(paper)


def _ratio(claim: Claim, of: Curve, over: Curve) -> _Found | None:
    assert claim.paper is not None
    places = of.places(claim.at)
    ratios = [upper / lower for x in places if (upper := of.at(x)) is not None and (lower := over.at(x))]
    if not ratios:
        return None
    ratio = max(ratios)
    gain, papers_gain = ratio - 1, claim.paper - 1
    is_clear = gain * papers_gain > 0 and abs(gain) >= _CLEAR
    # 1.01 lies within 25% of 1.33, and is no gain of a third.
    is_close = is_clear and _is_close(ratio, claim.paper) and gain / papers_gain >= _GAINED
    return f"{ratio:.3g}x", is_close, is_clear


def _value(claim: Claim, of: Curve, over: Curve) -> _Found | None:
    assert claim.paper is not None
    value = of.at(of.places(claim.at)[0])
    if value is None:
        return None
    return f"{value:.3g}", _is_close(value, claim.paper), claim.paper / 2 <= value <= claim.paper * 2


def _trend(claim: Claim, of: Curve, over: Curve, sign: int) -> _Found:
    upwards = [sign * value for value in of.y]
    size = max(abs(value) for value in of.y) or 1.0
    steady = all(after >= before - _STEP * abs(before) for before, after in pairwise(upwards))
    rise = upwards[-1] - upwards[0]
    is_reproduced = steady and rise >= _STEP * min(abs(of.y[0]) or size, size)
    return f"{of.y[0]:.3g} -> {of.y[-1]:.3g}", is_reproduced, rise > 0


def _gains(claim: Claim, of: Curve, over: Curve) -> _Found | None:
    value = of.at(of.places(claim.at)[0])
    if value is None:
        return None
    ratio = value / of.y[0] if of.y[0] else math.inf
    return f"{ratio:.3g}x", ratio >= 1 + _CLEAR, ratio > 1


def _level(claim: Claim, of: Curve, over: Curve) -> _Found:
    most = of.y[0] * (1 + _STEP)
    return f"{of.y[0]:.3g} -> {of.y[-1]:.3g}", max(of.y) <= most, of.y[-1] <= most


def _turn(claim: Claim, of: Curve, over: Curve, sign: int) -> _Found:
    upwards = [sign * value for value in of.y]
    best = max(range(len(upwards)), key=upwards.__getitem__)
    ours = f"{'highest' if sign > 0 else 'lowest'} at {of.x[best]:.3g}"
    ends = max(upwards[0], upwards[-1])
    if best in (0, len(upwards) - 1) or upwards[best] - ends < _CLEAR * abs(upwards[best]):
        return f"{ours}, no clear turn", False, False
    is_near = claim.paper is None or claim.paper / _NEAR <= of.x[best] <= claim.paper * _NEAR
    return ours, is_near, True


def _above(claim: Claim, of: Curve, over: Curve) -> _Found | None:
    places = of.places(claim.at)
    pairs = [(value, lower) for x in places if (value := of.at(x)) is not None and (lower := over.near(x)) is not None]
    if not pairs:
        return None
    above = sum(value - lower >= _CLEAR * abs(lower) and value > lower for value, lower in pairs)
    ratios = [value / lower for value, lower in pairs if lower]
    ours = f"{min(ratios):.3g}x to {max(ratios):.3g}x" if ratios else f"{above} of {len(pairs)}"
    return ours, above == len(pairs), above > len(pairs) / 2


def _agree(claim: Claim, of: Curve, over: Curve) -> _Found | None:
    pairs = [(value, other) for x, value in zip(of.x, of.y, strict=True) if (other := over.at(x))]
    if not pairs:
        return None
    errors = [abs(value - other) / abs(other) for value, other in pairs]
    error = median(errors)
    ours = f"off by {error:.0%} (median), {max(errors):.0%} (worst)"
    return ours, error <= _GOOD_MODEL, error <= _FAIR_MODEL


def _bursts(claim: Claim, of: Curve, over: Curve) -> _Found:
    burst = max(of.y) / (sum(of.y) / len(of.y))
    return f"highest {burst:.3g} times the mean", burst >= _BURSTY, burst >= _UNEVEN


def _drops(claim: Claim, of: Curve, over: Curve) -> _Found:
    assert claim.paper is not None
    quarter = len(of.y) // 4
    part = fmean(of.y[-quarter:]) / fmean(of.y[quarter : 2 * quarter])
    return f"to {part:.3g} of it", _is_close(part, claim.paper), part < 1


_RULES = {
    "ratio": _Rule(_ratio, ("over", "at", "paper")),
    "rises": _Rule(partial(_trend, sign=1), least_points=2),
    "falls": _Rule(partial(_trend, sign=-1), least_points=2),
    "gains": _Rule(_gains, ("at",), least_points=2),
    "level": _Rule(_level, least_points=2),
    "peak": _Rule(partial(_turn, sign=1), least_points=3),
    "low": _Rule(partial(_turn, sign=-1), least_points=3),
    "above": _Rule(_above, ("over",)),
    "value": _Rule(_value, ("at", "paper")),
    "agree": _Rule(_agree, ("over",)),
    "bursts": _Rule(_bursts),
    "drops": _Rule(_drops, ("paper",), least_points=4),
}


@cache
def _all_claims() -> dict[str, list[dict[str, Any]]]:
    claims: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((files("semistream.bench") / "claims").iterdir(), key=lambda file: file.name):
        claims.update(read_toml(file.read_text(encoding="utf-8"), file.name))
    return claims


def claims_of(figure: str) -> list[Claim]:
    """Return the paper's claims of a figure."""
    return [Claim(**content) for content in _all_claims().get(figure, [])]


def claimed_figures() -> list[str]:
    """Return the figures with claims."""
    return list(_all_claims())


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, and the findings on the disk's clock and on this machine's."""

    claim: Claim
    on_disk: Finding
    on_machine: Finding


@dataclass(frozen=True)
class JudgedFigure:
    """A figure and its claims; unless it was measured on both clocks, the findings on both are the same."""

    result: Result
    claims: tuple[JudgedClaim, ...]
    has_clocks: bool

    @property
    def on_disk(self) -> Verdict:
        """On the disk that the papers' machines had: the verdict of the figure."""
        return weakest([judged.on_disk.verdict for judged in self.claims])

    @property
    def on_machine(self) -> Verdict:
        return weakest([judged.on_machine.verdict for judged in self.claims])


def judge(result: Result) -> JudgedFigure:
    """Judge the claims of a figure by its result.

    Values that depend on no clock are judged once, and values on one clock by that clock.
    """
    on_disk, on_machine, plain = (Curves(result.points, shown) for shown in (DISK_CLOCK, MACHINE_CLOCK, VALUE))
    claims = tuple(
        JudgedClaim(claim, claim.judge(on_disk or on_machine or plain), claim.judge(on_machine or on_disk or plain))
        for claim in claims_of(result.benchmark)
    )
    return JudgedFigure(result, claims, bool(on_disk and on_machine))
