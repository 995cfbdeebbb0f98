"""Slots of the FIFO multi-map that are added or given up while it is in use.

Entries in slots that are given up move to free ones below. Their neighbours in the queue know them at once; the next of
a key's list does not name the one before, so an entry leaves its new slot at its old one, and one pass over
all slots and lines redirects what still points there.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel
from semistream.kernels.hashing.hash_directory import first_entry, last_entry, pack_entries
from semistream.kernels.hashing.multimap_lists import FREE_FIRST, FREE_LAST, NO_SLOT, Q_FIRST, Q_LAST

__all__ = ["add_free_slots", "give_up_free_slots", "move_entries", "redirect"]

# Stands in q_prev of a free slot that is given up; live slots have a slot or NO_SLOT there.
_GIVEN_UP = np.int32(-2)

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


@kernel
def add_free_slots(q_next: _Int32s, state: _Int64s, first: int) -> None:
    """Append the slots from ``first`` on to the free slots."""
    for slot in range(first, q_next.size):
        q_next[slot] = NO_SLOT
        if state[FREE_LAST] == NO_SLOT:
            state[FREE_FIRST] = slot
        else:
            q_next[state[FREE_LAST]] = np.int32(slot)
        state[FREE_LAST] = slot


@kernel
def give_up_free_slots(q_next: _Int32s, q_prev: _Int32s, state: _Int64s, capacity: int) -> int:
    """Take the free slots from ``capacity`` on out of the free slots, and return how many."""
    given_up = 0
    slot = state[FREE_FIRST]
    state[FREE_FIRST] = state[FREE_LAST] = NO_SLOT
    while slot != NO_SLOT:
        following = np.int64(q_next[slot])
        if slot >= capacity:
            q_prev[slot] = _GIVEN_UP
            given_up += 1
        else:
            q_next[slot] = NO_SLOT
            if state[FREE_LAST] == NO_SLOT:
                state[FREE_FIRST] = slot
            else:
                q_next[state[FREE_LAST]] = np.int32(slot)
            state[FREE_LAST] = slot
        slot = following
    return given_up


@kernel
def move_entries(
    entry_code: _Int64s,
    key_next: _Int32s,
    key_count: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    capacity: int,
    from_slots: _Int32s,
    to_slots: _Int32s,
) -> None:
    """Move the entries in slots from ``capacity`` on to the longest free slots, and say which went where."""
    moved = 0
    for old in range(capacity, q_next.size):
        if q_prev[old] == _GIVEN_UP:
            continue
        new = state[FREE_FIRST]
        state[FREE_FIRST] = np.int64(q_next[new])
        entry_code[new] = entry_code[old]
        key_count[new] = key_count[old]
        key_next[new] = key_next[old]
        key_next[old] = np.int32(new)
        before, after = q_prev[old], q_next[old]
        q_prev[new] = before
        q_next[new] = after
        if before == NO_SLOT:
            state[Q_FIRST] = new
        else:
            q_next[before] = np.int32(new)
        if after == NO_SLOT:
            state[Q_LAST] = new
        else:
            q_prev[after] = np.int32(new)
        from_slots[moved] = np.int32(old)
        to_slots[moved] = np.int32(new)
        moved += 1
    if state[FREE_FIRST] == NO_SLOT:
        state[FREE_LAST] = NO_SLOT


@kernel
def redirect(directory: _Int64s, key_next: _Int32s, capacity: int) -> None:
    """Let keys and their lists name the new slots of entries that moved."""
    for slot in range(capacity):
        # What stands at a free slot is anything, but then it does not matter what it is replaced by.
        if capacity <= key_next[slot] < key_next.size:
            key_next[slot] = key_next[key_next[slot]]
    for line in range(directory.shape[0]):
        packed = directory[line, 1]
        if packed != 0:
            first, last = first_entry(packed), last_entry(packed)
            if first >= capacity:
                first = np.int64(key_next[first])
            if last >= capacity:
                last = np.int64(key_next[last])
            directory[line, 1] = pack_entries(first, last)
