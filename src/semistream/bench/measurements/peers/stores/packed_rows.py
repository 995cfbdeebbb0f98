"""Rows of fixed width as bytes, one after the other: what a key-value store keeps of a row."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrays import Int64s, UInt8s

__all__ = ["PackedRows"]


class PackedRows:
    """Packs rows of numbers and binary values of fixed width, and brings chosen ones back as columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self.names: list[str] = schema.names
        self._form = np.dtype([(field.name, _packed_type(field.type)) for field in schema])
        self.width = self._form.itemsize

    def pack(self, rows: pa.RecordBatch) -> UInt8s:
        """Return a row of bytes for each row; a binary value has its column's width and none is NULL."""
        packed = np.empty(rows.num_rows, dtype=self._form)
        for name in self.names:
            form = self._form[name]
            column = rows.column(name)
            if form.kind == "V":
                column = column.cast(pa.binary(form.itemsize))
                content = np.frombuffer(column.buffers()[1], dtype=form)
                packed[name] = content[column.offset : column.offset + rows.num_rows]
            else:
                packed[name] = np.asarray(column)
        return packed.view(np.uint8).reshape(rows.num_rows, self.width)

    def take(self, packed: UInt8s, chosen: Int64s) -> list[pa.Array]:
        """Return the columns of chosen rows; Spark has no binary type of a fixed width, so theirs is plain."""
        rows: npt.NDArray[Any] = packed.reshape(-1).view(self._form)
        return [_column(rows[name][chosen]) for name in self.names]


def _packed_type(dtype: pa.DataType) -> str:
    return f"V{dtype.byte_width}" if pt.is_fixed_size_binary(dtype) else np.dtype(dtype.to_pandas_dtype()).str


def _column(values: npt.NDArray[Any]) -> pa.Array:
    if values.dtype.kind != "V":
        return pa.array(values)
    offsets = np.arange(values.size + 1, dtype=np.int32) * np.int32(values.dtype.itemsize)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(), values.size, buffers)
