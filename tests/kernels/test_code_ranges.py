"""Sets of codes as ranges, against Python's sets."""

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.kernels.code_ranges import CodeRanges

_LIMITS = np.iinfo(np.int64)
_RANGES = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 6)), max_size=12)


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@settings(deadline=None)  # the first example may compile
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
