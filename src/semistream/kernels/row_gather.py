"""Copies rows out of pages that lie in one piece of memory, a column at a time.

``begins[page]`` is where the column's buffer begins in ``raw`` for each page, or -1 when the page has none. Row
``rows[i]`` of page ``pages[i]`` goes to place ``places[i]`` of the output.

Inner loops count in unsigned numbers: a signed index may be negative and then counts from the end, which numba would
look at for every byte.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel

__all__ = ["gather_bits", "gather_bytes", "gather_fixed", "gather_ranges", "gather_words"]

_Bytes = npt.NDArray[np.uint8]
_Int64s = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@kernel
def gather_words(
    raw: _Int64s, begins: _Int64s, pages: _Int64s, rows: _Int64s, places: _Int64s, words: int, out: _Int64s
) -> None:
    """Copy values of ``words`` words of 8 bytes; ``raw`` is the memory seen as words, on which buffers begin."""
    for at in range(rows.size):
        source = begins[pages[at]]
        if source < 0:
            continue
        first = np.uint64((source >> 3) + rows[at] * words)
        target = np.uint64(places[at] * words)
        for word in range(np.uint64(words)):
            out[target + word] = raw[first + word]


@kernel
def gather_fixed(
    raw: _Bytes, begins: _Int64s, pages: _Int64s, rows: _Int64s, places: _Int64s, width: int, out: _Bytes
) -> None:
    """Copy values of ``width`` bytes."""
    for at in range(rows.size):
        source = begins[pages[at]]
        if source < 0:
            continue
        first = np.uint64(source + rows[at] * width)
        target = np.uint64(places[at] * width)
        for byte in range(np.uint64(width)):
            out[target + byte] = raw[first + byte]


@kernel
def gather_bits(
    raw: _Bytes, begins: _Int64s, pages: _Int64s, rows: _Int64s, places: _Int64s, absent: bool, out: _Bools
) -> None:
    """Copy bits; a page without the buffer has ``absent`` everywhere."""
    for at in range(rows.size):
        source = begins[pages[at]]
        if source < 0:
            out[places[at]] = absent
        else:
            row = rows[at]
            out[places[at]] = ((raw[source + (row >> 3)] >> np.uint8(row & 7)) & np.uint8(1)) != 0


@kernel
def _offset(raw: _Bytes, at: int, width: int) -> np.int64:
    value = np.int64(0)
    for byte in range(width):
        value |= np.int64(raw[at + byte]) << np.int64(8 * byte)
    return value


@kernel
def gather_ranges(
    raw: _Bytes,
    offsets: _Int64s,
    data: _Int64s,
    pages: _Int64s,
    rows: _Int64s,
    places: _Int64s,
    width: int,
    sources: _Int64s,
    lengths: _Int64s,
) -> None:
    """Find the text of every row: where it begins in ``raw``, and its length; ``width`` is that of an offset."""
    for at in range(rows.size):
        listed = offsets[pages[at]]
        place = places[at]
        lengths[place] = 0
        if listed < 0:
            continue
        low = _offset(raw, listed + rows[at] * width, width)
        lengths[place] = _offset(raw, listed + (rows[at] + 1) * width, width) - low
        sources[place] = data[pages[at]] + low


@kernel
def gather_bytes(raw: _Bytes, places: _Int64s, sources: _Int64s, offsets: _Int64s, out: _Bytes) -> None:
    """Copy the text of the rows at ``places``: ``offsets`` says where each begins and ends in the output."""
    for place in places:
        source = np.uint64(sources[place])
        begin = np.uint64(offsets[place])
        for byte in range(np.uint64(offsets[place + 1]) - begin):
            out[begin + byte] = raw[source + byte]
