"""Values that wrap around the end of a byte ring come back whole."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.kernels.byte_ring import copy_into_ring, copy_out_of_ring


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


@settings(max_examples=100, deadline=None)
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
