"""Finds keys, and the rows beside them, in pages that lie in memory as they lie in their file.

Nothing is copied but the values wanted. Each step touches memory that is in no cache of the processor, so `_LANES` keys
go together, and each asks for its next line before the others take their turn.

A page is used only after it was verified and found to be *ready*: resident, its key without NULLs, and its buffers
listed ``list_at`` bytes behind its begin, as in all pages of the table. What it says is checked against its
end all the same: somebody may change the file meanwhile, and then results may be wrong, but never foreign memory.
"""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt8s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import int32_at, prefetch, word_at

__all__ = ["NOT_READY", "buffers_of", "find_in_place"]

NOT_READY = np.int64(-1)
"""Instead of a number of rows: the key has to be looked up in another way."""

_LANES = 16
_AHEAD = 16
_PREFIX_BYTES = 8
_STRUCT_BYTES = 16  # of a listed buffer: offset and length


@kernel
def _key_words(page: np.uint64, end: np.uint64, list_at: int, key_buffer: int, rows: np.int64) -> np.uint64:
    """Return where the keys of a page begin, or 0 unless they lie inside it."""
    listed = page + np.uint64(list_at + _STRUCT_BYTES * key_buffer)
    body = page + np.uint64(_PREFIX_BYTES + np.int64(int32_at(page + np.uint64(4))))
    offset = word_at(listed)
    size = np.int64(end - page)
    begin = np.int64(body - page) + offset
    if begin < 0 or offset < 0 or begin % 8 != 0 or begin + 8 * rows > size:
        return np.uint64(0)
    return body + np.uint64(offset)


@kernel
def find_in_place(
    codes: Int64s,
    places: Int64s,
    first_codes: Int64s,
    first_page: int,
    base: np.uint64,
    offsets: Int64s,
    lengths: Int64s,
    rows: Int32s,
    is_ready: UInt8s,
    list_at: int,
    key_buffer: int,
    out_page: Int64s,
    out_row: Int64s,
    out_count: Int64s,
) -> None:
    """Find ``codes[place]`` for all places in the ready pages of one sorted file.

    Adds to what was found in other files: ``out_page``, ``out_row`` and ``out_count`` tell page, first row and number
    of rows. The number is `NOT_READY` for a key that may have rows in a page that is not ready, or in several pages.
    ``first_codes``, ``offsets`` and so on are those of the file's pages, ``first_page`` is the number of its first.
    """
    pages = first_codes.size
    page = np.empty(_LANES, dtype=np.int64)
    begin = np.empty(_LANES, dtype=np.uint64)
    low = np.empty(_LANES, dtype=np.int64)
    left = np.empty(_LANES, dtype=np.int64)
    for group in range(0, places.size, _LANES):
        lanes = min(_LANES, places.size - group)
        for lane in range(lanes):
            page[lane] = 0
        remaining = pages
        while remaining > 1:  # the last page whose first code is not above the key
            half = remaining >> 1
            for lane in range(lanes):
                page[lane] += half if first_codes[page[lane] + half] <= codes[places[group + lane]] else 0
            remaining -= half
        for lane in range(lanes):
            at = base + np.uint64(offsets[page[lane]])
            prefetch(at)
            prefetch(at + np.uint64(list_at + _STRUCT_BYTES * key_buffer))
        deepest = np.int64(0)
        for lane in range(lanes):
            place = places[group + lane]
            begin[lane] = np.uint64(0)
            left[lane] = 0
            if out_count[place] == NOT_READY or first_codes[page[lane]] > codes[place]:
                continue
            if is_ready[page[lane]] != 1:
                out_count[place] = NOT_READY
                continue
            at = base + np.uint64(offsets[page[lane]])
            count = np.int64(rows[page[lane]])
            begin[lane] = _key_words(at, at + np.uint64(lengths[page[lane]]), list_at, key_buffer, count)
            if begin[lane] == 0:
                out_count[place] = NOT_READY
                continue
            low[lane], left[lane] = 0, count
            deepest = max(deepest, count)
            prefetch(begin[lane] + np.uint64(8 * (count >> 1)))
        while deepest > 0:  # the first row that is not below the key
            deepest = np.int64(0)
            for lane in range(lanes):
                if left[lane] > 0:
                    half = left[lane] >> 1
                    if word_at(begin[lane] + np.uint64(8 * (low[lane] + half))) < codes[places[group + lane]]:
                        low[lane] += half + 1
                        left[lane] -= half + 1
                    else:
                        left[lane] = half
                    prefetch(begin[lane] + np.uint64(8 * (low[lane] + (left[lane] >> 1))))
                    deepest = max(deepest, left[lane])
        for lane in range(lanes):
            if begin[lane] == 0:
                continue
            place, here = places[group + lane], page[lane]
            code, count = codes[place], np.int64(rows[page[lane]])
            end = low[lane]
            while end < count and word_at(begin[lane] + np.uint64(8 * end)) == code:
                end += 1
            if low[lane] == 0 and first_codes[here] == code and here > 0:  # its rows may begin in the page before
                before = base + np.uint64(offsets[here - 1])
                held = np.int64(rows[here - 1])
                words = np.uint64(0)
                if is_ready[here - 1] == 1:
                    stop = before + np.uint64(lengths[here - 1])
                    words = _key_words(before, stop, list_at, key_buffer, held)
                if words == 0 or held == 0 or word_at(words + np.uint64(8 * (held - 1))) == code:
                    out_count[place] = NOT_READY
                    continue
            if end > low[lane]:
                if out_count[place] > 0:  # in another file too
                    out_count[place] = NOT_READY
                    continue
                out_page[place] = first_page + here
                out_row[place] = low[lane]
                out_count[place] = end - low[lane]


@kernel
def buffers_of(begins: UInt64s, ends: UInt64s, list_at: int, buffer: int, needed: Int64s, out: UInt64s) -> int:
    """Write the address of a buffer of each page, 0 for an empty one; return the first page where it is too short.

    ``begins`` and ``ends`` are the addresses of the pages, ``needed[i]`` the least bytes of the buffer of page i if it
    has any. Returns -1 if all are long enough.
    """
    for at in range(begins.size):
        if at + _AHEAD < begins.size:
            prefetch(begins[at + _AHEAD] + np.uint64(list_at + _STRUCT_BYTES * buffer))
            prefetch(begins[at + _AHEAD])
        page = begins[at]
        listed = page + np.uint64(list_at + _STRUCT_BYTES * buffer)
        offset, length = word_at(listed), word_at(listed + np.uint64(8))
        if length == 0:
            out[at] = np.uint64(0)
            continue
        body = _PREFIX_BYTES + np.int64(int32_at(page + np.uint64(4)))
        size = np.int64(ends[at] - page)
        if body < 0 or offset < 0 or length < needed[at] or length > size or body + offset > size - length:
            return at
        out[at] = page + np.uint64(body + offset)
    return -1
