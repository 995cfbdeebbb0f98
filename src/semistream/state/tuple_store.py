"""Tuples in fixed memory: columns of slots, and one ring of bytes for values of varying length.

A slot is a row number in preallocated arrays. A tuple costs the same bytes in any slot, and freeing it frees them at
once. Text and binary values go to a ring of bytes that all such columns share (`semistream.state.varlen_columns`).
Slots and ring are resized in place.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import UnsupportedType
from semistream.core.saved_state import Array, SavedState
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.arrow_views import fixed_bytes, is_varlen, valid_mask
from semistream.kernels.elastic import ElasticArray, Moves
from semistream.state.varlen_columns import VarlenColumns, varlen_bytes

__all__ = ["TupleStore"]


class TupleStore:
    """Tuples of ``schema`` in ``capacity`` slots; without ``max_`` sizes they are never resized."""

    def __init__(
        self,
        schema: pa.Schema,
        capacity: int,
        ring_bytes: int,
        max_capacity: int | None = None,
        max_ring_bytes: int | None = None,
    ) -> None:
        self.schema = schema
        self.capacity = capacity
        self.fixed_bytes = self.fixed_bytes_per_tuple(schema)
        varlen = [index for index, field in enumerate(schema) if is_varlen(field.type)]
        self._columns = {
            index: _FixedColumn(field.type, capacity, max_capacity)
            for index, field in enumerate(schema)
            if index not in varlen and not pt.is_null(field.type)
        }
        self._varlen_at = {column: position for position, column in enumerate(varlen)}
        self._varlen: VarlenColumns | None = None
        if varlen:
            types = [schema.field(index).type for index in varlen]
            self._varlen = VarlenColumns(types, capacity, ring_bytes, max_capacity, max_ring_bytes)
        self._nulls = ElasticArray(capacity, np.uint8, columns=self._null_bytes(schema), max_capacity=max_capacity)
        self._nulls.values.fill(0)
        self._null_columns: set[int] = set()

    @staticmethod
    def _null_bytes(schema: pa.Schema) -> int:
        return (len(schema) + 7) // 8 if any(field.nullable for field in schema) else 0

    @staticmethod
    def supports(dtype: pa.DataType) -> bool:
        return (
            is_varlen(dtype)
            or pt.is_primitive(dtype)
            or pt.is_null(dtype)
            or pt.is_decimal(dtype)
            or (pt.is_fixed_size_binary(dtype) and dtype.byte_width > 0)
        )  # fmt: skip

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
        return sum(is_varlen(field.type) for field in schema)

    @classmethod
    def fixed_bytes_per_tuple(cls, schema: pa.Schema) -> int:
        """Return the bytes of a tuple apart from its text and binary values."""
        varlen = cls.num_varlen_columns(schema)
        widths = [_width(field.type) for field in schema if not is_varlen(field.type)]
        return cls._null_bytes(schema) + sum(widths) + (8 + 4 * varlen if varlen else 0)

    @property
    def nbytes(self) -> int:
        varlen = self._varlen.nbytes if self._varlen else 0
        return sum(column.values.nbytes for column in self._columns.values()) + varlen + self._nulls.values.nbytes

    @property
    def ring_bytes(self) -> int:
        """The space for text and binary values; 0 when the schema has none."""
        return self._varlen.ring_bytes if self._varlen else 0

    @property
    def live_ring_bytes(self) -> int:
        """The bytes of text and binary values that were put and not freed."""
        return self._varlen.live_bytes if self._varlen else 0

    @property
    def room_ring_bytes(self) -> int:
        """The bytes of text and binary values that can be put now, if need be after `compact`."""
        return self._varlen.room_bytes if self._varlen else 0

    def fitting_rows(self, batch: pa.RecordBatch) -> int:
        """Return how many of the next rows fit the ring, if need be after `compact`."""
        if self._varlen is None:
            return batch.num_rows
        return int(np.searchsorted(np.cumsum(varlen_bytes(batch)), self.room_ring_bytes, side="right"))

    def needs_compaction(self, batch: pa.RecordBatch) -> bool:
        """Return whether ``batch`` fits the ring only after `compact`."""
        return self._varlen is not None and int(varlen_bytes(batch).sum()) > self._varlen.free_bytes

    def compact(self, live_slots: Int32s) -> None:
        """Close the gaps in the ring; ``live_slots`` are all that were put and not freed, and become sorted by age."""
        if self._varlen is not None:
            self._varlen.compact(live_slots)

    def put(self, slots: Int32s, batch: pa.RecordBatch) -> None:
        for index, column in self._columns.items():
            column.put(slots, batch.column(index))
        if self._varlen is not None:
            self._varlen.put(slots, [batch.column(index) for index in self._varlen_at])
        nulls = self._nulls.values
        if nulls.shape[1]:
            if self._null_columns:
                nulls[slots] = 0
            for index, column_values in enumerate(batch.columns):
                mask = valid_mask(column_values)
                if mask is not None:
                    nulls[slots[~mask], index // 8] |= np.uint8(1 << index % 8)
                    self._null_columns.add(index)

    def take_column(self, name: str, slots: Int32s) -> pa.Array:
        return self._take(self.schema.get_field_index(name), slots)

    def take(self, slots: Int32s) -> list[pa.Array]:
        return [self._take(index, slots) for index in range(len(self.schema))]

    def _take(self, index: int, slots: Int32s) -> pa.Array:
        validity = self._validity(index, slots)
        if index in self._columns:
            return self._columns[index].take(slots, validity)
        if index in self._varlen_at:
            assert self._varlen is not None
            return self._varlen.take(self._varlen_at[index], slots, validity)
        return pa.nulls(slots.size)

    def _validity(self, index: int, slots: Int32s) -> pa.Buffer | None:
        if index not in self._null_columns:
            return None
        null = self._nulls.values[slots, index // 8] & np.uint8(1 << index % 8)
        return _bitmap(null == 0) if null.any() else None

    def sizes(self, slots: Int32s) -> Int64s | None:
        """Return the `varlen_bytes` of the tuples in ``slots``; None when the schema has no such column."""
        return None if self._varlen is None else self._varlen.sizes(slots)

    def free(self, slots: Int32s) -> None:
        """Free ``slots``; their values stay readable until the next `put`, `compact` or `resize`."""
        if self._varlen is not None:
            self._varlen.free(slots)

    def reclaim(self, oldest_slot: int | None) -> None:
        """Free the ring up to the oldest live tuple; wholly when there is none."""
        if self._varlen is not None:
            self._varlen.reclaim(oldest_slot)

    def resize(self, capacity: int, ring_bytes: int, moves: Moves, live_slots: Int32s) -> None:
        """Change slots and ring in place; ``live_slots`` are all that were put and not freed, after the moves."""
        if self._varlen is not None:
            self._varlen.resize(capacity, ring_bytes, moves, live_slots)
        for array in (*(column.array for column in self._columns.values()), self._nulls):
            moves.apply(array.values)
            array.resize(capacity)
        # `put` clears the nulls of a slot only once there were some.
        self._nulls.values[self.capacity :] = 0
        self.capacity = capacity

    def state(self) -> SavedState:
        saved = SavedState({"null_columns": sorted(self._null_columns)}, self._saved_arrays())
        if self._varlen is not None:
            saved.put_part("varlen", self._varlen.state())
        return saved

    def set_state(self, saved: SavedState, live_slots: Int32s) -> None:
        """Go on as the saved store would, with tuples in ``live_slots``; this one is new and has its sizes."""
        for name, values in self._saved_arrays().items():
            saved.fill(name, values)
        null_columns = saved.header["null_columns"]
        most = len(self.schema) if self._nulls.values.shape[1] else 0
        is_known = isinstance(null_columns, list) and all(type(at) is int and 0 <= at < most for at in null_columns)
        saved.require(is_known, f"null_columns={null_columns!r}")
        self._null_columns = set(null_columns)
        if self._varlen is not None:
            self._varlen.set_state(saved.part("varlen"), live_slots)

    def _saved_arrays(self) -> dict[str, Array]:
        return {"nulls": self._nulls.values, **{str(index): column.values for index, column in self._columns.items()}}


class _FixedColumn:
    """Values of one width, truth values as bytes; nulls are kept elsewhere."""

    def __init__(self, dtype: pa.DataType, capacity: int, max_capacity: int | None) -> None:
        self._type = dtype
        self._width = _width(dtype)
        # numpy moves machine words faster than rows of bytes.
        self._word = np.dtype(f"u{self._width}") if self._width in (1, 2, 4, 8) else None
        columns = None if self._word else self._width
        self.array: ElasticArray[Any] = ElasticArray(
            capacity, self._word or np.dtype("u1"), columns=columns, max_capacity=max_capacity
        )

    @property
    def values(self) -> Array:
        return self.array.values

    def put(self, slots: Int32s, values: pa.Array) -> None:
        if pt.is_boolean(self._type):
            self.values[slots] = values.fill_null(False).to_numpy(zero_copy_only=False)
            return
        data = fixed_bytes(values, self._width)
        self.values[slots] = data.view(self._word) if self._word else data.reshape(-1, self._width)

    def take(self, slots: Int32s, validity: pa.Buffer | None) -> pa.Array:
        data = self.values.take(slots, axis=0)
        content = _bitmap(data.view(np.bool_)) if pt.is_boolean(self._type) else pa.py_buffer(data)
        return pa.Array.from_buffers(self._type, slots.size, [validity, content])


def _width(dtype: pa.DataType) -> int:
    """Return the bytes of a value in a column that is not of varying length."""
    if pt.is_boolean(dtype) or pt.is_null(dtype):
        return int(pt.is_boolean(dtype))
    return int(dtype.bit_width) // 8


def _bitmap(bits: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
