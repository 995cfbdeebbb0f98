"""Which pages lie in the slots of a buffer pool: least recently used out first, one request after the other.

Nodes of a list, from the oldest use to the newest: the first slot of every page, and every free slot, which is older
than any page. ``older`` and ``newer`` hold its links, with one more place, at the end, for both ends of the list.
"""

from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.compile import kernel

__all__ = ["FREE", "place_pages"]

FREE = -1


@kernel
def _unlink(slot: int, older: Int32s, newer: Int32s) -> None:
    newer[older[slot]] = newer[slot]
    older[newer[slot]] = older[slot]


@kernel
def _link(slot: int, before: int, older: Int32s, newer: Int32s) -> None:
    """Let ``slot`` be newer than ``before``."""
    after = newer[before]
    older[slot], newer[slot] = before, after
    newer[before] = older[after] = slot


@kernel
def _run_around(slot: int, wanted: int, page_in: Int32s) -> int:
    """Return where ``wanted`` free slots side by side begin, among those around a free one; -1 if there are fewer."""
    first = slot
    while first > 0 and page_in[first - 1] == FREE:
        first -= 1
    end = slot + 1
    while end < page_in.size and end - first < wanted and page_in[end] == FREE:
        end += 1
    return first if end - first >= wanted else -1


@kernel
def _free_run(
    wanted: int, portion: int, slot_of: Int32s, page_in: Int32s, used_in: Int64s, older: Int32s, newer: Int32s
) -> int:
    """Return where ``wanted`` free slots side by side begin, after as many pages were thrown out as it takes.

    -1 if the next page to go is in use.
    """
    ends = page_in.size
    node = newer[ends]
    while node != ends and page_in[node] == FREE:
        first = _run_around(node, wanted, page_in)
        if first >= 0:
            return first
        node = newer[node]
    while node != ends and used_in[node] < portion:
        following = newer[node]
        page = page_in[node]
        slot_of[page] = FREE
        _unlink(node, older, newer)
        slot = node
        while slot < ends and page_in[slot] == page:
            page_in[slot] = FREE
            _link(slot, ends, older, newer)
            slot += 1
        first = _run_around(node, wanted, page_in)
        if first >= 0:
            return first
        node = following
    return -1


@kernel
def place_pages(
    wanted: Int64s,
    slots_needed: Int32s,
    portion: int,
    slot_of: Int32s,
    page_in: Int32s,
    used_in: Int64s,
    older: Int32s,
    newer: Int32s,
    missing: Int64s,
) -> tuple[int, int]:
    """Follow requests for pages, in their order, until one would throw out a page that was requested before it.

    Parameters
    ----------
    slots_needed
        For each page: how many slots it takes, side by side.
    portion
        The number of this call, larger than that of any before.
    slot_of, page_in
        The first slot of each page, and the page in each slot; `FREE` where there is none.
    used_in
        For the first slot of each page: the call in which it was last requested.
    missing
        Takes the pages that were placed and have to be read, in the order of their requests.

    Returns
    -------
    How many requests were followed, and how many of them have to be read.
    """
    ends = page_in.size
    misses = 0
    for at in range(wanted.size):
        page = wanted[at]
        slot = slot_of[page]
        if slot >= 0:
            _unlink(slot, older, newer)
        else:
            slot = _free_run(slots_needed[page], portion, slot_of, page_in, used_in, older, newer)
            if slot < 0:
                return at, misses
            for taken in range(slot, slot + slots_needed[page]):
                _unlink(taken, older, newer)
                page_in[taken] = page
            slot_of[page] = slot
            missing[misses] = page
            misses += 1
        _link(slot, older[ends], older, newer)
        used_in[slot] = portion
    return wanted.size, misses
