"""Targets: the rules, and what results say of them."""

import math
from dataclasses import replace
from typing import Any, Literal

import pytest

from semistream.bench.framework.measurement import Point
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import Judged, Target
from semistream.core.errors import InvalidArgument


def result_of(points: list[Point], **parameters: Any) -> Result:
    spec = load_spec("operators")
    spec = spec.with_parameters("full", parameters)
    finished = (Finished("", "", 0.0, tuple(points)),)
    return Result("operators", "full", spec.as_run("full"), collect_provenance(0), finished)


def curve(series: str, values: dict[float, float], group: str = "") -> list[Point]:
    return [Point(series, x, {"value": y}, {"twice": 2 * y}, group) for x, y in values.items()]


def lines(target: Target, points: list[Point]) -> dict[str, float | None]:
    return {line.where: line.value for line in target.lines(result_of(points))}


def test_a_ratio_at_a_place() -> None:
    points = curve("a", {1.0: 6.0, 5.0: 8.0}) + curve("b", {1.0: 2.0, 5.0: 4.0})
    target = Target(text="t", kind="ratio", of="a", over="b", at=5.0, group="", least=2.0)
    assert lines(target, points) == {"": 2.0}
    assert lines(replace(target, at="first"), points) == {"": 3.0}
    assert lines(replace(target, at="last", on="twice"), points) == {"": 2.0}
    assert lines(replace(target, at=3.0), points) == {"": None}
    assert lines(replace(target, of="c"), points) == {"": None}


def test_of_every_place_the_weakest_counts() -> None:
    points = curve("a", {1.0: 6.0, 5.0: 8.0}) + curve("b", {1.0: 2.0, 5.0: 4.0})
    target = Target(text="t", kind="ratio", of="a", over="b", at="every", group="", least=2.5)
    assert lines(target, points) == {"memory 5": 2.0}
    assert lines(replace(target, least=None, most=2.5), points) == {"memory 1": 3.0}


@pytest.mark.parametrize("at", [1.0, 5.0])
def test_a_place_that_cannot_be_told_or_has_nothing_below_it_is_not_left_out(at: float) -> None:
    ours = {1.0: 2.0, 5.0: 2.0}
    target = Target(text="t", kind="ratio", of="a", over="b", at="every", group="", most=1.5)
    unknown = curve("a", ours) + curve("b", {1.0: 2.0, 5.0: 2.0, at: math.nan})
    assert [line.met for line in target.lines(result_of(unknown))] == [False]
    nothing = curve("a", ours) + curve("b", {1.0: 2.0, 5.0: 2.0, at: 0.0})
    assert lines(target, nothing) == {f"memory {at:g}": math.inf}
    growth = Target(text="t", kind="growth", of="a", group="", most=1.5)
    assert lines(growth, curve("a", {1.0: 0.0, 5.0: 2.0})) == {"": math.inf}
    assert lines(growth, curve("a", {1.0: 0.0, 5.0: 0.0})) == {"": None}


@pytest.mark.parametrize("errors", [(0.1, math.nan), (math.nan, 0.1)])
@pytest.mark.parametrize("take", ["median", "worst"])
def test_an_error_that_cannot_be_told_is_no_small_one(
    errors: tuple[float, float], take: Literal["median", "worst"]
) -> None:
    points = [Point("A", x, {"value": 1.0}, {"error": {"disk": error}}) for x, error in enumerate(errors)]
    target = Target(text="t", kind="error", of="A", on="error", clock="disk", take=take, most=0.4)
    assert [line.met for line in target.lines(result_of(points))] == [False]


def test_each_series_and_group_that_fits_is_a_line_or_the_weakest_of_all_groups() -> None:
    points = [
        point
        for group, factor in (("small, skew 1", 1.0), ("large, skew 1", 2.0), ("large, skew 0", 100.0))
        for series, value in (("a", 2.0), ("c", 3.0), ("b", 1.0))
        for point in curve(series, {1.0: value * (factor if series != "b" else 1.0)}, group)
    ]
    target = Target(text="t", kind="ratio", of="*", over="b", group="*, skew 1", most=3.0)
    assert lines(target, points) == {
        "a, small, skew 1": 2.0,
        "a, large, skew 1": 4.0,
        "c, small, skew 1": 3.0,
        "c, large, skew 1": 6.0,
    }
    assert lines(replace(target, together=True), points) == {"a, large, skew 1": 4.0, "c, large, skew 1": 6.0}
    across = Target(
        text="t", kind="ratio", of="a", over="a", group="large, skew 1", over_group="small, skew 1", most=1.5
    )
    assert lines(across, points) == {"": 2.0}


def test_a_list_is_the_lowest_at_each_place() -> None:
    points = curve("x", {1.0: 5.0, 2.0: 9.0}) + curve("y", {1.0: 7.0, 2.0: 3.0}) + curve("ours", {1.0: 1.0, 2.0: 2.0})
    target = Target(text="t", kind="ratio", of=["x", "y", "absent"], over="ours", at="every", group="", least=2.0)
    assert lines(target, points) == {"memory 2": 1.5}
    assert lines(replace(target, of="ours", over=["x", "y"], at=1.0), points) == {"": 0.2}


@pytest.mark.parametrize(
    ("rates", "value"),
    [
        ({5.0: 300, 2.5: 150, 1.25: 99}, 0.5),
        ({5.0: 300, 2.5: 150, 1.25: 101}, 0.25),
        ({5.0: 300, 2.5: 99}, 1.0),
        ({5.0: 90, 2.5: 50}, 1.0),  # not even the whole is enough
        ({5.0: 300}, None),
    ],
)
def test_how_far_down_a_rate_is_reached(rates: dict[float, float], value: float | None) -> None:
    target = Target(text="t", kind="reach", of="s", over="m", at=5.0, group="", most=0.5)
    assert lines(target, curve("s", rates) + curve("m", {5.0: 100.0})) == {"": value}


def test_errors_are_pooled_and_those_of_others_left_out() -> None:
    def point(series: str, error: float) -> Point:
        return Point(series, 1.0, {"value": 1.0}, {"error": {"disk": error}})

    points = [
        point("A measured", -0.5),
        point("B measured", 0.1),
        point("C measured", 0.2),
        point("advised measured", 9),
    ]
    target = Target(text="t", kind="error", of="[A-Z]* measured", on="error", clock="disk", most=0.4)
    assert lines(target, points) == {"3 cells": 0.2}
    assert lines(replace(target, take="worst"), points) == {"3 cells": 0.5}
    assert lines(replace(target, clock="moon"), points) == {"": None}


def test_advice_is_held_against_the_best_of_all() -> None:
    points = curve("A measured", {1.0: 100.0, 2.0: 100.0}) + curve("B measured", {1.0: 50.0, 2.0: 200.0})
    points += curve("advised measured", {1.0: 86.0, 2.0: 100.0})
    target = Target(text="t", kind="near best", of="advised measured", over="* measured", near=0.85, least=0.9)
    assert lines(target, points) == {"2 places": 0.5}
    assert lines(target, points + curve("advised measured", {2.0: 171.0})) == {"2 places": 1.0}
    # Advice that does not work answers nothing, and is bad.
    assert lines(target, points + curve("advised measured", {1.0: 0.0, 2.0: 0.0})) == {"2 places": 0.0}


def test_only_the_size_of_the_targets_is_judged() -> None:
    points = curve("a", {1.0: 3.0})
    target = Target(text="three", kind="value", of="a", group="", least=2.0)
    assert [line.met for line in target.lines(result_of(points))] == [True]
    assert [line.met for line in replace(target, least=4.0).lines(result_of(points))] == [False]
    assert [line.met for line in target.lines(result_of(points, rows=[2_000_000]))] == [True]
    assert [line.met for line in target.lines(result_of(points, page_bytes=4096))] == [None]
    assert list(target.lines(result_of([]))) == [Judged(target, None)]
    assert Judged(target, 1.0, "here").name == "three, here"


def test_what_is_measured_in_part_is_not_judged_by_what_is_missing() -> None:
    points = curve("x", {1.0: 5.0}, "small") + curve("y", {1.0: 3.0}, "small") + curve("x", {1.0: 5.0}, "large")
    target = Target(text="t", kind="value", of=["x", "y"], least=2.0)
    whole = result_of(points)

    def verdicts(target: Target, *missing: str) -> list[bool | None]:
        return [line.met for line in target.lines(replace(whole, missing=missing))]

    assert verdicts(target) == [True, True]
    assert verdicts(target, "z, large, 1") == [True, None]  # z may be the lowest there
    assert verdicts(replace(target, of="x", at=1.0), "z, large, 1") == [True, True]
    assert verdicts(replace(target, of="x", at="every"), "x, large, 2") == [True, None]
    assert verdicts(replace(target, of="x", at="every", together=True), "x, large, 2") == [None]
    assert verdicts(replace(target, of="x", group="large"), "x, large, 2") == [None]
    assert verdicts(replace(target, of="x", group="large"), "x, small, 2") == [True]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "luck", "most": 1.0}, "kind='luck' of a target is unknown: use one of value"),
        ({"kind": "value", "least": 1.0, "most": 2.0}, "one limit, least or most"),
        ({"kind": "ratio", "most": 1.0}, "needs over"),
    ],
)
def test_a_target_that_is_not_complete_says_so(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Target(**{"text": "t", "of": "a", **wrong})
