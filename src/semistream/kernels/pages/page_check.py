"""Checks that serialised record batches stay inside their pages, before anything follows the places they name.

A checksum tells that a page is as it was written, not who wrote it. A place outside of the page would let a reader
return foreign memory, or end the process. So the message must lie in the page, every buffer must lie in the message and
be large enough for its column, and the offsets of texts and lists must ascend inside their data.
"""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt8s
from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import byte_at, int32_at, uint16_at, word_at

__all__ = ["FIXED", "FIXED_LIST", "LIST", "NULL", "STRUCT", "TEXT", "first_malformed"]

# Kinds of columns, with their buffers; ``width`` is the bits of a value, the bytes of an offset, or the size of a list.
NULL = 0  # none
FIXED = 1  # validity, values
TEXT = 2  # validity, offsets, data
LIST = 3  # validity, offsets
STRUCT = 4  # validity
FIXED_LIST = 5  # validity

_PREFIX_BYTES = 8
_MARKER = -1
_RECORD_BATCH = 3  # among the kinds of messages
_MOST_VALUES = 1 << 40
_STRUCT_BYTES = 16  # of FieldNode: length and NULLs; of Buffer: offset and length
_OUTSIDE = np.int64(-1)
_NOWHERE = np.uint64(0)


@kernel
def _short(at: np.uint64, begin: np.uint64, end: np.uint64) -> np.int64:
    """Return an unsigned number of 2 bytes, or -1 unless it lies between ``begin`` and ``end``."""
    return np.int64(uint16_at(at)) if begin <= at and at + np.uint64(2) <= end else _OUTSIDE


@kernel
def _int(at: np.uint64, begin: np.uint64, end: np.uint64) -> np.int64:
    """Return an unsigned number of 4 bytes, likewise; none in a page is as large as 2**31."""
    return max(np.int64(int32_at(at)), _OUTSIDE) if begin <= at and at + np.uint64(4) <= end else _OUTSIDE


@kernel
def _long(at: np.uint64, begin: np.uint64, end: np.uint64) -> np.int64:
    """Return a number of 8 bytes, likewise."""
    return max(word_at(at), _OUTSIDE) if begin <= at and at + np.uint64(8) <= end else _OUTSIDE


@kernel
def _field(table: np.uint64, number: int, begin: np.uint64, end: np.uint64) -> np.uint64:
    """Return the address of a field of a FlatBuffers table, or 0 if it is absent or outside."""
    if table < begin or table + np.uint64(4) > end:
        return _NOWHERE
    vtable = np.uint64(np.int64(table) - np.int64(int32_at(table)))
    place = 4 + 2 * number
    if place >= _short(vtable, begin, end):
        return _NOWHERE
    offset = _short(vtable + np.uint64(place), begin, end)
    return table + np.uint64(offset) if offset > 0 else _NOWHERE


@kernel
def _vector(table: np.uint64, number: int, count: int, begin: np.uint64, end: np.uint64) -> np.uint64:
    """Return where the ``count`` structs of a vector begin, or 0 if it has another number or lies outside."""
    listed = _field(table, number, begin, end)
    offset = _int(listed, begin, end)
    if offset < 0 or _int(listed + np.uint64(offset), begin, end) != count:
        return _NOWHERE
    structs = listed + np.uint64(offset + 4)
    return structs if structs + np.uint64(count * _STRUCT_BYTES) <= end else _NOWHERE


@kernel
def _count_zeros(address: np.uint64, bits: np.int64) -> np.int64:
    zeros = np.int64(0)
    for at in range(bits >> 3):
        byte = np.uint8(~byte_at(address + np.uint64(at)))
        while byte:
            byte &= np.uint8(byte - np.uint8(1))
            zeros += 1
    for bit in range(bits & ~7, bits):
        zeros += ((byte_at(address + np.uint64(bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1)) == 0
    return zeros


@kernel
def _offset(address: np.uint64, at: int | np.int64, width: int) -> np.int64:
    return np.int64(int32_at(address + np.uint64(4 * at)) if width == 4 else word_at(address + np.uint64(8 * at)))


@kernel
def _ascends(address: np.uint64, count: np.int64, width: int) -> bool:
    """Return whether ``count`` offsets of ``width`` bytes ascend from 0 or more."""
    before = np.int64(0)
    descents = 0
    for at in range(count):
        offset = _offset(address, at, width)
        descents += int(offset < before)
        before = offset
    return descents == 0


@kernel
def _is_sound(
    start: np.uint64,
    size: np.int64,
    rows: np.int64,
    kinds: Int32s,
    widths: Int64s,
    parents: Int32s,
    num_buffers: int,
    needed: Int64s,
) -> bool:
    end = start + np.uint64(size)
    begin = start + np.uint64(_PREFIX_BYTES)
    if size < _PREFIX_BYTES or int32_at(start) != _MARKER:
        return False
    metadata_bytes = _int(start + np.uint64(4), start, end)
    body_bytes = size - _PREFIX_BYTES - metadata_bytes
    if metadata_bytes < 4 or metadata_bytes % 8 != 0 or body_bytes < 0:
        return False
    body = begin + np.uint64(metadata_bytes)
    message = begin + np.uint64(_int(begin, begin, body))
    kind_at = _field(message, 1, begin, body)
    header = _field(message, 2, begin, body)
    if kind_at == _NOWHERE or kind_at >= body or byte_at(kind_at) != _RECORD_BATCH or header == _NOWHERE:
        return False
    if _long(_field(message, 3, begin, body), begin, body) != body_bytes:
        return False
    batch = header + np.uint64(_int(header, begin, body))
    is_compressed = _field(batch, 3, begin, body) != _NOWHERE
    if is_compressed or _long(_field(batch, 0, begin, body), begin, body) != rows:
        return False
    node_at = _vector(batch, 1, kinds.size, begin, body)
    buffer_at = _vector(batch, 2, num_buffers, begin, body)
    if node_at == _NOWHERE or (buffer_at == _NOWHERE and num_buffers > 0):
        return False
    for node in range(kinds.size):
        kind, width = kinds[node], widths[node]
        length, nulls = word_at(node_at), word_at(node_at + np.uint64(8))
        node_at += np.uint64(_STRUCT_BYTES)
        least = rows if parents[node] < 0 else needed[parents[node]]
        if length < least or nulls < 0 or nulls > length or (parents[node] < 0 and length != rows):
            return False
        if length > (rows if parents[node] < 0 else 8 * size):  # a value inside a list or struct takes a bit at least
            return False
        if kind == NULL:
            if nulls != length:
                return False
            continue
        buffers = 1 if kind in (STRUCT, FIXED_LIST) else (3 if kind == TEXT else 2)
        for number in range(buffers):
            offset, nbytes = word_at(buffer_at), word_at(buffer_at + np.uint64(8))
            buffer_at += np.uint64(_STRUCT_BYTES)
            if offset < 0 or offset % 8 != 0 or nbytes < 0 or nbytes > body_bytes or offset > body_bytes - nbytes:
                return False
            address = body + np.uint64(offset)
            if number == 0:
                if nulls == 0 and nbytes == 0:
                    continue
                if nbytes < (length + 7) // 8 or _count_zeros(address, length) != nulls:
                    return False
            elif number == 2:
                if needed[node] > nbytes:
                    return False
            elif kind == FIXED:
                if width > 0 and length > 8 * nbytes // width:
                    return False
            elif length == 0 and nbytes == 0:
                needed[node] = 0
            else:
                if length >= nbytes or nbytes < (length + 1) * width or not _ascends(address, length + 1, width):
                    return False
                needed[node] = _offset(address, length, width)
        if kind == STRUCT:
            needed[node] = length
        elif kind == FIXED_LIST:
            if width > 0 and length > _MOST_VALUES // width:
                return False
            needed[node] = length * width
    return True


@kernel
def first_malformed(
    raw: UInt8s,
    starts: Int64s,
    sizes: Int64s,
    rows: Int32s,
    kinds: Int32s,
    widths: Int64s,
    parents: Int32s,
    num_buffers: int,
) -> int:
    """Return the first page that is no record batch of the columns given, or -1.

    Parameters
    ----------
    starts, sizes, rows
        For each page: its place in ``raw``, its bytes, its rows.
    kinds, widths, parents
        For each column, nested ones after the column that they are in: its kind and width, and the number of that
        column or -1.
    num_buffers
        Of all columns together.
    """
    needed = np.zeros(kinds.size, dtype=np.int64)
    base = np.uint64(raw.ctypes.data)
    for page in range(starts.size):
        start, size = starts[page], sizes[page]
        if start < 0 or start % 8 != 0 or size < 0 or size > raw.size - start:
            return page
        begin, count = base + np.uint64(start), np.int64(rows[page])
        if not _is_sound(begin, size, count, kinds, widths, parents, num_buffers, needed):
            return page
    return -1
