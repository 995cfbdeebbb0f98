"""Copies single rows out of serialised record batches without decoding the batches.

A page of the master table, a block of rows in a cache, and the rows that a sweep found all have one form: the message
of a record batch in memory. Decoding thousands of them for one row each would cost more than all else. So rows are
copied straight from the buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import DamagedTable, UnsupportedType
from semistream.kernels.arrays import Bools, Int64s, UInt8s, UInt64s
from semistream.kernels.pages.row_gather import (
    find_buffers,
    find_lists,
    gather_bits,
    gather_bytes,
    gather_fixed,
    gather_ranges,
    gather_words,
)
from semistream.storage.files.row_sizes import row_bits

__all__ = ["JoinedPages", "PageColumn", "PageShape", "RawPages", "RowGather", "SlottedPages", "flag_bits"]

_ALIGNMENT = 8
_ADDRESS_BYTES = 1 << 18  # of the addresses of buffers that are found at once


@dataclass(frozen=True)
class PageColumn:
    """A column, its position among those of a message, and the number of its first buffer there."""

    field: pa.Field
    position: int
    first_buffer: int

    @property
    def is_nested(self) -> bool:
        dtype = self.field.type
        return dtype.num_fields > 0 or isinstance(dtype, pa.BaseExtensionType) or pt.is_null(dtype)

    @property
    def offset_bytes(self) -> int | None:
        """The width of the offsets of text and binary types, None for other types."""
        return _offset_bytes(self.field.type)


def _offset_bytes(dtype: pa.DataType) -> int | None:
    if pt.is_string(dtype) or pt.is_binary(dtype):
        return 4
    return 8 if pt.is_large_string(dtype) or pt.is_large_binary(dtype) else None


def _buffer_count(dtype: pa.DataType) -> int:
    if isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    if pt.is_null(dtype):
        return 0
    if pt.is_fixed_size_list(dtype):
        return 1 + _buffer_count(dtype.value_type)
    return int(dtype.num_buffers) + sum(_buffer_count(dtype.field(i).type) for i in range(dtype.num_fields))


class PageShape:
    """The columns wanted from messages of one schema, and the position of their buffers in a message.

    Examples
    --------
    >>> batch = pa.record_batch({"id": [1, 2], "city": ["Rome", "Oslo"]})
    >>> pages = PageShape(batch.schema, ["city"]).pages(np.frombuffer(batch.serialize(), np.uint8), [0])
    >>> gather = RowGather(pages.shape, 3)
    >>> gather.add(pages, np.zeros(2, np.int64), np.array([1, 0]), np.array([0, 2]))
    >>> gather.finish().to_pydict()
    {'city': ['Oslo', None, 'Rome']}
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> None:
        names = list(schema.names if columns is None else columns)
        for field in schema:
            if pt.is_string_view(field.type) or pt.is_binary_view(field.type):
                raise UnsupportedType(
                    f"column {field.name!r} has type {field.type}, whose rows cannot be copied out of pages: stage it "
                    "as plain text, or use 'hybridjoin'"
                )
        self.message_schema = schema
        self.schema = pa.schema([schema.field(name) for name in names])
        first = np.concatenate([[0], np.cumsum([_buffer_count(field.type) for field in schema])])
        self.num_buffers = int(first[-1])
        positions = [schema.get_field_index(name) for name in names]
        self.columns = [PageColumn(schema.field(at), at, int(first[at])) for at in positions]

    @property
    def text_columns(self) -> int:
        """How many columns have texts or binary values."""
        return sum(column.offset_bytes is not None for column in self.columns)

    def pages(self, raw: UInt8s, starts: Sequence[int] | Int64s) -> "RawPages":
        """Return the messages that begin at ``starts``, each at a multiple of 8."""
        return RawPages(self, raw, np.asarray(starts, dtype=np.int64))

    def serialised(self, rows: pa.RecordBatch) -> "RawPages":
        """Return one message with these rows, in memory of its own."""
        return self.pages(np.frombuffer(memoryview(rows.serialize()), dtype=np.uint8), [0])


class RawPages:
    """Messages of one shape in one piece of memory, already verified.

    Attributes
    ----------
    buffers
        The address of buffer b of message m, or 0.
    """

    def __init__(self, shape: PageShape, raw: UInt8s, starts: Int64s) -> None:
        self.shape = shape
        self.raw = raw
        self.starts = starts
        self.buffers = np.empty((starts.size, shape.num_buffers), dtype=np.uint64)
        assert raw.ctypes.data % _ALIGNMENT == 0, "memory for pages is aligned"
        if find_buffers(raw, starts, self.buffers) < starts.size:
            raise DamagedTable("a page is not a record batch of the table's schema: write it anew with replace()")

    def begins(self, column: int, number: int) -> UInt64s:
        """Return where a buffer of a column begins in every message."""
        return _begins(self, column, number)

    def buffer(self, number: int) -> UInt64s:
        """Return the address of a buffer in every message."""
        return np.ascontiguousarray(self.buffers[:, number])

    def addresses(self) -> UInt64s:
        """Return where every message begins."""
        found: UInt64s = self.starts.astype(np.uint64) + np.uint64(self.raw.ctypes.data)
        return found

    def list_offsets(self) -> Int64s:
        """Return how far behind its begin each message lists its buffers."""
        offsets = np.empty(self.starts.size, dtype=np.int64)
        find_lists(self.raw, self.starts, self.shape.num_buffers, offsets)
        return offsets

    def batch(self, page: int) -> pa.RecordBatch:
        """Return a message decoded."""
        begin = int(self.starts[page])
        batch: pa.RecordBatch = pa.ipc.read_record_batch(pa.py_buffer(self.raw[begin:]), self.shape.message_schema)
        return batch


class JoinedPages:
    """Messages of one shape in several pieces of memory, numbered through."""

    def __init__(self, shape: PageShape, parts: Sequence[RawPages]) -> None:
        self.shape = shape
        self._parts = parts
        self._first = np.cumsum([0, *(part.starts.size for part in parts)])
        self.buffers = np.concatenate([np.empty((0, shape.num_buffers), np.uint64), *(part.buffers for part in parts)])

    def begins(self, column: int, number: int) -> UInt64s:
        """Return where a buffer of a column begins in every message."""
        return _begins(self, column, number)

    def batch(self, page: int) -> pa.RecordBatch:
        """Return a message decoded."""
        part = int(np.searchsorted(self._first, page, side="right")) - 1
        return self._parts[part].batch(page - int(self._first[part]))


class SlottedPages:
    """Messages in slots of one piece of memory, replaced one by one, and known by the numbers of their slots."""

    def __init__(self, shape: PageShape, raw: UInt8s, slots: int) -> None:
        self.shape = shape
        self._raw = raw
        self._starts = np.zeros(slots, dtype=np.int64)
        self._addresses = np.zeros((shape.num_buffers, slots), dtype=np.uint64)

    def place(self, slots: Int64s, starts: Int64s) -> None:
        """Let verified messages that begin at ``starts`` be in these slots."""
        self._starts[slots] = starts
        at_once = max(1, _ADDRESS_BYTES // (8 * self.shape.num_buffers))
        for at in range(0, slots.size, at_once):
            some = slice(at, at + at_once)
            self._addresses[:, slots[some]] = RawPages(self.shape, self._raw, starts[some]).buffers.T

    def begins(self, column: int, number: int) -> UInt64s:
        """Return where a buffer of a column begins in every message."""
        begins: UInt64s = self._addresses[self.shape.columns[column].first_buffer + number]
        return begins

    def buffer(self, number: int) -> UInt64s:
        """Return the address of a buffer in every message."""
        addresses: UInt64s = self._addresses[number]
        return addresses

    def batch(self, slot: int) -> pa.RecordBatch:
        """Return a message decoded."""
        raw = pa.py_buffer(self._raw[int(self._starts[slot]) :])
        batch: pa.RecordBatch = pa.ipc.read_record_batch(raw, self.shape.message_schema)
        return batch


_Pages: TypeAlias = RawPages | JoinedPages | SlottedPages


class RowGather:
    """Collects rows from several pieces of memory in any order; places without a row are NULL.

    Parameters
    ----------
    shape
        Names the columns; pages of other shapes may be added if their columns have the same types.
    num_rows
        Number of rows of the result.
    """

    def __init__(self, shape: PageShape, num_rows: int) -> None:
        self._schema = shape.schema
        self._num_rows = num_rows
        self._parts: list[tuple[_Pages, Int64s, Int64s, Int64s]] = []
        self._placed = 0
        self._known_ranges: dict[int, tuple[UInt64s, Int64s]] = {}

    def add(self, source: _Pages, pages: Int64s, rows: Int64s, places: Int64s) -> None:
        """Let row ``rows[i]`` of page ``pages[i]`` be row ``places[i]`` of the result. Places must be distinct."""
        assert not self._known_ranges, "all rows are added before they are looked at"
        if rows.size:
            self._parts.append((source, pages, rows, places))
            self._placed += rows.size

    def finish(self) -> pa.RecordBatch:
        """Return the rows."""
        columns = [self._column(at, field.type) for at, field in enumerate(self._schema)]
        schema = self._schema
        if self._placed < self._num_rows:
            schema = pa.schema([field.with_nullable(True) for field in schema])
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def row_bytes(self) -> Int64s:
        """Return the bytes of each row."""
        total = np.zeros(self._num_rows, dtype=np.int64)
        for at, field in enumerate(self._schema):
            width = _offset_bytes(field.type)
            if width is not None:
                total += self._ranges(at, width)[1] + width
            elif self._parts and self._parts[0][0].shape.columns[at].is_nested:
                self._add_nested_bytes(at, total)
            elif self._parts:
                total += -(-field.type.bit_width // 8)
        return total

    def _add_nested_bytes(self, at: int, total: Int64s) -> None:
        """Add the bytes of a nested column's values, for which their pages are decoded."""
        for source, pages, rows, places in self._parts:
            name = source.shape.columns[at].field.name
            for page in np.unique(pages).tolist():
                here = pages == page
                total[places[here]] += -(-row_bits(source.batch(page).select([name]))[rows[here]] // 8)

    def _column(self, at: int, dtype: pa.DataType) -> pa.Array:
        if not self._parts:
            return pa.nulls(self._num_rows, dtype)
        if self._parts[0][0].shape.columns[at].is_nested:
            return self._nested(at, dtype)
        validity = self._validity(at)
        width = _offset_bytes(dtype)
        if width is not None:
            offsets, data = self._text(at, width)
            return pa.Array.from_buffers(dtype, self._num_rows, [validity, offsets, data])
        if pt.is_boolean(dtype):
            bits = self._bits(at, 1, absent=False)
            values = flag_bits(bits)
        else:
            values = pa.py_buffer(self._values(at, dtype.bit_width // 8))
        return pa.Array.from_buffers(dtype, self._num_rows, [validity, values])

    def _validity(self, at: int) -> pa.Buffer | None:
        present = [source.begins(at, 0).any() for source, *_ in self._parts]
        if self._placed == self._num_rows and not any(present):
            return None
        valid = self._bits(at, 0, absent=True)
        return None if valid.all() else flag_bits(valid)

    def _bits(self, at: int, number: int, *, absent: bool) -> Bools:
        out = np.zeros(self._num_rows, dtype=np.bool_)
        for source, pages, rows, places in self._parts:
            gather_bits(source.begins(at, number), pages, rows, places, absent, out)
        return out

    def _values(self, at: int, width: int) -> UInt8s:
        out = np.zeros(-(-self._num_rows * width // 8) * 8, dtype=np.uint8)
        for source, pages, rows, places in self._parts:
            if width == 8:
                gather_words(source.begins(at, 1), pages, rows, places, out.view(np.int64))
            else:
                gather_fixed(source.begins(at, 1), pages, rows, places, width, out)
        return out

    def _ranges(self, at: int, width: int) -> tuple[UInt64s, Int64s]:
        """Return the address where the text of every row begins, and its length."""
        if at in self._known_ranges:
            return self._known_ranges[at]
        sources = np.zeros(self._num_rows, dtype=np.uint64)
        lengths = np.zeros(self._num_rows, dtype=np.int64)
        for source, pages, rows, places in self._parts:
            gather_ranges(source.begins(at, 1), source.begins(at, 2), pages, rows, places, width, sources, lengths)
        self._known_ranges[at] = sources, lengths
        return sources, lengths

    def _text(self, at: int, width: int) -> tuple[pa.Buffer, pa.Buffer]:
        sources, lengths = self._ranges(at, width)
        offsets = np.zeros(self._num_rows + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        for _, _, _, places in self._parts:
            gather_bytes(places, sources, offsets, data)
        return pa.py_buffer(offsets.astype(np.int32) if width == 4 else offsets), pa.py_buffer(data)

    def _nested(self, at: int, dtype: pa.DataType) -> pa.Array:
        taken: list[pa.Array] = []
        order: list[Int64s] = []
        for source, pages, rows, places in self._parts:
            position = source.shape.columns[at].position
            for page in np.unique(pages).tolist():
                here = pages == page
                taken.append(source.batch(page).column(position).take(pa.array(rows[here])))
                order.append(places[here])
        where = np.full(self._num_rows, -1, dtype=np.int64)
        where[np.concatenate(order)] = np.arange(self._placed)
        column: pa.Array = pa.concat_arrays(taken).cast(dtype).take(pa.array(where, mask=where < 0))
        return column


def flag_bits(flags: Bools) -> pa.Buffer:
    """Return flags as Arrow keeps them."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _begins(pages: RawPages | JoinedPages, column: int, number: int) -> UInt64s:
    return np.ascontiguousarray(pages.buffers[:, pages.shape.columns[column].first_buffer + number])
