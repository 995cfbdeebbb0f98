"""Window of values in order, for range conditions (S3 section 3.3, "other join conditions").

Values arrive and expire first in, first out. A range is found by binary search in two sorted parts: a large one that is
rebuilt now and then, and a small one of the values that arrived since. An entry is known by its arrival number: its
slot is the number modulo the capacity, and it is live from the oldest number on.
"""

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.compile import kernel

__all__ = ["OrderIndex", "RangeCursor"]


_BYTES_PER_ENTRY = 48  # value, the large part's (value, number), and the scratch of its sort


@kernel
def _range_pairs(
    numbers: Int64s,
    oldest: int,
    capacity: int,
    rows: Int32s,
    cursors: Int64s,
    stops: Int64s,
    at: int,
    out_rows: Int32s,
    out_slots: Int32s,
) -> tuple[int, int]:
    filled = 0
    while at < rows.size and filled < out_rows.size:
        cursor = cursors[at]
        while cursor < stops[at] and filled < out_rows.size:
            if numbers[cursor] >= oldest:
                out_rows[filled] = rows[at]
                out_slots[filled] = np.int32(numbers[cursor] % capacity)
                filled += 1
            cursor += 1
        cursors[at] = cursor
        if cursor == stops[at]:
            at += 1
    return at, filled


class RangeCursor:
    """The entries in the ranges of one probe, returned in portions."""

    def __init__(self, index: "OrderIndex", parts: list[tuple[Int64s, Int32s, Int64s, Int64s]]) -> None:
        self._index = index
        self._parts = parts
        self._at = 0

    def fill(self, out_rows: Int32s, out_slots: Int32s) -> int:
        """Write the next (row, slot) pairs and return how many; 0 at the end."""
        while self._parts:
            index, (numbers, rows, cursors, stops) = self._index, self._parts[0]
            self._at, filled = _range_pairs(
                numbers, index.oldest_number, index.capacity, rows, cursors, stops, self._at, out_rows, out_slots
            )
            if self._at == rows.size:
                self._parts.pop(0)
                self._at = 0
            if filled:
                return filled
        return 0


class OrderIndex:
    """A first-in-first-out window of at most ``capacity`` values, searchable by range."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.oldest_number = 0
        self._next_number = 0
        self._values = np.zeros(capacity, dtype=np.int64)  # whole in exact states, see `ElasticArray`
        self._large = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._small = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._small_limit = self._small_capacity(capacity)

    @staticmethod
    def _small_capacity(capacity: int) -> int:
        return min(capacity, max(1024, capacity // 32))

    @classmethod
    def hash_bytes_for(cls, capacity: int) -> int:
        return capacity * _BYTES_PER_ENTRY + cls._small_capacity(capacity) * 32

    @classmethod
    def queue_bytes_for(cls, capacity: int) -> int:
        return 0

    @property
    def hash_bytes(self) -> int:
        return self.hash_bytes_for(self.capacity)

    @property
    def queue_bytes(self) -> int:
        return 0

    def __len__(self) -> int:
        return self._next_number - self.oldest_number

    @property
    def free(self) -> int:
        return self.capacity - len(self)

    def insert(self, values: Int64s) -> Int32s:
        """Append values and return their slots."""
        assert values.size <= self.free, "the caller checks that the entries fit"
        numbers = np.arange(self._next_number, self._next_number + values.size, dtype=np.int64)
        slots = (numbers % self.capacity).astype(np.int32)
        self._values[slots] = values
        self._next_number += values.size
        if self._small[0].size + values.size > self._small_limit:
            self._rebuild()
        else:
            merged = np.concatenate([self._small[0], values])
            merged_numbers = np.concatenate([self._small[1], numbers])
            order = np.argsort(merged, kind="stable")
            self._small = (merged[order], merged_numbers[order])
        return slots

    def _rebuild(self) -> None:
        empty = np.empty(0, dtype=np.int64)
        self._large = self._small = (empty, empty)
        numbers = np.arange(self.oldest_number, self._next_number, dtype=np.int64)
        values = self._values[numbers % self.capacity]
        order = np.argsort(values, kind="stable")
        self._large = (values[order], numbers[order])

    def expire(self, count: int) -> Int32s:
        slots = self.oldest(count)
        self.oldest_number += count
        return slots

    def oldest(self, count: int) -> Int32s:
        assert count <= len(self)
        numbers = np.arange(self.oldest_number, self.oldest_number + count, dtype=np.int64)
        return (numbers % self.capacity).astype(np.int32)

    def state(self) -> SavedState:
        """Return both sorted parts as they are: when they are merged depends on their sizes."""
        saved = SavedState({"oldest_number": self.oldest_number, "next_number": self._next_number})
        saved.put("values", self._values)
        for name, (values, numbers) in (("large", self._large), ("small", self._small)):
            saved.put(f"{name} values", values)
            saved.put(f"{name} numbers", numbers)
        return saved

    def set_state(self, saved: SavedState) -> None:
        saved.fill("values", self._values)
        self.oldest_number = saved.whole_number("oldest_number")
        self._next_number = saved.whole_number("next_number", self.oldest_number, self.oldest_number + self.capacity)
        self._large = self._sorted_part(saved, "large", self.capacity)
        self._small = self._sorted_part(saved, "small", self._small_limit)
        live = np.concatenate([self._large[1], self._small[1]])
        live = np.sort(live[live >= self.oldest_number])
        is_whole = np.array_equal(live, np.arange(self.oldest_number, self._next_number))
        saved.require(is_whole, "entries in order that are not those of the window, each once")

    def _sorted_part(self, saved: SavedState, name: str, most: int) -> tuple[Int64s, Int64s]:
        values, numbers = saved.array(f"{name} values", np.int64), saved.array(f"{name} numbers", np.int64)
        saved.require(values.ndim == 1 and values.shape == numbers.shape, f"{numbers.size} {name} numbers")
        saved.require(values.size <= most, f"{values.size} {name} values")
        saved.require((values[1:] >= values[:-1]).all(), f"{name} values out of order")
        if numbers.size:
            saved.require(numbers.min() >= 0 and numbers.max() < self._next_number, f"{name} numbers out of range")
        return values, numbers

    def probe(self, rows: Int32s, low: Int64s | None, high: Int64s | None) -> RangeCursor:
        """Return for every row i the entries from ``low[i]`` to ``high[i]``, ends included; None for no bound."""
        parts = []
        for values, numbers in (self._large, self._small):
            starts = np.zeros(rows.size, dtype=np.int64) if low is None else np.searchsorted(values, low, side="left")
            stops = (
                np.full(rows.size, values.size, dtype=np.int64)
                if high is None
                else np.searchsorted(values, high, side="right")
            )
            some = stops > starts
            parts.append((numbers, rows[some], starts[some], stops[some]))
        return RangeCursor(self, parts)
