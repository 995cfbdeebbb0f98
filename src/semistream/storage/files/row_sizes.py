"""How many bytes each row takes in a page, measured without writing it."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrow_views import varlen_parts

__all__ = ["batch_overhead_bytes", "fixed_row_bits", "row_bits"]

_BUFFER_PADDING_BYTES = 8
_VIEW_BITS = 128


def batch_overhead_bytes(schema: pa.Schema) -> int:
    """Return the bytes of a page of this schema beside its rows: message metadata and buffer padding."""
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    buffers = sum(_buffer_count(field.type) for field in schema)
    # Text has one offset more than rows, hence twice the padding.
    return int(empty.serialize().size) + 2 * _BUFFER_PADDING_BYTES * buffers


def _buffer_count(dtype: pa.DataType) -> int:
    return int(dtype.num_buffers) + sum(_buffer_count(dtype.field(i).type) for i in range(dtype.num_fields))


def fixed_row_bits(schema: pa.Schema) -> int | None:
    """Return the most bits that a row takes, or None unless all columns have a fixed width.

    Examples
    --------
    >>> fixed_row_bits(pa.schema([("a", pa.int64()), ("b", pa.bool_())])), fixed_row_bits(pa.schema([("c", pa.utf8())]))
    (67, None)
    """
    bits = 0
    for dtype in schema.types:
        if isinstance(dtype, pa.BaseExtensionType):
            dtype = dtype.storage_type
        if pt.is_null(dtype):
            continue
        if not (pt.is_primitive(dtype) or pt.is_fixed_size_binary(dtype) or pt.is_decimal(dtype)):
            return None
        bits += dtype.bit_width + 1  # one marks a NULL
    return bits


def row_bits(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the bits that each row takes."""
    constant = 0
    varying: npt.NDArray[np.int64] = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        fixed, more = _value_bits(column)
        constant += fixed
        if more is not None:
            varying += more
    return varying + constant


def _value_bits(column: pa.Array) -> tuple[int, npt.NDArray[np.int64] | None]:
    """Return the bits that every value takes, and those that each takes beside them; None when no value does."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    dtype = column.type
    if pt.is_null(dtype):
        return 0, None
    marks = 1 if column.null_count else 0
    if pt.is_string(dtype) or pt.is_binary(dtype):
        return marks + 32, 8 * np.diff(varlen_parts(column)[0])
    if pt.is_large_string(dtype) or pt.is_large_binary(dtype):
        return marks + 64, 8 * np.diff(varlen_parts(column)[0])
    if pt.is_string_view(dtype) or pt.is_binary_view(dtype):
        return marks + _VIEW_BITS, 8 * np.diff(varlen_parts(column.cast(pa.large_binary()))[0])
    if dtype.num_fields == 0:
        return marks + dtype.bit_width, None
    if pt.is_struct(dtype):
        parts = [_value_bits(column.field(i)) for i in range(dtype.num_fields)]
        varying = [more for _, more in parts if more is not None]
        return marks + sum(fixed for fixed, _ in parts), np.sum(varying, axis=0) if varying else None
    if pt.is_fixed_size_list(dtype):
        size = dtype.list_size
        fixed, more = _value_bits(column.values.slice(column.offset * size, len(column) * size))
        return marks + size * fixed, None if more is None else more.reshape(len(column), size).sum(axis=1)
    if pt.is_list(dtype) or pt.is_large_list(dtype) or pt.is_map(dtype):
        # Also the items below a NULL, as they are written too.
        offsets = column.offsets.to_numpy().astype(np.int64)
        items = (column.keys, column.items) if pt.is_map(dtype) else (column.values,)
        bits: npt.NDArray[np.int64] = np.zeros(len(column), dtype=np.int64)
        for values in items:
            fixed, more = _value_bits(values.slice(offsets[0], offsets[-1] - offsets[0]))
            bits += fixed * np.diff(offsets)
            if more is not None:
                bits += np.diff(np.concatenate([[0], np.cumsum(more)])[offsets - offsets[0]])
        return marks + (64 if pt.is_large_list(dtype) else 32), bits
    # Not storable, and shared by the rows in part: the average.
    return marks + -(-8 * column.nbytes // max(1, len(column))), None
