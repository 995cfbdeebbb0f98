"""Searches pages that are sorted by key codes which they do not have: a code is computed where a search looks at a row.

Hashes are spread evenly, so a search guesses where a code lies between two that it knows: a page takes about five
looks, where halving it takes ten. Other codes need not be, so that after some guesses it goes on halving.

As in `semistream.kernels.pages.in_place`, `LANES` searches take turns, and what a page in place says is checked against
its end.
"""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.keys.row_codes import (
    BITS,
    BUFFER,
    DATA,
    KIND,
    PER_PART,
    TEXT,
    VALUES,
    code_of_row,
    prefetch_row,
    prefetch_texts,
)
from semistream.kernels.pages.in_place import LANES, NOT_IN_PLACE, PagesInPlace, buffer_at, prefetch_listed

__all__ = ["find_keys", "search_keys"]

_GUESSES = 6
_NOWHERE = np.uint64(0)
_LAST_CODE = np.int64(np.iinfo(np.int64).max)


@kernel
def _guess(low: np.int64, high: np.int64, low_code: np.int64, high_code: np.int64, code: np.int64) -> np.int64:
    """Return a row from ``low`` to ``high - 1``, where the code may lie."""
    span = np.float64(high_code) - np.float64(low_code)
    if not span > 0.0:
        return (low + high) >> 1
    share = (np.float64(code) - np.float64(low_code)) / span
    row = low + np.int64(min(max(share, 0.0), 1.0) * np.float64(high - low))
    return min(row, high - 1)


@kernel
def _lower_bounds(
    codes: Int64s,
    lanes: int,
    parts: Int64s,
    hash_bits: int,
    places: UInt64s,
    room: Int64s,
    low: Int64s,
    high: Int64s,
    low_code: Int64s,
    high_code: Int64s,
    row: Int64s,
) -> None:
    """Let ``low[lane]`` be the first row from there to ``high`` that is not below ``codes[lane]``, or else ``high``.

    ``low_code`` and ``high_code`` are codes between which those rows lie; in the end ``high_code[lane]`` is the code of
    the row found, unless that is the old ``high``.
    """
    looks = 0
    is_searching = True
    while is_searching:
        is_searching = has_texts = False
        for lane in range(lanes):
            if low[lane] < high[lane]:
                row[lane] = (low[lane] + high[lane]) >> 1
                if looks < _GUESSES:
                    row[lane] = _guess(low[lane], high[lane], low_code[lane], high_code[lane], codes[lane])
                has_texts |= prefetch_row(parts, lane, places, row[lane])
        if has_texts:
            for lane in range(lanes):
                if low[lane] < high[lane]:
                    prefetch_texts(parts, lane, places, row[lane])
        for lane in range(lanes):
            if low[lane] < high[lane]:
                code = code_of_row(parts, hash_bits, lane, places, room, row[lane])
                if code < codes[lane]:
                    low[lane], low_code[lane] = row[lane] + 1, code
                else:
                    high[lane], high_code[lane] = row[lane], code
                is_searching |= low[lane] < high[lane]
        looks += 1


@kernel
def _row_after(
    parts: Int64s,
    hash_bits: int,
    lane: int | np.int64,
    places: UInt64s,
    room: Int64s,
    row: np.int64,
    rows: np.int64,
    code: np.int64,
) -> np.int64:
    """Return the first row from ``row`` on that has another code."""
    while row < rows and code_of_row(parts, hash_bits, lane, places, room, row) == code:
        row += 1
    return row


@kernel
def search_keys(
    buffers: UInt64s,
    parts: Int64s,
    hash_bits: int,
    rows_of: Int64s,
    first_codes: Int64s,
    last_codes: Int64s,
    page_of: Int64s,
    codes: Int64s,
    lows: Int64s,
    highs: Int64s,
) -> None:
    """Find the first row with ``codes[i]`` in page ``page_of[i]``, and the row behind its last one.

    The pages are verified. Those of their buffers that `code_of_row` wants lie at the addresses ``buffers[page]``, and
    their codes lie between ``first_codes`` and ``last_codes``.
    """
    places = np.zeros((LANES, PER_PART * parts.shape[0]), dtype=np.uint64)
    room = np.full((LANES, parts.shape[0]), _LAST_CODE)
    low, high, row = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    low_code, high_code = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    for group in range(0, codes.size, LANES):
        lanes = min(LANES, codes.size - group)
        for lane in range(lanes):
            page = page_of[group + lane]
            low[lane], high[lane] = 0, rows_of[page]
            low_code[lane], high_code[lane] = first_codes[page], last_codes[page]
            places[lane] = buffers[page]
        wanted = codes[group : group + lanes]
        _lower_bounds(wanted, lanes, parts, hash_bits, places, room, low, high, low_code, high_code, row)
        for lane in range(lanes):
            page, found = page_of[group + lane], low[lane]
            end = found
            if found < rows_of[page] and high_code[lane] == wanted[lane]:
                end = _row_after(parts, hash_bits, lane, places, room, found + 1, rows_of[page], wanted[lane])
            lows[group + lane], highs[group + lane] = found, end


@kernel
def _find_buffers(
    pages: PagesInPlace, page: np.int64, parts: Int64s, lane: int | np.int64, places: UInt64s, room: Int64s
) -> bool:
    """Write where the key columns of a page in place lie, none of which has NULLs; False if one is not inside it."""
    if pages.addresses[page] == _NOWHERE:
        return False
    rows, end = np.int64(pages.rows[page]), pages.addresses[page] + np.uint64(pages.lengths[page])
    for part in range(parts.shape[0]):
        buffer, is_text = parts[part, BUFFER], parts[part, KIND] == TEXT
        needed = ((rows + np.int64(is_text)) * parts[part, BITS] + 7) >> 3
        values = buffer_at(pages, page, buffer + VALUES, needed)
        if values == _NOWHERE:
            return False
        places[lane, PER_PART * part + VALUES] = values
        if is_text:
            data = buffer_at(pages, page, buffer + DATA, np.int64(0))
            if data == _NOWHERE:
                return False
            places[lane, PER_PART * part + DATA] = data
            room[lane, part] = np.int64(end - data)
    return True


@kernel
def find_keys(
    codes: Int64s,
    asked: Int64s,
    page_of: Int32s,
    files: Int32s,
    file_bounds: Int64s,
    first_codes: Int64s,
    pages: PagesInPlace,
    parts: Int64s,
    hash_bits: int,
    out_row: Int32s,
    out_count: Int32s,
) -> None:
    """Find the rows with ``codes[place]`` for the places ``asked``, as `find_rows` does for keys that are words."""
    places = np.zeros((LANES, PER_PART * parts.shape[0]), dtype=np.uint64)
    room = np.zeros((LANES, parts.shape[0]), dtype=np.int64)
    low, high, row = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    low_code, high_code, wanted = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    is_known = np.zeros(LANES, dtype=np.bool_)
    for group in range(0, asked.size, LANES):
        lanes = min(LANES, asked.size - group)
        for lane in range(lanes):
            for part in range(parts.shape[0]):
                prefetch_listed(pages, np.int64(page_of[asked[group + lane]]), parts[part, BUFFER])
        for lane in range(lanes):
            place = asked[group + lane]
            page = np.int64(page_of[place])
            wanted[lane] = codes[place]
            low[lane] = high[lane] = 0
            is_known[lane] = page >= 0 and _find_buffers(pages, page, parts, lane, places, room)
            if is_known[lane]:
                is_last = page + 1 == file_bounds[files[page] + 1]
                high[lane] = pages.rows[page]
                low_code[lane], high_code[lane] = first_codes[page], _LAST_CODE if is_last else first_codes[page + 1]
        _lower_bounds(wanted, lanes, parts, hash_bits, places, room, low, high, low_code, high_code, row)
        for lane in range(lanes):
            place = asked[group + lane]
            code, page, first = wanted[lane], np.int64(page_of[place]), low[lane]
            if page < 0:
                out_count[place] = 0
                continue
            if not is_known[lane]:
                out_count[place] = NOT_IN_PLACE
                continue
            found, after = np.int64(0), first
            if first < pages.rows[page] and high_code[lane] == code:
                after = _row_after(parts, hash_bits, lane, places, room, first + 1, np.int64(pages.rows[page]), code)
                found = after - first
            out_row[place] = first
            while (
                after == pages.rows[page] and page + 1 < file_bounds[files[page] + 1] and first_codes[page + 1] == code
            ):
                page += 1
                if found == 0:
                    page_of[place], out_row[place] = page, 0
                if not _find_buffers(pages, page, parts, lane, places, room):
                    found = np.int64(NOT_IN_PLACE)
                    break
                after = _row_after(parts, hash_bits, lane, places, room, np.int64(0), np.int64(pages.rows[page]), code)
                found += after
            out_count[place] = found
