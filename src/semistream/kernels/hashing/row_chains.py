"""Rows in slots, chained by owner: the master rows of each cached key, in slots that are freed in any order.

::

    owner   first row        next
      0        4      ──►    4 ─► 1 ─► (end)
      1        2      ──►    2 ─► (end)
                             free: 0 ─► 3 ─► (end)
"""

import numpy as np

from semistream.kernels.arrays import Bools, Int32s
from semistream.kernels.compile import kernel

__all__ = [
    "END",
    "add_slots",
    "chain_rows",
    "fill_pairs",
    "free_chains",
    "free_slots",
    "give_up_slots",
    "mark_chains",
    "take_free",
]

END = np.int32(-1)


@kernel
def take_free(next_row: Int32s, first_free: int, out: Int32s) -> int:
    """Take slots off the free list; return its new first slot."""
    slot = first_free
    for at in range(out.size):
        out[at] = slot
        slot = next_row[slot]
    return slot


@kernel
def chain_rows(next_row: Int32s, first: Int32s, count: Int32s, owners: Int32s, slots: Int32s) -> None:
    """Put every slot at the front of its owner's chain."""
    for at in range(slots.size):
        owner = owners[at]
        next_row[slots[at]] = first[owner]
        first[owner] = slots[at]
        count[owner] += 1


@kernel
def fill_pairs(
    next_row: Int32s, rows: Int32s, cursors: Int32s, at: int, out_rows: Int32s, out_slots: Int32s
) -> tuple[int, int]:
    """Walk along the chains from ``cursors`` on; fill the output with (row, slot) and return (new ``at``, how many).

    Cursor ``i`` belongs to ``rows[i]`` and moves on in place, so that the call can be repeated until ``at`` reaches the
    end. The multi-map walks along the entries of its keys with it, too.
    """
    filled = 0
    while at < rows.size and filled < out_rows.size:
        slot = cursors[at]
        while slot != END and filled < out_rows.size:
            out_rows[filled] = rows[at]
            out_slots[filled] = slot
            filled += 1
            slot = next_row[slot]
        cursors[at] = slot
        if slot == END:
            at += 1
    return at, filled


@kernel
def free_chains(next_row: Int32s, firsts: Int32s, first_free: int, freed: Int32s) -> int:
    """Return whole chains to the free list; write the freed slots and return the list's new first slot."""
    count = 0
    for at in range(firsts.size):
        slot = firsts[at]
        while slot != END:
            following = next_row[slot]
            next_row[slot] = first_free
            first_free = slot
            freed[count] = slot
            count += 1
            slot = following
    return first_free


@kernel
def free_slots(next_row: Int32s, first_free: int, is_free: Bools) -> None:
    """Mark the slots of the free list."""
    slot = first_free
    while slot != END:
        is_free[slot] = True
        slot = next_row[slot]


@kernel
def mark_chains(next_row: Int32s, firsts: Int32s, counts: Int32s, is_seen: Bools) -> bool:
    """Mark the slots of chains; return whether each is a slot, not marked yet, and the chains have these lengths."""
    for chain in range(firsts.size):
        slot = firsts[chain]
        left = counts[chain]
        while slot != END:
            if slot < 0 or slot >= is_seen.size or is_seen[slot]:
                return False
            is_seen[slot] = True
            left -= 1
            slot = next_row[slot]
        if left != 0:
            return False
    return True


@kernel
def give_up_slots(
    next_row: Int32s, firsts: Int32s, first_free: int, capacity: int, from_slots: Int32s, to_slots: Int32s
) -> tuple[int, int]:
    """Move chained rows out of the slots from ``capacity`` on; return the first free slot and how many rows moved.

    ``firsts`` has the first slot of every chain and changes in place. The caller moves the payload.
    """
    # The free slots that stay.
    kept_free = np.int64(END)
    slot = np.int64(first_free)
    while slot != END:
        following = np.int64(next_row[slot])
        if slot < capacity:
            next_row[slot] = np.int32(kept_free)
            kept_free = slot
        slot = following
    moved = 0
    for chain in range(firsts.size):
        before = np.int64(END)
        slot = np.int64(firsts[chain])
        while slot != END:
            following = np.int64(next_row[slot])
            if slot >= capacity:
                target = kept_free
                kept_free = np.int64(next_row[target])
                from_slots[moved] = np.int32(slot)
                to_slots[moved] = np.int32(target)
                moved += 1
                next_row[target] = np.int32(following)
                if before == END:
                    firsts[chain] = np.int32(target)
                else:
                    next_row[before] = np.int32(target)
                slot = target
            before = slot
            slot = following
    return int(kept_free), moved


@kernel
def add_slots(next_row: Int32s, first_free: int, before: int) -> int:
    """Put the slots from ``before`` on onto the free list; return its new first slot."""
    for slot in range(before, next_row.size):
        next_row[slot] = np.int32(first_free)
        first_free = slot
    return first_free
