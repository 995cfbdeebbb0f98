"""Runs of neighbouring pages, to be read in one go."""

import numpy as np

from semistream.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from semistream.kernels.compile import kernel

__all__ = ["page_runs"]

_NOWHERE = np.uint64(0)


@kernel
def page_runs(
    wanted: Int64s,
    addresses: UInt64s,
    is_refused: Bools,
    file_of: Int32s,
    offsets: Int64s,
    lengths: Int64s,
    extent_bytes: int,
    ahead_bytes: int,
    first: Int64s,
    count: Int64s,
) -> int:
    """Cover different pages, ascending, with runs of pages that have no address yet and are not refused.

    Returns how many runs. A run stays in the extent of its file where its page wanted begins. When runs have
    ``ahead_bytes`` beside the first page wanted of each, the next ones are single pages.
    """
    runs, end, last = 0, np.int64(0), np.int64(offsets.size - 1)
    for at in range(wanted.size):
        page = wanted[at]
        if page < end:
            continue
        begin, extent, limit = page, offsets[page] // extent_bytes, end
        end = page + 1
        if ahead_bytes > 0:
            while (
                begin > limit and file_of[begin - 1] == file_of[page] and offsets[begin - 1] // extent_bytes == extent
            ):
                if addresses[begin - 1] != _NOWHERE or is_refused[begin - 1]:
                    break
                begin -= 1
            while end <= last and file_of[end] == file_of[page] and offsets[end] // extent_bytes == extent:
                if addresses[end] != _NOWHERE or is_refused[end]:
                    break
                end += 1
        ahead_bytes -= offsets[end - 1] + lengths[end - 1] - offsets[begin] - lengths[page]
        first[runs], count[runs] = begin, end - begin
        runs += 1
    return runs
