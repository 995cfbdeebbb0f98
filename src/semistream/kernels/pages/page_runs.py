"""Runs of neighbouring pages, to be read in one go."""

import numpy as np

from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.compile import kernel

__all__ = ["page_runs"]


@kernel
def page_runs(
    wanted: Int64s,
    is_open: Bools,
    file_of: Int32s,
    offsets: Int64s,
    lengths: Int64s,
    extent_bytes: int,
    ahead_bytes: int,
    first: Int64s,
    count: Int64s,
) -> int:
    """Cover different pages, ascending, with runs of pages that are open, and return how many runs.

    A run stays in the extent of its file where its page wanted begins. When runs have ``ahead_bytes`` beside the first
    page wanted of each, the next ones are single pages.
    """
    runs, end = 0, np.int64(0)
    for at in range(wanted.size):
        page = wanted[at]
        if page < end:
            continue
        begin, extent = page, offsets[page] // extent_bytes
        limit = end
        end = page + 1
        if ahead_bytes > 0:
            while begin > limit and is_open[begin - 1] and file_of[begin - 1] == file_of[page]:
                if offsets[begin - 1] // extent_bytes != extent:
                    break
                begin -= 1
            while end < is_open.size and is_open[end] and file_of[end] == file_of[page]:
                if offsets[end] // extent_bytes != extent:
                    break
                end += 1
        ahead_bytes -= offsets[end - 1] + lengths[end - 1] - offsets[begin] - lengths[page]
        first[runs], count[runs] = begin, end - begin
        runs += 1
    return runs
