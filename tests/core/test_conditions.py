"""Conditions other than equality."""

from typing import Any

import pytest

from semistream.core.conditions import between, compare
from semistream.core.errors import InvalidArgument


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_a_comparison_reads_as_it_is_written(operator: Any) -> None:
    condition = compare("amount", operator, "limit")
    assert str(condition) == f"amount {operator} limit"
    assert condition.master_columns == ("limit",)


@pytest.mark.parametrize("operator", ["=", "==", "!=", "=<", "between", "", None])
def test_what_is_no_comparison_is_an_error(operator: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        compare("amount", operator, "limit")
    assert str(caught.value) == f"operator={operator!r} is not a comparison: use '<', '<=', '>' or '>='"


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        ("both", "low <= x <= high"),
        ("low", "low <= x < high"),
        ("high", "low < x <= high"),
        ("neither", "low < x < high"),
    ],
)
def test_an_interval_shows_which_ends_belong_to_it(closed: Any, expected: str) -> None:
    condition = between("x", "low", "high", closed=closed)
    assert str(condition) == expected
    assert condition.master_columns == ("low", "high")


def test_intervals_are_closed_and_null_matches_nothing_by_default() -> None:
    condition = between("x", "low", "high")
    assert (condition.closed, condition.null_is_open) == ("both", False)


@pytest.mark.parametrize("closed", ["left", "", None, True])
def test_an_unknown_end_is_an_error(closed: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        between("x", "low", "high", closed=closed)
    assert str(caught.value) == f"closed={closed!r} is unknown: use 'both', 'low', 'high' or 'neither'"


def test_conditions_that_mean_something_else_are_told_apart_in_text() -> None:
    """A snapshot knows a condition by its text."""
    assert str(between("x", "low", "high")) != str(between("x", "low", "high", null_is_open=True))
