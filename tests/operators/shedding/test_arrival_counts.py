"""The bound on the smallest number holds, is close, and numbers that were not inside are noticed."""

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from semistream.operators.shedding.shed_store import ArrivalCounts


def _int64(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


_numbers = st.one_of(st.integers(0, 3_000), st.integers(10**9, 10**9 + 5_000), st.integers(0, 2**62))


@given(st.lists(st.tuples(st.lists(_numbers, max_size=30), st.integers(0, 40)), max_size=12), st.randoms())
def test_the_bound_is_below_the_smallest_and_less_than_a_range_away(
    actions: list[tuple[list[int], int]], random: Random
) -> None:
    counts, inside = ArrivalCounts(), list[int]()
    widest = 1
    for added, removed in actions:
        widest = 1 if not inside else widest
        counts.add(_int64(added))
        inside += added
        if inside:
            span = max(inside) - min(inside)
            widest = max(widest, 2 ** max(0, (span // 1024).bit_length() + 1))
        random.shuffle(inside)
        assert counts.remove(_int64(inside[:removed]))
        inside = inside[removed:]
        bound = counts.lower_bound
        if not inside:
            assert bound is None
        else:
            assert bound is not None
            assert min(inside) - widest < bound <= min(inside)


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=50), st.lists(st.integers(0, 2_000), max_size=5))
def test_close_numbers_are_told_apart(added: list[int], removed: list[int]) -> None:
    counts = ArrivalCounts()
    counts.add(_int64(added))
    fits = not Counter(removed) - Counter(added)
    assert counts.remove(_int64(removed)) == fits
    rest = sorted((Counter(added) - Counter(removed)).elements()) if fits else sorted(added)
    assert counts.lower_bound == (rest[0] if rest else None)


def test_counts_take_the_same_bytes_whatever_is_inside() -> None:
    counts = ArrivalCounts()
    before = counts.nbytes
    counts.add(np.arange(0, 10**6, dtype=np.int64))
    assert counts.nbytes == before
    assert counts.lower_bound == 0
    assert counts.remove(np.arange(0, 500_000, dtype=np.int64))
    assert counts.lower_bound is not None
    assert 500_000 - 1_024 < counts.lower_bound <= 500_000


def test_numbers_below_those_inside_find_room_and_all_come_out() -> None:
    counts = ArrivalCounts()
    counts.add(_int64([10**9]))
    counts.add(_int64([5]))
    assert counts.lower_bound == 0
    assert not counts.remove(_int64([5, 5]))
    assert counts.remove(_int64([5]))
    assert counts.remove(_int64([10**9]))
    assert counts.lower_bound is None
