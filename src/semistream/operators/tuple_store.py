"""Stream tuples in fixed memory: columns of slots, and one ring of bytes for values of varying length.

A slot is a row number in preallocated arrays, so a tuple costs the same bytes wherever it is and freeing it frees
them at once. Text and binary values go to a byte ring shared by all such columns, in arrival order; the ring
is reclaimed up to the oldest live tuple.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import UnsupportedType
from semistream.kernels.arrow_views import fixed_bytes, valid_mask, varlen_parts
from semistream.kernels.byte_ring import copy_into_ring, copy_out_of_ring

__all__ = ["TupleStore", "varlen_bytes"]

_Int32s = npt.NDArray[np.int32]


def _is_varlen(dtype: pa.DataType) -> bool:
    return pt.is_string(dtype) or pt.is_binary(dtype) or pt.is_large_string(dtype) or pt.is_large_binary(dtype)


def _lengths(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], _Int32s]:
    offsets, data = varlen_parts(column)
    lengths = np.diff(offsets).astype(np.int32)
    mask = valid_mask(column)
    if mask is not None:
        lengths[~mask] = 0
    return offsets, data, lengths


def varlen_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return, for every row, the bytes of its text and binary values."""
    total = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if _is_varlen(column.type):
            total += _lengths(column)[2]
    return total


class _Column(Protocol):
    @property
    def nbytes(self) -> int: ...

    def put(self, slots: _Int32s, values: pa.Array) -> None: ...

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array: ...


class _FixedColumn:
    def __init__(self, dtype: pa.DataType, capacity: int) -> None:
        self._type = dtype
        self._width = dtype.byte_width if pt.is_fixed_size_binary(dtype) else dtype.bit_width // 8
        # numpy moves machine words faster than rows of bytes.
        words = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(self._width)
        self._word = np.dtype(words) if words else None
        shape = capacity if words else (capacity, self._width)
        self._values = np.empty(shape, dtype=self._word or np.uint8)

    @staticmethod
    def supports(dtype: pa.DataType) -> bool:
        return (
            (pt.is_primitive(dtype) and not pt.is_boolean(dtype))
            or pt.is_decimal(dtype)
            or (pt.is_fixed_size_binary(dtype) and dtype.byte_width > 0)
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def put(self, slots: _Int32s, values: pa.Array) -> None:
        data = fixed_bytes(values, self._width)
        self._values[slots] = data.view(self._word) if self._word else data.reshape(-1, self._width)

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        data = self._values.take(slots, axis=0)
        return pa.Array.from_buffers(self._type, slots.size, [validity, pa.py_buffer(data)])


class _BooleanColumn:
    def __init__(self, capacity: int) -> None:
        self._values = np.empty(capacity, dtype=np.uint8)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def put(self, slots: _Int32s, values: pa.Array) -> None:
        self._values[slots] = values.fill_null(False).to_numpy(zero_copy_only=False)

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        return pa.Array.from_buffers(
            pa.bool_(), slots.size, [validity, _bitmap(self._values.take(slots).view(np.bool_))]
        )


class _NullColumn:
    @property
    def nbytes(self) -> int:
        return 0

    def put(self, slots: _Int32s, values: pa.Array) -> None:
        pass

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        return pa.nulls(slots.size)


class _VarlenColumns:
    """All text and binary columns: one start per tuple, one length per tuple and column, one ring of bytes."""

    def __init__(self, types: list[pa.DataType], capacity: int, ring_bytes: int) -> None:
        self.types = types
        self._starts = np.zeros(capacity, dtype=np.int64)
        self._lengths = np.zeros((len(types), capacity), dtype=np.int32)
        self._ring = np.empty(ring_bytes, dtype=np.uint8)
        self._head = 0
        self._tail = 0

    @property
    def nbytes(self) -> int:
        return self._starts.nbytes + self._lengths.nbytes + self._ring.nbytes

    @property
    def ring_bytes(self) -> int:
        return self._ring.size

    @property
    def free_bytes(self) -> int:
        return self._ring.size - (self._tail - self._head)

    def put(self, slots: _Int32s, columns: list[pa.Array]) -> None:
        parts = [_lengths(column) for column in columns]
        sizes = np.sum([lengths for _, _, lengths in parts], axis=0, dtype=np.int64)
        ends = self._tail + np.cumsum(sizes)
        # Before anything is copied: the kernel below checks no bounds.
        assert not slots.size or ends[-1] - self._head <= self._ring.size, "the caller checks that the values fit"
        at = ends - sizes
        self._starts[slots] = at
        for index, (offsets, data, lengths) in enumerate(parts):
            self._lengths[index, slots] = lengths
            copy_into_ring(data, offsets, lengths, self._ring, at)
            at = at + lengths
        if slots.size:
            self._tail = int(ends[-1])

    def take(self, index: int, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        starts = self._starts.take(slots)
        for earlier in range(index):
            starts += self._lengths[earlier].take(slots)
        lengths = self._lengths[index].take(slots)
        dtype = self.types[index]
        wide = pt.is_large_string(dtype) or pt.is_large_binary(dtype)
        offsets = np.zeros(slots.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        copy_out_of_ring(self._ring, starts, lengths, data)
        narrow = offsets if wide else offsets.astype(np.int32)
        return pa.Array.from_buffers(dtype, slots.size, [validity, pa.py_buffer(narrow), pa.py_buffer(data)])

    def sizes(self, slots: _Int32s) -> npt.NDArray[np.int64]:
        return np.asarray(self._lengths[:, slots].sum(axis=0), dtype=np.int64)

    def reclaim(self, oldest_slot: int | None) -> None:
        self._head = self._tail if oldest_slot is None else int(self._starts[oldest_slot])


class TupleStore:
    """Tuples of ``schema`` in ``capacity`` slots.

    Parameters
    ----------
    ring_bytes
        Space for text and binary values; ignored when the schema has none.
    """

    def __init__(self, schema: pa.Schema, capacity: int, ring_bytes: int) -> None:
        self.schema = schema
        self.capacity = capacity
        self.fixed_bytes = self.fixed_bytes_per_tuple(schema)
        self._columns: dict[int, _Column] = {}
        varlen: list[int] = []
        for index, field in enumerate(schema):
            if _is_varlen(field.type):
                varlen.append(index)
            elif pt.is_boolean(field.type):
                self._columns[index] = _BooleanColumn(capacity)
            elif pt.is_null(field.type):
                self._columns[index] = _NullColumn()
            else:
                self._columns[index] = _FixedColumn(field.type, capacity)
        self._varlen_at = {column: position for position, column in enumerate(varlen)}
        self._varlen = _VarlenColumns([schema.field(i).type for i in varlen], capacity, ring_bytes) if varlen else None
        self._nulls = np.zeros((self._null_bytes(schema), capacity), dtype=np.uint8)
        self._null_columns: set[int] = set()

    @staticmethod
    def _null_bytes(schema: pa.Schema) -> int:
        return (len(schema) + 7) // 8 if any(field.nullable for field in schema) else 0

    @staticmethod
    def supports(dtype: pa.DataType) -> bool:
        """Return whether a column of this type can be kept in slots."""
        return _is_varlen(dtype) or pt.is_boolean(dtype) or pt.is_null(dtype) or _FixedColumn.supports(dtype)

    @staticmethod
    def require_supported(schema: pa.Schema) -> None:
        """Raise `UnsupportedType` when a column cannot be kept in slots."""
        for field in schema:
            if not TupleStore.supports(field.type):
                raise UnsupportedType(
                    f"stream column {field.name!r} has type {field.type}, which cannot wait in memory: "
                    "cast it to text or to scalar columns before the join"
                )

    @staticmethod
    def num_varlen_columns(schema: pa.Schema) -> int:
        """Return how many text and binary columns there are."""
        return sum(_is_varlen(field.type) for field in schema)

    @classmethod
    def fixed_bytes_per_tuple(cls, schema: pa.Schema) -> int:
        """Return the bytes a tuple takes apart from its text and binary values."""
        total = cls._null_bytes(schema)
        varlen = 0
        for field in schema:
            if _is_varlen(field.type):
                varlen += 1
            elif pt.is_boolean(field.type):
                total += 1
            elif pt.is_fixed_size_binary(field.type):
                total += field.type.byte_width
            elif not pt.is_null(field.type):
                total += field.type.bit_width // 8
        return total + (8 + 4 * varlen if varlen else 0)

    @property
    def nbytes(self) -> int:
        varlen = self._varlen.nbytes if self._varlen else 0
        return sum(column.nbytes for column in self._columns.values()) + varlen + self._nulls.nbytes

    @property
    def ring_bytes(self) -> int:
        """The space for text and binary values; 0 when the schema has none."""
        return self._varlen.ring_bytes if self._varlen else 0

    def fitting_rows(self, batch: pa.RecordBatch) -> int:
        """Return how many of the next rows fit the ring."""
        if self._varlen is None:
            return batch.num_rows
        return int(np.searchsorted(np.cumsum(varlen_bytes(batch)), self._varlen.free_bytes, side="right"))

    def put(self, slots: _Int32s, batch: pa.RecordBatch) -> None:
        """Store the rows of ``batch`` in ``slots``."""
        for index, column in self._columns.items():
            column.put(slots, batch.column(index))
        if self._varlen is not None:
            self._varlen.put(slots, [batch.column(index) for index in self._varlen_at])
        if len(self._nulls):
            if self._null_columns:
                self._nulls[:, slots] = 0
            for index, column_values in enumerate(batch.columns):
                mask = valid_mask(column_values)
                if mask is not None:
                    self._nulls[index // 8, slots[~mask]] |= np.uint8(1 << index % 8)
                    self._null_columns.add(index)

    def take_column(self, name: str, slots: _Int32s) -> pa.Array:
        """Return one column of the tuples in ``slots``."""
        return self._take(self.schema.get_field_index(name), slots)

    def take(self, slots: _Int32s) -> list[pa.Array]:
        """Return the tuples in ``slots``, column by column."""
        return [self._take(index, slots) for index in range(len(self.schema))]

    def _take(self, index: int, slots: _Int32s) -> pa.Array:
        validity = self._validity(index, slots)
        if index in self._varlen_at:
            assert self._varlen is not None
            return self._varlen.take(self._varlen_at[index], slots, validity)
        return self._columns[index].take(slots, validity)

    def _validity(self, index: int, slots: _Int32s) -> pa.Buffer | None:
        if index not in self._null_columns:
            return None
        null = self._nulls[index // 8].take(slots) & np.uint8(1 << index % 8)
        return _bitmap(null == 0) if null.any() else None

    def sizes(self, slots: _Int32s) -> npt.NDArray[np.int64] | None:
        """Return the `varlen_bytes` of the tuples in ``slots``, or None when the schema has no such column."""
        return None if self._varlen is None else self._varlen.sizes(slots)

    def reclaim(self, oldest_slot: int | None) -> None:
        """Free the ring up to the oldest live tuple, or wholly when there is none."""
        if self._varlen is not None:
            self._varlen.reclaim(oldest_slot)


def _bitmap(bits: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
