"""Punctuations: what they say of tuples, and how they are written."""

from datetime import date
from typing import Any

import pytest

from semistream.core.errors import InvalidArgument
from semistream.core.punctuation import Interval, Punctuation, Wildcard, interval, punctuation


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (3, [3, 3.0], [2, None]),
        ([3, 5], [3, 5], [4, None]),
        (range(3, 6), [3, 4, 5], [6, None]),
        (interval(3, 5), [3, 4, 5], [2, 6, None]),
        (interval(low=3), [3, 10**12], [2, None]),
        (interval(high=3), [3, -5], [4, None]),
        ("a", ["a"], ["b", None]),
        (interval(date(2026, 1, 1), date(2026, 1, 31)), [date(2026, 1, 31)], [date(2026, 2, 1)]),
        (Wildcard(), [1, None, "x"], []),
    ],
)
def test_patterns(pattern: Any, matching: list[Any], others: list[Any]) -> None:
    made = punctuation(key=pattern)
    assert all(made.matches({"key": value, "other": 1}) for value in matching)
    assert not any(made.matches({"key": value, "other": 1}) for value in others)


def test_all_patterns_have_to_match() -> None:
    made = punctuation(sno=3, region=interval(1, 5))
    assert made.matches({"sno": 3, "region": 5})
    assert not made.matches({"sno": 3, "region": 6})
    assert not made.matches({"sno": 4, "region": 5})
    assert made.attributes == ("sno", "region")


def test_wildcards_are_left_out_and_equal_punctuations_are_one() -> None:
    assert punctuation(sno=3, region=Wildcard()) == punctuation(sno=3)
    assert len({punctuation(sno=3), punctuation(sno=3, region=Wildcard()), punctuation(sno=4)}) == 2
    assert punctuation(sno=3).pattern("region") == Wildcard()
    assert Punctuation().matches({"anything": None})


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Punctuation(), "no more tuples"),
        (punctuation(sno=[3, 4]), "no more tuples with sno: one of [3, 4]"),
        (punctuation(sno=interval(3), name="x"), "no more tuples with sno: 3.., name: 'x'"),
        (punctuation(sno=Interval(None, 4)), "no more tuples with sno: ..4"),
    ],
)
def test_text(made: Punctuation, text: str) -> None:
    assert str(made) == text


def test_bad_patterns_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"sno=None is no pattern: give a value, a list"):
        punctuation(sno=None)
    with pytest.raises(InvalidArgument, match=r"sno=\[3, None\] must be a list of values"):
        punctuation(sno=[3, None])
    with pytest.raises(InvalidArgument, match=r"sno=\[\] must be a list"):
        punctuation(sno=[])
    with pytest.raises(InvalidArgument, match=r"interval\(5, 3\) has no value in it"):
        interval(5, 3)
    with pytest.raises(InvalidArgument, match=r"interval\('a', 3\) has no value in it"):
        interval("a", 3)
    with pytest.raises(InvalidArgument, match=r"interval\(\) needs low, high or both"):
        interval()
