"""Copies rows out of pages wherever these lie in memory, a column at a time.

``begins[page]`` is the address of the column's buffer for each page, or 0 when the page has none. Row ``rows[i]`` of
page ``pages[i]`` goes to place ``places[i]`` of the output.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import byte_at, copy_bytes, word_at

__all__ = ["gather_bits", "gather_bytes", "gather_fixed", "gather_ranges", "gather_words"]

_Bytes = npt.NDArray[np.uint8]
_Int64s = npt.NDArray[np.int64]
_Uint64s = npt.NDArray[np.uint64]
_Bools = npt.NDArray[np.bool_]


@kernel
def gather_words(begins: _Uint64s, pages: _Int64s, rows: _Int64s, places: _Int64s, out: _Int64s) -> None:
    """Copy values of 8 bytes."""
    for at in range(rows.size):
        begin = begins[pages[at]]
        if begin:
            out[places[at]] = word_at(begin + np.uint64(rows[at]) * np.uint64(8))


@kernel
def gather_fixed(begins: _Uint64s, pages: _Int64s, rows: _Int64s, places: _Int64s, width: int, out: _Bytes) -> None:
    """Copy values of ``width`` bytes."""
    target = np.uint64(out.ctypes.data)
    size = np.uint64(width)
    for at in range(rows.size):
        begin = begins[pages[at]]
        if begin:
            copy_bytes(target + np.uint64(places[at]) * size, begin + np.uint64(rows[at]) * size, size)


@kernel
def gather_bits(begins: _Uint64s, pages: _Int64s, rows: _Int64s, places: _Int64s, absent: bool, out: _Bools) -> None:
    """Copy bits; a page without the buffer has ``absent`` everywhere."""
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
    offsets: _Uint64s,
    data: _Uint64s,
    pages: _Int64s,
    rows: _Int64s,
    places: _Int64s,
    width: int,
    sources: _Uint64s,
    lengths: _Int64s,
) -> None:
    """Find the text of every row: the address where it begins, and its length; ``width`` is that of an offset."""
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
def gather_bytes(places: _Int64s, sources: _Uint64s, offsets: _Int64s, out: _Bytes) -> None:
    """Copy the text of the rows at ``places``: ``offsets`` says where each begins and ends in the output."""
    target = np.uint64(out.ctypes.data)
    for place in places:
        begin = offsets[place]
        count = offsets[place + 1] - begin
        if count:
            copy_bytes(target + np.uint64(begin), sources[place], np.uint64(count))
