"""Arrays that grow and shrink in place: what stays is kept, and memory follows the size."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.resident_memory import resident_bytes
from semistream.kernels.elastic import ElasticArray

_MB = 1 << 20


@given(
    st.sampled_from([np.uint8, np.int32, np.int64]),
    st.sampled_from([None, 2, 3]),
    st.lists(st.integers(0, 3000), min_size=1, max_size=12),
)
def test_what_stays_is_kept_through_any_sizes(
    dtype: type[np.uint8] | type[np.int32] | type[np.int64], columns: int | None, sizes: list[int]
) -> None:
    rng = np.random.default_rng(len(sizes))
    array = ElasticArray(sizes[0], np.dtype(dtype), columns=columns, max_capacity=3000)
    array.values[:] = rng.integers(0, 100, array.values.shape)
    for size in sizes[1:]:
        kept = array.values[:size].copy()
        array.resize(size)
        assert array.values.shape == ((size,) if columns is None else (size, columns))
        assert array.values.flags.c_contiguous
        assert np.array_equal(array.values[: len(kept)], kept)
        array.values[len(kept) :] = 7
        assert np.array_equal(array.values[: len(kept)], kept)
    assert array.max_capacity == 3000


def test_memory_is_taken_when_touched_and_given_back_when_shrunk() -> None:
    gc.collect()
    empty = resident_bytes()
    array = ElasticArray(64 * _MB, np.uint8, max_capacity=1024 * _MB)
    assert resident_bytes() - empty < 4 * _MB, "reserved address space is not memory"
    array.values.fill(1)
    assert 60 * _MB < resident_bytes() - empty < 68 * _MB, "and only what is used is taken"
    array.resize(8 * _MB + 5)
    assert 4 * _MB < resident_bytes() - empty < 12 * _MB
    assert array.values.all()
    array.resize(32 * _MB)
    assert resident_bytes() - empty < 12 * _MB
    array.values.fill(2)
    assert 28 * _MB < resident_bytes() - empty < 36 * _MB
    del array
    assert resident_bytes() - empty < 4 * _MB


def test_filling_an_array_takes_no_memory_behind_its_end() -> None:
    gc.collect()
    empty = resident_bytes()
    arrays = [ElasticArray(2 * _MB + 1, np.uint8, max_capacity=64 * _MB) for _ in range(16)]
    for array in arrays:
        array.values.fill(1)
    # Huge pages that reach beyond the ends would be twice as much.
    assert resident_bytes() - empty < 16 * 2 * _MB + 8 * _MB


def test_a_shrunk_array_keeps_no_more_than_a_page_beyond_its_end() -> None:
    gc.collect()
    empty = resident_bytes()
    arrays = [ElasticArray(_MB, np.uint8, max_capacity=_MB) for _ in range(64)]
    for array in arrays:
        array.values.fill(1)
        array.resize(1)
    assert resident_bytes() - empty < 4 * _MB


@pytest.mark.parametrize("size", [3, 5])
def test_an_array_without_a_larger_size_is_plain_and_fixed(size: int) -> None:
    array = ElasticArray(4, np.int64, columns=2)
    assert array.values.shape == (4, 2)
    array.resize(4)
    with pytest.raises(AssertionError, match="fixed size"):
        array.resize(size)


def test_more_than_was_reserved_is_refused() -> None:
    array = ElasticArray(4, np.int64, max_capacity=8)
    with pytest.raises(AssertionError, match="reserves"):
        array.resize(9)
