"""The rules by which a claim is borne out, and the claims that are recorded."""

import pytest

from semistream.bench.framework.curves import Curves
from semistream.bench.framework.measurement import Point
from semistream.bench.framework.spec import figure_ids, load_spec
from semistream.bench.reproduction.claim import Claim, Verdict, claimed_figures, claims_of, weakest
from semistream.core.errors import InvalidArgument


def _curves(**series: list[float]) -> Curves:
    points = [Point(name, float(x), {"value": y}) for name, values in series.items() for x, y in enumerate(values, 1)]
    return Curves(points, "value")


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (7.0, Verdict.REPRODUCED),
        (5.3, Verdict.REPRODUCED),
        (2.5, Verdict.IN_DIRECTION),
        (20.0, Verdict.IN_DIRECTION),
        (0.9, Verdict.NOT_REPRODUCED),
    ],
)
def test_a_ratio_is_held_against_the_papers(ours: float, verdict: Verdict) -> None:
    claim = Claim(text="", kind="ratio", of="a", over="b", at="last", paper=7.0)
    assert claim.judge(_curves(a=[1, ours], b=[1, 1])).verdict is verdict


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(1.4, Verdict.REPRODUCED), (1.1, Verdict.IN_DIRECTION), (1.01, Verdict.NOT_REPRODUCED)],
)
def test_a_small_gain_is_not_reproduced_by_none(ours: float, verdict: Verdict) -> None:
    claim = Claim(text="", kind="ratio", of="a", over="b", at="last", paper=1.33)
    assert claim.judge(_curves(a=[1, ours], b=[1, 1])).verdict is verdict


def test_a_ratio_below_one_is_in_direction_below_one() -> None:
    claim = Claim(text="", kind="ratio", of="a", over="b", at="first", paper=0.1)
    assert claim.judge(_curves(a=[1, 1], b=[2, 1])).verdict is Verdict.IN_DIRECTION
    assert claim.judge(_curves(a=[2, 1], b=[1, 1])).verdict is Verdict.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 2.0, 3.0], Verdict.REPRODUCED),
        ([1.0, 0.98, 3.0], Verdict.REPRODUCED),
        ([1.0, 0.5, 3.0], Verdict.IN_DIRECTION),
        ([1.0, 1.01, 1.02], Verdict.IN_DIRECTION),
        ([3.0, 2.0, 1.0], Verdict.NOT_REPRODUCED),
    ],
)
def test_rising_and_falling(values: list[float], verdict: Verdict) -> None:
    assert Claim(text="", kind="rises", of="a").judge(_curves(a=values)).verdict is verdict
    falling = [10 - value for value in values]
    found = Claim(text="", kind="falls", of="a").judge(_curves(a=[10 * value for value in falling])).verdict
    assert (found is Verdict.NOT_REPRODUCED) == (verdict is Verdict.NOT_REPRODUCED)


@pytest.mark.parametrize(
    ("values", "place", "verdict"),
    [
        ([1.0, 3.0, 2.0, 1.0], None, Verdict.REPRODUCED),
        ([1.0, 3.0, 2.0, 1.0], 2.0, Verdict.REPRODUCED),
        ([1.0, 3.0, 2.0, 1.0], 10.0, Verdict.IN_DIRECTION),
        ([1.0, 2.0, 3.0, 4.0], None, Verdict.NOT_REPRODUCED),
        ([1.0, 1.01, 1.0, 0.5], None, Verdict.NOT_REPRODUCED),
    ],
)
def test_one_maximum_or_minimum(values: list[float], place: float | None, verdict: Verdict) -> None:
    assert Claim(text="", kind="peak", of="a", paper=place).judge(_curves(a=values)).verdict is verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([10.0, 20.0, 10.5], Verdict.REPRODUCED),
        ([10.0, 20.0, 10.1], Verdict.IN_DIRECTION),
        ([10.0, 20.0, 10.0], Verdict.NOT_REPRODUCED),
        ([10.0], Verdict.NOT_MEASURED),
    ],
)
def test_a_gain_over_the_first(values: list[float], verdict: Verdict) -> None:
    assert Claim(text="", kind="gains", of="a", at="last").judge(_curves(a=values)).verdict is verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([10.0, 10.4, 8.0], Verdict.REPRODUCED),
        ([10.0, 11.0, 10.0], Verdict.IN_DIRECTION),
        ([10.0, 9.0, 11.0], Verdict.NOT_REPRODUCED),
        ([10.0], Verdict.NOT_MEASURED),
    ],
)
def test_no_gain_over_the_first(values: list[float], verdict: Verdict) -> None:
    assert Claim(text="", kind="level", of="a").judge(_curves(a=values)).verdict is verdict


def test_one_minimum() -> None:
    claim = Claim(text="", kind="low", of="a")
    assert claim.judge(_curves(a=[3, 1, 2])).verdict is Verdict.REPRODUCED
    assert claim.judge(_curves(a=[1, 2, 3])).verdict is Verdict.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("upper", "verdict"),
    [
        ([2.0, 2.0, 2.0], Verdict.REPRODUCED),
        ([1.01, 2.0, 2.0], Verdict.IN_DIRECTION),
        ([0.5, 2.0, 2.0], Verdict.IN_DIRECTION),
        ([0.5, 0.5, 2.0], Verdict.NOT_REPRODUCED),
    ],
)
def test_one_curve_above_another(upper: list[float], verdict: Verdict) -> None:
    found = Claim(text="", kind="above", of="a", over="b").judge(_curves(a=upper, b=[1, 1, 1]))
    assert found.verdict is verdict


def test_above_at_one_place_looks_there_alone() -> None:
    claim = Claim(text="", kind="above", of="a", over="b", at="first")
    assert claim.judge(_curves(a=[2, 0.5, 0.5], b=[1, 1, 1])).verdict is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(0.5, Verdict.REPRODUCED), (0.8, Verdict.IN_DIRECTION), (0.1, Verdict.NOT_REPRODUCED)],
)
def test_a_value(ours: float, verdict: Verdict) -> None:
    claim = Claim(text="", kind="value", of="a", at=1.0, paper=0.51)
    assert claim.judge(_curves(a=[ours, 9])).verdict is verdict


@pytest.mark.parametrize(
    ("predicted", "verdict"),
    [
        ([1.1, 0.9, 1.0], Verdict.REPRODUCED),
        ([1.3, 0.7, 1.0], Verdict.IN_DIRECTION),
        ([2.0, 2.0, 1.0], Verdict.NOT_REPRODUCED),
    ],
)
def test_prediction_and_measurement(predicted: list[float], verdict: Verdict) -> None:
    claim = Claim(text="", kind="agree", of="p", over="m")
    assert claim.judge(_curves(p=predicted, m=[1, 1, 1])).verdict is verdict


def test_the_largest_ratio() -> None:
    claim = Claim(text="", kind="ratio", of="a", over="b", at="best", paper=2.5)
    assert claim.judge(_curves(a=[1, 2.4, 1], b=[1, 1, 1])).verdict is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("after", "verdict"),
    [(5.0, Verdict.REPRODUCED), (9.0, Verdict.IN_DIRECTION), (11.0, Verdict.NOT_REPRODUCED)],
)
def test_a_drop_in_the_middle(after: float, verdict: Verdict) -> None:
    claim = Claim(text="", kind="drops", of="a", paper=0.5)
    assert claim.judge(_curves(a=[2, 10, 10, 10, 1, after, after, after])).verdict is verdict


def test_bursts() -> None:
    claim = Claim(text="", kind="bursts", of="a")
    assert claim.judge(_curves(a=[0, 0, 0, 0, 9])).verdict is Verdict.REPRODUCED
    assert claim.judge(_curves(a=[1, 1, 1, 3])).verdict is Verdict.IN_DIRECTION
    assert claim.judge(_curves(a=[1, 1, 1, 1])).verdict is Verdict.NOT_REPRODUCED


def test_what_was_not_measured_gets_no_verdict() -> None:
    claim = Claim(text="", kind="ratio", of="a", over="b", at=5.0, paper=2.0)
    assert claim.judge(_curves(a=[1, 2], b=[1, 2])).verdict is Verdict.NOT_MEASURED
    assert claim.judge(_curves(a=[1, 2])).verdict is Verdict.NOT_MEASURED


def test_the_weakest_group_decides() -> None:
    points = [
        Point("a", x, {"value": x * sign}, group=group) for x in (1.0, 2.0) for group, sign in (("g", 1), ("h", -1))
    ]
    found = Claim(text="", kind="rises", of="a").judge(Curves(points, "value"))
    assert found.verdict is Verdict.NOT_REPRODUCED
    assert "g:" in found.ours
    assert "h:" in found.ours


def test_a_figure_is_as_good_as_its_weakest_claim() -> None:
    assert weakest([Verdict.REPRODUCED, Verdict.NOT_REPRODUCED]) is Verdict.NOT_REPRODUCED
    assert weakest([]) is Verdict.NOT_MEASURED


def test_a_claim_says_what_it_needs() -> None:
    with pytest.raises(InvalidArgument, match="needs over"):
        Claim(text="x", kind="ratio", of="a", at="last", paper=2.0)
    with pytest.raises(InvalidArgument, match="unknown"):
        Claim(text="x", kind="best", of="a")  # type: ignore[arg-type]


def test_there_are_claims_of_every_figure() -> None:
    assert sorted(claimed_figures()) == sorted(figure_ids())


@pytest.mark.parametrize("figure", claimed_figures())
def test_claims_speak_of_series_that_the_figure_has(figure: str) -> None:
    series = set(load_spec(figure).series)
    known = series | {f"{name} {word}" for name in series for word in ("predicted", "measured")}
    for claim in claims_of(figure):
        assert {claim.of, claim.over} - {None} <= known


@pytest.mark.parametrize("figure", claimed_figures())
def test_every_recorded_claim_can_be_judged(figure: str) -> None:
    claims = claims_of(figure)
    assert claims
    for claim in claims:
        assert claim.judge(_curves()).verdict is Verdict.NOT_MEASURED
