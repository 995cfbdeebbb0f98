"""Arrow arrays as numpy views, without copying where Arrow's layout allows it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrays import Bools, Int64s, UInt8s

__all__ = [
    "fixed_bytes",
    "float_bits",
    "integers",
    "is_integer_like",
    "is_varlen",
    "valid_mask",
    "varlen_parts",
    "with_own_items",
]


def is_varlen(dtype: pa.DataType) -> bool:
    return pt.is_string(dtype) or pt.is_binary(dtype) or pt.is_large_string(dtype) or pt.is_large_binary(dtype)


def is_integer_like(dtype: pa.DataType) -> bool:
    """Return whether values of this type are stored as integers that compare as the values do."""
    return pt.is_integer(dtype) or (pt.is_temporal(dtype) and not pt.is_interval(dtype))


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


def integers(array: pa.Array) -> npt.NDArray[Any]:
    """Return the integers as which the values are stored; those of NULL rows are undefined."""
    width = array.type.bit_width // 8
    return fixed_bytes(array, width).view(f"{'u' if pt.is_unsigned_integer(array.type) else 'i'}{width}")


def float_bits(array: pa.Array) -> Int64s:
    """Return the bits of floating-point values as doubles: -0.0 has those of 0.0, and all NaN have the same."""
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
    return np.where(np.isnan(values), np.float64(np.nan), values).view(np.int64)


def varlen_parts(array: pa.Array) -> tuple[Int64s, UInt8s]:
    """Return (offsets, data) of a string or binary array; a NULL row may have any length."""
    _, offsets_buffer, data_buffer = array.buffers()
    if offsets_buffer is None or offsets_buffer.size == 0:
        return np.zeros(len(array) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    is_wide = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if is_wide else np.int32)
    offsets = np.frombuffer(
        offsets_buffer, dtype=dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize
    ).astype(np.int64)
    data = np.empty(0, dtype=np.uint8) if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    return offsets, data


def with_own_items(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a slice of a batch with nested columns copied; Arrow writes items of the whole batch for empty lists."""
    nested = [column.storage.type if isinstance(column, pa.ExtensionArray) else column.type for column in rows.columns]
    if not any(map(pt.is_nested, nested)):
        return rows
    every = pa.array(np.arange(rows.num_rows))
    columns = [
        column.take(every) if pt.is_nested(dtype) else column
        for column, dtype in zip(rows.columns, nested, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
