"""Targets that speak of the course of a series, and those without a limit."""

import math
from collections.abc import Sequence

import pytest

from semistream.bench.framework.curves import Curve
from semistream.bench.framework.measurement import Point, in_turns
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import Judged, Target
from semistream.core.errors import InvalidArgument


def _lines(target: Target, **courses: Sequence[float]) -> list[Judged]:
    """Return what a target says of series at 10, 20, 30 and so on."""
    points = [
        Point(series, 10.0 * (number + 1), {"value": value}, {}, "here")
        for series, course in courses.items()
        for number, value in enumerate(course)
    ]
    spec = load_spec("punctuated").as_run("full")
    finished = (Finished("", "", 0.0, tuple(points)),)
    return list(target.lines(Result("punctuated", "full", spec, collect_provenance(0), finished)))


@pytest.mark.parametrize(
    ("course", "crossing"),
    [([1.5, 1.9, 2.0], 20.0), ([0.5, 1.0, 2.0], 0.0), ([0.5, 1.0, 4.0], math.inf), ([0.5, 2.5, 2.0], 30.0)],
)
def test_a_crossing_is_where_the_slower_one_is_overtaken_for_good(course: list[float], crossing: float) -> None:
    target = Target(text="crossing", kind="crossing", of="ours", over="theirs")
    (line,) = _lines(target, ours=course, theirs=[1.0, 2.0, 3.0])
    assert (line.value, line.where) == (crossing, "here")


def test_between_two_places_a_curve_is_straight() -> None:
    assert Curve((1.0, 3.0), (10.0, 20.0)).near(2.0) == 15.0


def test_sides_take_turns() -> None:
    order: list[str] = []
    found = in_turns({"ours": lambda: order.append("ours"), "theirs": lambda: order.append("theirs")}, repeats=2)
    assert order == ["ours", "theirs"] * 2
    assert {name: len(results) for name, results in found.items()} == {"ours": 2, "theirs": 2}


def test_growth_is_that_from_the_first_place_to_the_last() -> None:
    target = Target(text="growth", kind="growth", of="state", most=2.0)
    (line,) = _lines(target, state=[4.0, 20.0, 10.0])
    assert (line.value, line.met) == (2.5, False)
    (line,) = _lines(target, state=[4.0])
    assert line.value is None


def test_a_target_without_a_limit_is_neither_met_nor_missed() -> None:
    target = Target(text="growth", kind="growth", of="state")
    (line,) = _lines(target, state=[4.0, 8.0])
    assert (line.value, line.met, target.bound) == (2.0, None, "no limit")
    with pytest.raises(InvalidArgument, match="one limit"):
        Target(text="growth", kind="growth", of="state", least=1.0, most=2.0)


def test_patterns_in_a_list_stand_for_the_lowest_series_that_fits() -> None:
    target = Target(text="best / ours", kind="ratio", of=["plan *", "other"], over="ours", at=20, least=2.0)
    courses = {"plan 1": [9.0, 8.0], "plan 2": [9.0, 6.0], "other": [9.0, 7.0], "not meant": [1.0, 1.0]}
    (line,) = _lines(target, ours=[1.0, 2.0], **courses)
    assert line.value == 3.0
