"""The sample of a grid that `make test` runs."""

from itertools import product
from typing import Any

import pytest
from hypothesis import settings

from tests.depth import covering, examples, slow_unless


def _quick(parameters: list[Any]) -> list[Any]:
    return [each.values for each in parameters if not each.marks]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_value_is_in_the_sample_and_every_combination_in_the_whole(times: int) -> None:
    axes = (range(5), "abc", [True, False])
    found = covering(*axes, times=times)
    assert [each.values for each in found] == list(product(*axes))
    sample = _quick(found)
    assert len(sample) == 5 * times
    for position, axis in enumerate(axes):
        counts = [sum(values[position] == value for values in sample) for value in axis]
        assert min(counts) >= times
        assert max(counts) - min(counts) <= 1
    assert {mark.name for each in found for mark in each.marks} == {"slow"}


def test_a_sample_as_large_as_the_grid_is_the_grid() -> None:
    assert len(_quick(covering("ab", "cd", times=2))) == 4
    assert len(_quick(covering("ab", "cd", times=9))) == 4


def test_tuples_stand_for_several_parameters() -> None:
    assert [each.values for each in covering([("a", 1), ("b", 2)], "x")] == [("a", 1, "x"), ("b", 2, "x")]


def test_slow_unless_quick() -> None:
    assert _quick([slow_unless(True, 1, 2), slow_unless(False, 3, 4)]) == [(1, 2)]


def test_examples_are_a_share_of_the_profile() -> None:
    profile = settings().max_examples
    assert examples(2).max_examples == 2 * profile
    assert examples(0).max_examples == 3
