"""Binary search in sorted pages, and the pairs that it finds."""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import word_at

__all__ = ["expand_ranges", "rows_of_ranges", "search_pages", "search_words"]


@kernel
def search_pages(page_codes: Int64s, starts: Int64s, stops: Int64s, codes: Int64s, lows: Int64s, highs: Int64s) -> None:
    """Find ``codes[i]`` in the sorted ``page_codes[starts[i]:stops[i]]``: rows ``lows[i]`` to ``highs[i]``."""
    for access in range(codes.size):
        code = codes[access]
        low, high = starts[access], stops[access]
        while low < high:
            middle = (low + high) // 2
            if page_codes[middle] < code:
                low = middle + 1
            else:
                high = middle
        lows[access] = low
        while low < stops[access] and page_codes[low] == code:
            low += 1
        highs[access] = low


@kernel
def search_words(
    begins: UInt64s,
    rows_of: Int64s,
    bounds: Int64s,
    page_of: Int64s,
    codes: Int64s,
    lows: Int64s,
    highs: Int64s,
) -> None:
    """Find ``codes[i]`` in the sorted words of page ``page_of[i]``, which begin at the address ``begins[page]``.

    Rows are counted over all pages: those of a page begin at ``bounds[page]``.
    """
    for access in range(codes.size):
        code = codes[access]
        page = page_of[access]
        begin = begins[page]
        low, high = np.int64(0), rows_of[page]
        while low < high:
            middle = (low + high) // 2
            if word_at(begin + np.uint64(middle) * np.uint64(8)) < code:
                low = middle + 1
            else:
                high = middle
        lows[access] = bounds[page] + low
        while low < rows_of[page] and word_at(begin + np.uint64(low) * np.uint64(8)) == code:
            low += 1
        highs[access] = bounds[page] + low


@kernel
def expand_ranges(
    lows: Int64s, highs: Int64s, at: int, offset: int, out_access: Int32s, out_rows: Int64s
) -> tuple[int, int, int]:
    """Write (access, row) for every row of every range, from row ``offset`` of access ``at`` on.

    Returns the access and offset to go on from, and how many pairs were written.
    """
    filled = 0
    while at < lows.size and filled < out_access.size:
        row = lows[at] + offset
        while row < highs[at] and filled < out_access.size:
            out_access[filled] = np.int32(at)
            out_rows[filled] = row
            filled += 1
            row += 1
        if row == highs[at]:
            at += 1
            offset = 0
        else:
            offset = row - lows[at]
    return at, offset, filled


def rows_of_ranges(firsts: Int64s, counts: Int64s) -> Int64s:
    """Return the rows of all ranges, one range after the other: ``counts[i]`` rows from ``firsts[i]`` on.

    Examples
    --------
    >>> rows_of_ranges(np.array([5, 20, 7]), np.array([2, 0, 3])).tolist()
    [5, 6, 7, 8, 9]
    """
    rows: Int64s = np.arange(counts.sum()) + np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    return rows
