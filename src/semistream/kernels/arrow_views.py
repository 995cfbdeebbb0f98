"""Arrow arrays as numpy views, without copying where Arrow's layout allows it."""

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrays import Bools, Int64s, UInt8s

__all__ = ["fixed_bytes", "is_varlen", "valid_mask", "varlen_parts"]


def is_varlen(dtype: pa.DataType) -> bool:
    """Return whether values of this type vary in length."""
    return pt.is_string(dtype) or pt.is_binary(dtype) or pt.is_large_string(dtype) or pt.is_large_binary(dtype)


def valid_mask(array: pa.Array) -> Bools | None:
    """Return which rows are not NULL, or None when all are."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def fixed_bytes(array: pa.Array, width: int) -> UInt8s:
    """Return the values of a fixed-width array, ``width`` bytes a row; those of NULL rows are undefined."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) * width, dtype=np.uint8)
    return np.frombuffer(buffer, dtype=np.uint8, count=len(array) * width, offset=array.offset * width)


def varlen_parts(array: pa.Array) -> tuple[Int64s, UInt8s]:
    """Return (offsets, data) of a string or binary array; a NULL row may have any length."""
    _, offsets_buffer, data_buffer = array.buffers()
    wide = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    if offsets_buffer is None or offsets_buffer.size == 0:
        return np.zeros(len(array) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    dtype = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(
        offsets_buffer, dtype=dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize
    ).astype(np.int64)
    data = np.empty(0, dtype=np.uint8) if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    return offsets, data
