"""Finds keys, and the values beside them, in pages that lie in memory as they lie in their file.

Each look-up touches lines of memory that no cache of the processor holds. So `LANES` look-ups go together, and each
asks for its next line before the others take their turn.

A page is used once its address is known: then it was verified. Most pages of a table without texts have their buffers
in the same places: these few layouts are kept in memory, so that no line of the page itself is read to find its values.
Any other page lists its buffers ``list_at`` bytes behind its begin, as all pages of the table do. What a page says is
checked against its end all the same: if somebody changes the file meanwhile, values may be wrong, but never foreign
memory.
"""

from typing import NamedTuple

import numpy as np

from semistream.kernels.arrays import Bools, Int8s, Int32s, Int64s, UInt8s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import byte_at, copy_bytes, int32_at, prefetch, word_at

__all__ = [
    "LANES",
    "NOT_IN_PLACE",
    "NO_LAYOUT",
    "NO_PAGE",
    "PagesInPlace",
    "RowPlaces",
    "buffer_at",
    "copy_texts",
    "expand_rows",
    "find_pages",
    "find_rows",
    "gather_flags",
    "gather_texts",
    "gather_values",
    "gather_words",
    "locate_rows",
    "number_layouts",
    "prefetch_listed",
]

NOT_IN_PLACE = np.int32(-1)
"""Instead of a number of rows: the key has to be looked up in another way."""

NO_PAGE = np.int32(-1)

NO_LAYOUT = np.int8(-1)
"""Of a page that has to be asked where its buffers are."""

LANES = 32
_BLOCK = 64  # rows whose values are asked for together
_PREFIX_BYTES = 8
_STRUCT_BYTES = 16  # of a listed buffer: offset and length
_NOWHERE = np.uint64(0)
_LINE_BYTES = 64


@kernel
def find_pages(
    codes: Int64s,
    places: Int64s,
    bucket_of: Int32s,
    first_file: Int64s,
    ordinal: int,
    file_bounds: Int64s,
    first_codes: Int64s,
    out: Int32s,
) -> None:
    """Find where rows with ``codes[place]`` can begin in the file number ``ordinal`` of their bucket.

    That is the last page that begins below the code, or the file's first page; `NO_PAGE` where the bucket has no such
    file. The files of bucket b are ``first_file[b]`` to ``first_file[b + 1]``.
    """
    page = np.empty(LANES, dtype=np.int64)
    left = np.empty(LANES, dtype=np.int64)
    for group in range(0, places.size, LANES):
        lanes = min(LANES, places.size - group)
        longest = np.int64(0)
        for lane in range(lanes):
            bucket = bucket_of[places[group + lane]]
            file = first_file[bucket] + ordinal
            if file < first_file[bucket + 1]:
                page[lane], left[lane] = file_bounds[file], file_bounds[file + 1] - file_bounds[file]
            else:
                page[lane], left[lane] = NO_PAGE, 0
            longest = max(longest, left[lane])
        while longest > 1:
            for lane in range(lanes):
                half = left[lane] >> 1
                if half > 0:
                    page[lane] += half if first_codes[page[lane] + half] < codes[places[group + lane]] else 0
                    left[lane] -= half
            longest -= longest >> 1
        for lane in range(lanes):
            out[places[group + lane]] = page[lane]


class PagesInPlace(NamedTuple):
    """Where the pages of a table lie, and their buffers in them."""

    addresses: UInt64s  # 0 of a page that is not in memory
    lengths: Int64s
    rows: Int32s
    layout: Int8s  # the number of each page's layout, or `NO_LAYOUT`
    layouts: Int32s  # how far behind its begin a page has each of its buffers, 0 for an empty one
    list_at: int


class RowPlaces(NamedTuple):
    """For each row its page, its number there, where the page begins, and the page's layout."""

    page: Int32s
    row: Int32s
    begin: UInt64s
    layout: Int8s


@kernel
def number_layouts(buffers: UInt64s, begins: UInt64s, layouts: Int32s, used: int, out: Int8s) -> int:
    """Number the layouts of pages with these buffers, the first ``used`` of which are known.

    A new one is added while there is room; after that a page has none. Returns how many are known then.
    """
    for page in range(begins.size):
        out[page] = NO_LAYOUT
        for number in range(min(used + 1, layouts.shape[0])):
            is_same = True
            for buffer in range(buffers.shape[1]):
                address = buffers[page, buffer]
                offset = np.int32(address - begins[page]) if address != _NOWHERE else np.int32(0)
                if number == used:
                    layouts[number, buffer] = offset
                elif layouts[number, buffer] != offset:
                    is_same = False
                    break
            if is_same:
                out[page] = number
                used = max(used, number + 1)
                break
    return used


@kernel
def _listed(pages: PagesInPlace, page: np.int64, number: int, needed: np.int64) -> np.uint64:
    """Return the address of a buffer that the page lists, or 0 unless ``needed`` bytes of it lie inside the page."""
    begin, size = pages.addresses[page], pages.lengths[page]
    body = np.int64(_PREFIX_BYTES) + np.int64(int32_at(begin + np.uint64(4)))
    offset = word_at(begin + np.uint64(pages.list_at + _STRUCT_BYTES * number))
    if body < 0 or offset < 0 or offset % 8 != 0 or needed > size or body + offset > size - needed:
        return _NOWHERE
    address: np.uint64 = begin + np.uint64(body + offset)
    return address


@kernel
def buffer_at(pages: PagesInPlace, page: np.int64, number: int, needed: np.int64) -> np.uint64:
    """Return the address of a buffer of a page in memory, or 0 unless ``needed`` bytes of it lie inside the page.

    Needed are as many as a verified page with so many rows has: where its layout is known, that was seen to.
    """
    layout = pages.layout[page]
    if layout != NO_LAYOUT:
        address: np.uint64 = pages.addresses[page] + np.uint64(pages.layouts[layout, number])
        return address
    return _listed(pages, page, number, needed)


@kernel
def prefetch_listed(pages: PagesInPlace, page: np.int64, number: int | np.int64) -> None:
    """Ask for the lines of a page that say where a buffer is, if they have to be read."""
    if page >= 0 and pages.addresses[page] != _NOWHERE and pages.layout[page] == NO_LAYOUT:
        prefetch(pages.addresses[page])
        prefetch(pages.addresses[page] + np.uint64(pages.list_at + _STRUCT_BYTES * number))


@kernel
def _key_words(pages: PagesInPlace, page: np.int64, key_buffer: int) -> np.uint64:
    """Return where the keys of a page begin, or 0 if they are not in memory."""
    if pages.addresses[page] == _NOWHERE:
        return _NOWHERE
    return buffer_at(pages, page, key_buffer, 8 * np.int64(pages.rows[page]))


@kernel
def find_rows(
    codes: Int64s,
    places: Int64s,
    page_of: Int32s,
    files: Int32s,
    file_bounds: Int64s,
    first_codes: Int64s,
    pages: PagesInPlace,
    key_buffer: int,
    out_row: Int32s,
    out_count: Int32s,
) -> None:
    """Find the rows with ``codes[place]`` from page ``page_of[place]`` on: where they begin, and how many they are.

    They may go on in the next pages of their file. ``page_of[place]`` becomes the page with the first of them. The
    number is `NOT_IN_PLACE` where a page that may have rows is not in memory.
    """
    begin = np.empty(LANES, dtype=np.uint64)
    low = np.empty(LANES, dtype=np.int64)
    left = np.empty(LANES, dtype=np.int64)
    for group in range(0, places.size, LANES):
        lanes = min(LANES, places.size - group)
        for lane in range(lanes):
            prefetch_listed(pages, np.int64(page_of[places[group + lane]]), key_buffer)
        longest = np.int64(0)
        for lane in range(lanes):
            page = page_of[places[group + lane]]
            begin[lane], low[lane], left[lane] = _NOWHERE, 0, 0
            if page >= 0:
                begin[lane] = _key_words(pages, page, key_buffer)
                left[lane] = pages.rows[page] if begin[lane] != _NOWHERE else np.int64(0)
                longest = max(longest, left[lane])
                prefetch(begin[lane] + np.uint64(8 * (left[lane] >> 1)))
        while longest > 0:  # the first row that is not below the code
            longest = np.int64(0)
            for lane in range(lanes):
                if left[lane] > 0:
                    half = left[lane] >> 1
                    if word_at(begin[lane] + np.uint64(8 * (low[lane] + half))) < codes[places[group + lane]]:
                        low[lane] += half + 1
                        left[lane] -= half + 1
                    else:
                        left[lane] = half
                    prefetch(begin[lane] + np.uint64(8 * (low[lane] + (left[lane] >> 1))))
                    longest = max(longest, left[lane])
        for lane in range(lanes):
            place = places[group + lane]
            code, page = codes[place], np.int64(page_of[place])
            if page < 0:
                out_count[place] = 0
                continue
            if begin[lane] == _NOWHERE:
                out_count[place] = NOT_IN_PLACE
                continue
            words, row, found = begin[lane], low[lane], np.int64(0)
            out_row[place] = row
            while True:
                while row < pages.rows[page] and word_at(words + np.uint64(8 * row)) == code:
                    row += 1
                    found += 1
                if row < pages.rows[page] or page + 1 == file_bounds[files[page] + 1] or first_codes[page + 1] != code:
                    break
                page += 1
                if found == 0:
                    page_of[place], out_row[place] = page, 0
                row = np.int64(0)
                words = _key_words(pages, page, key_buffer)
                if words == _NOWHERE:
                    found = np.int64(NOT_IN_PLACE)
                    break
            out_count[place] = found


@kernel
def expand_rows(
    pages: Int32s,
    first_rows: Int32s,
    counts: Int32s,
    rows: Int32s,
    with_unmatched: bool,
    at: int,
    offset: int,
    out_access: Int32s,
    out_page: Int32s,
    out_row: Int32s,
) -> tuple[int, int, int]:
    """Write (access, page, row) for every row found, from row ``offset`` of access ``at`` on.

    With ``with_unmatched`` an access without rows is written once, beside `NO_PAGE`. Returns the access and offset to
    go on from, and how many were written.
    """
    filled = 0
    while at < counts.size and filled < out_access.size:
        if counts[at] <= 0:
            if with_unmatched and counts[at] == 0:
                out_access[filled], out_page[filled], out_row[filled] = at, NO_PAGE, 0
                filled += 1
            at += 1
            continue
        page, row = pages[at], np.int64(first_rows[at]) + offset
        while row >= rows[page]:
            row -= rows[page]
            page += 1
        while offset < counts[at] and filled < out_access.size:
            if row == rows[page]:
                page, row = page + 1, np.int64(0)
            out_access[filled], out_page[filled], out_row[filled] = at, page, row
            filled += 1
            offset += 1
            row += 1
        if offset == counts[at]:
            at, offset = at + 1, 0
    return at, offset, filled


@kernel
def locate_rows(page_of: Int32s, pages: PagesInPlace, out_begin: UInt64s, out_layout: Int8s) -> None:
    """Write where the page of each row begins, 0 for `NO_PAGE`, and its layout."""
    for at in range(page_of.size):
        page = page_of[at]
        out_begin[at], out_layout[at] = _NOWHERE, NO_LAYOUT
        if page >= 0:
            out_begin[at], out_layout[at] = pages.addresses[page], pages.layout[page]


@kernel
def _ask(
    places: RowPlaces,
    pages: PagesInPlace,
    start: int,
    stop: int,
    buffer: int,
    entry_bits: int,
    further: int,
    out: UInt64s,
) -> int:
    """Write the address of the entry of each row in a buffer, 0 for one without a page, and ask for its memory.

    An entry has ``entry_bits`` bits; a buffer has ``further`` entries more than the page has rows. Returns the first
    row whose entry is not inside its page, or -1.
    """
    for at in range(start, stop):
        out[at - start] = _NOWHERE
        begin = places.begin[at]
        if begin == _NOWHERE:
            continue
        if places.layout[at] != NO_LAYOUT:
            begin += np.uint64(pages.layouts[places.layout[at], buffer])
        else:
            page = places.page[at]
            needed = ((np.int64(pages.rows[page]) + further) * entry_bits + 7) >> 3
            begin = _listed(pages, page, buffer, needed)
            if begin == _NOWHERE:
                return at
        entry = begin + np.uint64((np.int64(places.row[at]) * entry_bits) >> 3)
        out[at - start] = entry
        prefetch(entry)
        if entry_bits > 8 * _LINE_BYTES:
            prefetch(entry + np.uint64(_LINE_BYTES))
    return -1


@kernel
def gather_words(places: RowPlaces, pages: PagesInPlace, buffer: int, out: Int64s) -> int:
    """Copy values of 8 bytes, 0 without a page; return the first row that is not inside its page, or -1."""
    entries = np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, out.size, _BLOCK):
        stop = min(start + _BLOCK, out.size)
        wrong = _ask(places, pages, start, stop, buffer, 64, 0, entries)
        if wrong >= 0:
            return wrong
        for at in range(start, stop):
            entry = entries[at - start]
            out[at] = word_at(entry) if entry != _NOWHERE else np.int64(0)
    return -1


@kernel
def gather_values(places: RowPlaces, pages: PagesInPlace, buffer: int, width: int, out: UInt8s) -> int:
    """Copy values of ``width`` bytes, likewise."""
    entries = np.empty(_BLOCK, dtype=np.uint64)
    target = np.uint64(out.ctypes.data)
    rows = places.page.size
    for start in range(0, rows, _BLOCK):
        stop = min(start + _BLOCK, rows)
        wrong = _ask(places, pages, start, stop, buffer, 8 * width, 0, entries)
        if wrong >= 0:
            return wrong
        for at in range(start, stop):
            entry = entries[at - start]
            if entry != _NOWHERE:
                copy_bytes(target + np.uint64(at * width), entry, np.uint64(width))
            else:
                out[at * width : (at + 1) * width] = 0
    return -1


@kernel
def _is_empty(places: RowPlaces, pages: PagesInPlace, at: int, buffer: int) -> bool:
    layout = places.layout[at]
    if layout != NO_LAYOUT:
        return bool(pages.layouts[layout, buffer] == 0)
    return bool(word_at(places.begin[at] + np.uint64(pages.list_at + _STRUCT_BYTES * buffer + 8)) == 0)


@kernel
def gather_flags(places: RowPlaces, pages: PagesInPlace, buffer: int, absent: bool, out: Bools) -> int:
    """Copy bits; ``absent`` where a page has no such buffer, False without a page. Returns as `gather_words` does."""
    entry = np.empty(1, dtype=np.uint64)
    for at in range(out.size):
        if places.begin[at] == _NOWHERE:
            out[at] = False
        elif _is_empty(places, pages, at, buffer):
            out[at] = absent
        else:
            if _ask(places, pages, at, at + 1, buffer, 1, 0, entry) >= 0:
                return at
            out[at] = ((byte_at(entry[0]) >> np.uint8(places.row[at] & 7)) & np.uint8(1)) != 0
    return -1


@kernel
def gather_texts(
    places: RowPlaces, pages: PagesInPlace, buffer: int, width: int, sources: UInt64s, sizes: Int64s
) -> int:
    """Find the text of every row, whose offsets of ``width`` bytes are in ``buffer`` and whose data in the next one.

    Returns as `gather_words` does.
    """
    entries = np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, sizes.size, _BLOCK):
        stop = min(start + _BLOCK, sizes.size)
        wrong = _ask(places, pages, start, stop, buffer, 8 * width, 1, entries)
        if wrong >= 0:
            return wrong
        for at in range(start, stop):
            entry, page = entries[at - start], places.page[at]
            sources[at], sizes[at] = _NOWHERE, 0
            if entry == _NOWHERE:
                continue
            if width == 4:
                low, high = np.int64(int32_at(entry)), np.int64(int32_at(entry + np.uint64(4)))
            else:
                low, high = word_at(entry), word_at(entry + np.uint64(8))
            if low == high:
                continue
            if low < 0 or high < low or high > pages.lengths[page]:
                return at
            if places.layout[at] != NO_LAYOUT:
                offset = np.int64(pages.layouts[places.layout[at], buffer + 1])
                if high > pages.lengths[page] - offset:
                    return at
                data = places.begin[at] + np.uint64(offset)
            else:
                data = _listed(pages, page, buffer + 1, high)
                if data == _NOWHERE:
                    return at
            sources[at], sizes[at] = data + np.uint64(low), high - low
            prefetch(sources[at])
    return -1


@kernel
def copy_texts(sources: UInt64s, offsets: Int64s, out: UInt8s) -> None:
    """Copy the texts from their addresses; text i lies between ``offsets[i]`` and ``offsets[i + 1]``."""
    target = np.uint64(out.ctypes.data)
    for at in range(sources.size):
        if sources[at] != _NOWHERE:
            begin = offsets[at]
            copy_bytes(target + np.uint64(begin), sources[at], np.uint64(offsets[at + 1] - begin))
