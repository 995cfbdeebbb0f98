"""Numpy views of Arrow arrays, sliced ones above all."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from semistream.kernels.arrow_views import fixed_bytes, valid_mask, varlen_parts


def _texts(array: pa.Array) -> list[bytes]:
    offsets, data = varlen_parts(array)
    return [data[start:stop].tobytes() for start, stop in pairwise(offsets)]


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_values_of_varying_length_are_those_of_the_slice(dtype: pa.DataType) -> None:
    values = [b"", b"abc", "ä".encode(), b"", b"0123456789"]
    array = pa.array(values, pa.binary()).cast(dtype)
    for start in range(6):
        for length in range(6 - start):
            assert _texts(array.slice(start, length)) == values[start : start + length]


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("rows", [0, 3])
def test_arrays_without_any_bytes_have_empty_values(dtype: pa.DataType, rows: int) -> None:
    assert _texts(pa.array([b""] * rows, pa.binary()).cast(dtype)) == [b""] * rows
    assert _texts(pa.nulls(rows, dtype)) == [b""] * rows


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int16(), pa.uint32(), pa.int64(), pa.float64()], ids=str)
def test_fixed_values_are_those_of_the_slice(dtype: pa.DataType) -> None:
    width = dtype.bit_width // 8
    array = pa.array(range(10), dtype)
    for start, length in [(0, 10), (3, 4), (9, 1), (10, 0)]:
        view = fixed_bytes(array.slice(start, length), width).view(dtype.to_pandas_dtype())
        assert view.tolist() == list(range(start, start + length))


def test_fixed_values_are_not_copied() -> None:
    array = pa.array(range(10), pa.int64())
    assert fixed_bytes(array.slice(2), 8).ctypes.data == array.buffers()[1].address + 16


def test_an_array_without_a_value_buffer_still_has_a_width() -> None:
    array = pa.Array.from_buffers(pa.int64(), 0, [None, None])
    assert fixed_bytes(array, 8).size == 0


def test_the_mask_is_that_of_the_slice_and_none_without_nulls() -> None:
    array = pa.array([1, None, 3, 4, None])
    mask = valid_mask(array.slice(1, 3))
    assert mask is not None
    assert mask.dtype == np.bool_
    assert mask.tolist() == [False, True, True]
    assert valid_mask(array.slice(2, 2)) is None
    assert valid_mask(pa.array([], pa.int64())) is None
