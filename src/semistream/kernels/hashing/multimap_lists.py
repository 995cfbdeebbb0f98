"""The linked lists of the FIFO multi-map, and what is read by walking along them.

Entries of one key (``key_next``), all entries in arrival order (``q_next``, ``q_prev``), and free slots (``q_next``).
Their ends stand in one state array, so that kernels can change them.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel

__all__ = [
    "DISTINCT",
    "FREE_FIRST",
    "FREE_LAST",
    "NO_SLOT",
    "Q_FIRST",
    "Q_LAST",
    "SIZE",
    "fill_newest",
    "fill_oldest",
    "fill_pairs",
    "release",
]

NO_SLOT = np.int32(-1)

# Positions in the state array.
SIZE, DISTINCT, Q_FIRST, Q_LAST, FREE_FIRST, FREE_LAST = range(6)

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


@kernel
def release(q_next: _Int32s, state: _Int64s, slot: np.int64) -> None:
    """Append a slot that left the queue to the free slots."""
    q_next[slot] = NO_SLOT
    if state[FREE_LAST] == NO_SLOT:
        state[FREE_FIRST] = slot
    else:
        q_next[state[FREE_LAST]] = np.int32(slot)
    state[FREE_LAST] = slot
    state[SIZE] -= 1


@kernel
def fill_pairs(
    key_next: _Int32s, rows: _Int32s, cursors: _Int32s, at: int, out_rows: _Int32s, out_slots: _Int32s
) -> tuple[int, int]:
    """Fill the output with (row, slot) pairs, moving the cursors along; return (new ``at``, how many)."""
    filled = 0
    while at < rows.size and filled < out_rows.size:
        slot = cursors[at]
        while slot != NO_SLOT and filled < out_rows.size:
            out_rows[filled] = rows[at]
            out_slots[filled] = slot
            filled += 1
            slot = key_next[slot]
        cursors[at] = slot
        if slot == NO_SLOT:
            at += 1
    return at, filled


@kernel
def fill_oldest(q_next: _Int32s, first: np.int64, slots: _Int32s) -> None:
    """Fill ``slots`` with those from ``first`` on."""
    slot = first
    for at in range(slots.size):
        slots[at] = np.int32(slot)
        slot = np.int64(q_next[slot])


@kernel
def fill_newest(q_prev: _Int32s, last: np.int64, position: int, slots: _Int32s) -> None:
    """Fill ``slots`` with those that lie ``position`` and more before ``last``, going backwards."""
    slot = last
    for _ in range(position):
        slot = np.int64(q_prev[slot])
    for at in range(slots.size):
        slots[at] = np.int32(slot)
        slot = np.int64(q_prev[slot])
