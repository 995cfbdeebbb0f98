"""Values that wrap around the end of a byte ring come back whole."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.byte_ring import (
    close_gaps,
    copy_into_ring,
    copy_out_of_ring,
    rotate,
    shift_starts,
    sort_by_start,
)


def _round_trip(values: list[bytes], capacity: int, tail: int) -> tuple[list[bytes], bytes]:
    """Write the values from logical position ``tail`` on; return them read back, and the ring's bytes."""
    lengths = np.array([len(value) for value in values], dtype=np.int32)
    offsets = np.array([0, *accumulate(len(value) for value in values)], dtype=np.int64)
    starts = tail + offsets[:-1]
    ring = np.full(capacity, 0xEE, dtype=np.uint8)
    copy_into_ring(np.frombuffer(b"".join(values), dtype=np.uint8), offsets, lengths, ring, starts)
    out = np.empty(int(lengths.sum()), dtype=np.uint8)
    copy_out_of_ring(ring, starts, lengths, out)
    data = out.tobytes()
    return [data[start:stop] for start, stop in pairwise(offsets)], ring.tobytes()


@given(st.lists(st.binary(max_size=12), max_size=8), st.integers(0, 20), st.integers(0, 10**12))
def test_values_come_back_wherever_they_start(values: list[bytes], spare: int, tail: int) -> None:
    capacity = sum(map(len, values)) + spare
    assert _round_trip(values, capacity, tail)[0] == values


@pytest.mark.parametrize("start", range(8))
def test_a_value_is_laid_out_around_the_end_of_the_ring(start: int) -> None:
    _, ring = _round_trip([b"abc"], 8, 16 + start)
    expected = bytearray(b"\xee" * 8)
    for at, byte in enumerate(b"abc"):
        expected[(start + at) % 8] = byte
    assert ring == bytes(expected)


def test_a_value_as_large_as_the_ring_fills_it() -> None:
    assert _round_trip([b"abcdefgh"], 8, 5)[0] == [b"abcdefgh"]


def test_an_empty_ring_holds_empty_values() -> None:
    assert _round_trip([b"", b""], 0, 3) == ([b"", b""], b"")


def test_values_are_read_from_the_source_offsets_given() -> None:
    ring = np.zeros(10, dtype=np.uint8)
    starts = np.array([0, 3], dtype=np.int64)
    lengths = np.array([3, 2], dtype=np.int32)
    copy_into_ring(np.frombuffer(b"abcdefgh", dtype=np.uint8), np.array([4, 1, 9]), lengths, ring, starts)
    assert ring.tobytes() == b"efgbc\0\0\0\0\0"


@given(
    st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=3), st.booleans()), max_size=10),
    st.integers(0, 20),
    st.integers(0, 10**12),
)
def test_values_that_stay_lie_side_by_side_when_gaps_were_closed(
    values: list[tuple[bytes, bytes, bool]], spare: int, head: int
) -> None:
    capacity = sum(len(one) + len(other) for one, other, _ in values) + spare
    lengths = np.array([(len(one), len(other)) for one, other, _ in values], dtype=np.int32).reshape(-1, 2)
    sizes = lengths.sum(axis=1, dtype=np.int64)
    starts = head + np.cumsum(sizes) - sizes
    data = np.frombuffer(b"".join(one + other for one, other, _ in values), dtype=np.uint8)
    ring = np.zeros(capacity, dtype=np.uint8)
    copy_into_ring(data, starts - head, sizes.astype(np.int32), ring, starts)
    live = np.flatnonzero([stays for _, _, stays in values]).astype(np.int32)
    end = int(close_gaps(ring, live, starts, lengths, np.int64(head)))
    assert end - head == sizes[live].sum()
    assert starts[live].tolist() == (head + np.cumsum(sizes[live]) - sizes[live]).tolist()
    out = np.empty(end - head, dtype=np.uint8)
    copy_out_of_ring(ring, starts[live], sizes[live].astype(np.int32), out)
    assert out.tobytes() == b"".join(one + other for one, other, stays in values if stays)


@pytest.mark.parametrize("size", [1, 2, 7, 12, 13])
def test_rotating_brings_a_byte_to_the_front_and_keeps_the_order(size: int) -> None:
    for first in range(size):
        ring = np.arange(size, dtype=np.uint8)
        rotate(ring, first)
        assert ring.tolist() == [*range(first, size), *range(first)]


@pytest.mark.parametrize("size", [0, 1, 2, 16, 17, 18, 100, 5000])
@pytest.mark.parametrize("order", ["random", "sorted", "reversed", "few values", "one value", "up and down"])
def test_slots_are_sorted_by_their_starts(size: int, order: str) -> None:
    rng = np.random.default_rng(size)
    starts = rng.permutation(2 * size).astype(np.int64) * 10**9
    slots = rng.permutation(2 * size)[:size].astype(np.int32)
    if order in ("sorted", "reversed", "up and down"):
        slots = slots[np.argsort(starts[slots])]
    if order == "reversed":
        slots = slots[::-1].copy()
    if order == "up and down":
        slots = np.concatenate([slots[::2], slots[1::2][::-1]])
    if order in ("few values", "one value"):
        starts %= 3 if order == "few values" else 1
    expected = sorted(slots.tolist())
    sort_by_start(slots, starts)
    assert (np.diff(starts[slots]) >= 0).all()
    assert sorted(slots.tolist()) == expected


def test_starts_are_shifted_for_the_given_slots_alone() -> None:
    starts = np.array([10, 20, 30])
    shift_starts(np.array([2, 0], dtype=np.int32), starts, -7)
    assert starts.tolist() == [3, 20, 23]
