"""Sets of codes as ranges, against Python's sets."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.keys.code_ranges import CodeRanges

_LIMITS = np.iinfo(np.int64)
_RANGES = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 6)), max_size=12)


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@given(added=st.lists(_RANGES, max_size=6))
def test_a_set_holds_what_was_added_and_its_neighbours_are_merged(added: list[list[tuple[int, int]]]) -> None:
    ranges, plain = CodeRanges(), set[int]()
    everything = _array(list(range(-40, 45)))
    for some in added:
        ranges.add(_array([low for low, _ in some]), _array([low + more for low, more in some]))
        plain |= {code for low, more in some for code in range(low, low + more + 1)}
        assert ranges.contains(everything).tolist() == [int(code) in plain for code in everything]
    lows, highs = ranges.ranges()
    assert (lows[1:] > highs[:-1] + 1).all(), "ranges that touch are one"
    assert len(ranges) == lows.size


def test_the_ends_of_all_codes() -> None:
    ranges = CodeRanges()
    assert not ranges.contains(_array([0])).any()
    ranges.add(_array([_LIMITS.max, _LIMITS.min]), _array([_LIMITS.max, -1]))
    ranges.add(_array([0]), _array([_LIMITS.max - 1]))
    assert len(ranges) == 1
    assert [end.tolist() for end in ranges.ranges()] == [[_LIMITS.min], [_LIMITS.max]]
    ranges.add(_array([5, _LIMITS.max]), _array([_LIMITS.max, _LIMITS.max]))
    assert len(ranges) == 1


def test_many_constants_in_any_order_become_one_range() -> None:
    ranges = CodeRanges()
    codes = np.random.default_rng(0).permutation(10_000)
    for part in np.array_split(codes, 100):
        ranges.add(part, part)
        ranges.contains(part)
    assert len(ranges) == 1
    assert ranges.nbytes == 16


@given(first=_RANGES, second=_RANGES)
def test_what_two_sets_have_in_common_and_what_is_left_without_it(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    everything = _array(list(range(-40, 45)))
    sets = []
    for some in (first, second):
        ranges = CodeRanges()
        ranges.add(_array([low for low, _ in some]), _array([low + more for low, more in some]))
        sets.append(ranges)
    ours, others = sets
    both = ours.contains(everything) & others.contains(everything)
    only = ours.contains(everything) & ~both
    lows, highs = ours.common(others)
    common = CodeRanges()
    common.add(lows, highs)
    assert common.contains(everything).tolist() == both.tolist()
    ours.remove(lows, highs)
    assert ours.contains(everything).tolist() == only.tolist()
    left_lows, left_highs = ours.ranges()
    assert (left_lows[1:] > left_highs[:-1] + 1).all()


def test_the_ends_of_all_codes_can_be_taken_out() -> None:
    ranges, everything = CodeRanges(), CodeRanges()
    everything.add(_array([_LIMITS.min]), _array([_LIMITS.max]))
    ranges.add(_array([_LIMITS.min, 5, _LIMITS.max]), _array([_LIMITS.min, 6, _LIMITS.max]))
    everything.remove(*everything.common(ranges))
    assert [end.tolist() for end in everything.ranges()] == [[_LIMITS.min + 1, 7], [4, _LIMITS.max - 1]]


def test_many_codes_in_many_ranges() -> None:
    ranges = CodeRanges()
    lows = np.arange(0, 30_000, 10)
    ranges.add(lows, lows + 3)
    codes = np.random.default_rng(1).integers(-20, 30_020, 1000)
    expected = (codes % 10 <= 3) & (codes >= 0) & (codes < 30_000)
    assert ranges.contains(codes).tolist() == expected.tolist()
