"""Values of varying length in a ring of bytes. A value is addressed by its logical start and may wrap around.

Logical positions only grow; a position's byte is the position modulo the ring's size.
"""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt8s
from semistream.kernels.compile import kernel

__all__ = ["close_gaps", "copy_into_ring", "copy_out_of_ring", "rotate", "shift_starts", "sort_by_start"]

_SMALL_PART = 16


@kernel
def copy_into_ring(data: UInt8s, offsets: Int64s, lengths: Int32s, ring: UInt8s, starts: Int64s) -> None:
    """Copy ``data[offsets[row]:][:lengths[row]]`` to the ring at ``starts[row]``, for every row."""
    capacity = ring.size
    for row in range(lengths.size):
        source = offsets[row]
        target = starts[row] % capacity if capacity else 0
        length = lengths[row]
        before_wrap = min(length, capacity - target)
        for byte in range(before_wrap):
            ring[target + byte] = data[source + byte]
        for byte in range(before_wrap, length):
            ring[target + byte - capacity] = data[source + byte]


@kernel
def copy_out_of_ring(ring: UInt8s, starts: Int64s, lengths: Int32s, out: UInt8s) -> None:
    """Copy the value of every row out of the ring, one after the other."""
    capacity = ring.size
    target = 0
    for row in range(lengths.size):
        source = starts[row] % capacity if capacity else 0
        length = lengths[row]
        before_wrap = min(length, capacity - source)
        for byte in range(before_wrap):
            out[target + byte] = ring[source + byte]
        for byte in range(before_wrap, length):
            out[target + byte] = ring[source + byte - capacity]
        target += length


@kernel
def sort_by_start(slots: Int32s, starts: Int64s) -> None:
    """Sort ``slots`` by ``starts[slot]`` in place. Quicksort: numpy would need an array of keys beside it."""
    unsorted = 1
    while unsorted < slots.size and starts[slots[unsorted - 1]] <= starts[slots[unsorted]]:
        unsorted += 1
    if unsorted >= slots.size:
        return
    # The smaller part comes first, so the waiting parts halve each time and 64 places suffice.
    lows, highs = np.empty(64, dtype=np.int64), np.empty(64, dtype=np.int64)
    lows[0], highs[0] = 0, slots.size - 1
    waiting = 1
    while waiting:
        waiting -= 1
        low, high = lows[waiting], highs[waiting]
        while high - low >= _SMALL_PART:
            pivot = starts[slots[(low + high) // 2]]
            left, right = low, high
            while left <= right:
                while starts[slots[left]] < pivot:
                    left += 1
                while starts[slots[right]] > pivot:
                    right -= 1
                if left <= right:
                    slots[left], slots[right] = slots[right], slots[left]
                    left += 1
                    right -= 1
            if right - low < high - left:
                lows[waiting], highs[waiting] = left, high
                high = right
            else:
                lows[waiting], highs[waiting] = low, right
                low = left
            waiting += 1
        for at in range(low + 1, high + 1):
            slot = slots[at]
            to = at
            while to > low and starts[slots[to - 1]] > starts[slot]:
                slots[to] = slots[to - 1]
                to -= 1
            slots[to] = slot


@kernel
def close_gaps(ring: UInt8s, slots: Int32s, starts: Int64s, lengths: Int32s, head: np.int64) -> np.int64:
    """Move values towards ``head`` until they lie side by side; return their end.

    ``slots`` are sorted by start; the values of a slot are as long as the sum of its ``lengths``. All lie within one
    length of the ring from ``head``, so no value moves over one that has yet to move.
    """
    capacity = ring.size
    end = head
    before = after = np.int64(-1)
    for slot in slots:
        size = np.int64(0)
        for column in range(lengths.shape[1]):
            size += lengths[slot, column]
        if size == 0 and starts[slot] == before:
            # It may be older than the slot that starts at the same byte, so it must not start later.
            starts[slot] = after
            continue
        before, after = starts[slot], end
        if size and before != end:
            source, target, left = before % capacity, end % capacity, size
            while left:
                piece = min(left, capacity - source, capacity - target)
                for byte in range(piece):
                    ring[target + byte] = ring[source + byte]
                source = (source + piece) % capacity
                target = (target + piece) % capacity
                left -= piece
        starts[slot] = end
        end += size
    return end


@kernel
def shift_starts(slots: Int32s, starts: Int64s, by: int) -> None:
    for slot in slots:
        starts[slot] += by


@kernel
def _swap(ring: UInt8s, one: int, other: int, count: int) -> None:
    for byte in range(count):
        ring[one + byte], ring[other + byte] = ring[other + byte], ring[one + byte]


@kernel
def rotate(ring: UInt8s, first: int) -> None:
    """Bring the byte at ``first`` to the front in place: swap blocks until both sides are equally long."""
    if first == 0:
        return
    front, back = first, ring.size - first
    while front != back:
        if front < back:
            _swap(ring, first - front, first + back - front, front)
            back -= front
        else:
            _swap(ring, first - front, first, back)
            front -= back
    _swap(ring, first - front, first, front)
