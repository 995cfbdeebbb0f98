"""Finds the buffers of serialised record batches without decoding them, and copies rows out of them.

A record batch travels as a message: a marker, the size of its metadata, the metadata, and the body with the buffers.
The metadata is a FlatBuffers table ``Message`` around a table ``RecordBatch``, whose third field lists the place of
every buffer (Arrow columnar format, "Serialization and interprocess communication"). Batches are not compressed.

Rows are copied a column at a time. ``begins[page]`` is the address of the column's buffer of each page, 0 when the page
has none. Row ``rows[i]`` of page ``pages[i]`` goes to place ``places[i]`` of the output.
"""

import numpy as np

from semistream.kernels.arrays import Bools, Int64s, UInt8s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import byte_at, copy_bytes, word_at

__all__ = [
    "find_buffers",
    "find_lists",
    "gather_bits",
    "gather_bytes",
    "gather_fixed",
    "gather_ranges",
    "gather_words",
]

_PREFIX_BYTES = 8  # the marker and the size of the metadata
_HEADER_FIELD = 2  # of Message
_BUFFERS_FIELD = 2  # of RecordBatch
_STRUCT_BYTES = 16  # of Buffer: offset and length


@kernel
def _unsigned(raw: UInt8s, at: int | np.int64, width: int) -> np.int64:
    value = np.int64(0)
    for byte in range(width):
        value |= np.int64(raw[at + byte]) << np.int64(8 * byte)
    return value


@kernel
def _field(raw: UInt8s, table: int | np.int64, number: int) -> np.int64:
    """Return the place of a field of a FlatBuffers table, or -1 when it is absent."""
    back = np.int64(np.int32(_unsigned(raw, table, 4)))
    vtable = table - back
    if 4 + 2 * number >= _unsigned(raw, vtable, 2):
        return np.int64(-1)
    offset = _unsigned(raw, vtable + 4 + 2 * number, 2)
    return np.int64(-1) if offset == 0 else table + offset


@kernel
def _list_of_buffers(raw: UInt8s, start: np.int64, count: int) -> np.int64:
    """Return where the ``count`` buffers of the message at ``start`` are listed; -1 if it has another number."""
    metadata = start + _PREFIX_BYTES
    root = metadata + _unsigned(raw, metadata, 4)
    header = _field(raw, root, _HEADER_FIELD)
    if header < 0:
        return np.int64(-1)
    listed = _field(raw, header + _unsigned(raw, header, 4), _BUFFERS_FIELD)
    if listed < 0:
        return np.int64(-1)
    vector = listed + _unsigned(raw, listed, 4)
    return vector + 4 if _unsigned(raw, vector, 4) == count else np.int64(-1)


@kernel
def find_lists(raw: UInt8s, starts: Int64s, count: int, out: Int64s) -> None:
    """Write how far behind its start each message lists its ``count`` buffers, -1 if it has another number of them."""
    for message in range(starts.size):
        first = _list_of_buffers(raw, starts[message], count)
        out[message] = first - starts[message] if first >= 0 else np.int64(-1)


@kernel
def find_buffers(raw: UInt8s, starts: Int64s, buffers: UInt64s) -> int:
    """Write the address of buffer ``b`` of the message at ``starts[m]`` into ``buffers[m, b]``, 0 for an empty one.

    Stop at a message that has another number of buffers than ``buffers`` has columns, and return its number.
    """
    address = np.uint64(raw.ctypes.data)
    for message in range(starts.size):
        body = starts[message] + _PREFIX_BYTES + _unsigned(raw, starts[message] + 4, 4)
        first = _list_of_buffers(raw, starts[message], buffers.shape[1])
        if first < 0:
            return message
        for number in range(buffers.shape[1]):
            struct = first + number * _STRUCT_BYTES
            length = _unsigned(raw, struct + 8, 8)
            begin = np.uint64(body + _unsigned(raw, struct, 8))
            buffers[message, number] = address + begin if length > 0 else np.uint64(0)
    return starts.size


@kernel
def gather_words(begins: UInt64s, pages: Int64s, rows: Int64s, places: Int64s, out: Int64s) -> None:
    """Copy values of 8 bytes."""
    for at in range(rows.size):
        begin = begins[pages[at]]
        if begin:
            out[places[at]] = word_at(begin + np.uint64(rows[at]) * np.uint64(8))


@kernel
def gather_fixed(begins: UInt64s, pages: Int64s, rows: Int64s, places: Int64s, width: int, out: UInt8s) -> None:
    """Copy values of ``width`` bytes."""
    target = np.uint64(out.ctypes.data)
    size = np.uint64(width)
    for at in range(rows.size):
        begin = begins[pages[at]]
        if begin:
            copy_bytes(target + np.uint64(places[at]) * size, begin + np.uint64(rows[at]) * size, size)


@kernel
def gather_bits(begins: UInt64s, pages: Int64s, rows: Int64s, places: Int64s, absent: bool, out: Bools) -> None:
    """Copy bits; a page without the buffer yields ``absent``."""
    for at in range(rows.size):
        begin = begins[pages[at]]
        if begin == 0:
            out[places[at]] = absent
        else:
            row = np.uint64(rows[at])
            byte = byte_at(begin + (row >> np.uint64(3)))
            out[places[at]] = ((byte >> np.uint8(row & np.uint64(7))) & np.uint8(1)) != 0


@kernel
def _offset(at: np.uint64, width: int) -> np.int64:
    value = np.int64(0)
    for byte in range(width):
        value |= np.int64(byte_at(at + np.uint64(byte))) << np.int64(8 * byte)
    return value


@kernel
def gather_ranges(
    offsets: UInt64s,
    data: UInt64s,
    pages: Int64s,
    rows: Int64s,
    places: Int64s,
    width: int,
    sources: UInt64s,
    lengths: Int64s,
) -> None:
    """Find the text of every row: its address and length; an offset has ``width`` bytes."""
    size = np.uint64(width)
    for at in range(rows.size):
        listed = offsets[pages[at]]
        place = places[at]
        lengths[place] = 0
        if listed == 0:
            continue
        low = _offset(listed + np.uint64(rows[at]) * size, width)
        lengths[place] = _offset(listed + np.uint64(rows[at] + 1) * size, width) - low
        sources[place] = data[pages[at]] + np.uint64(low)


@kernel
def gather_bytes(places: Int64s, sources: UInt64s, offsets: Int64s, out: UInt8s) -> None:
    """Copy the texts of the rows at ``places``; text i lies between ``offsets[i]`` and ``offsets[i + 1]``."""
    target = np.uint64(out.ctypes.data)
    for place in places:
        begin = offsets[place]
        count = offsets[place + 1] - begin
        if count:
            copy_bytes(target + np.uint64(begin), sources[place], np.uint64(count))
