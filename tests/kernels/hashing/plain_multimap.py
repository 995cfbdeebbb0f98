"""The plain twin of the multi-map with what its tests alone ask for."""

from collections import OrderedDict, deque

import numpy as np

from semistream.bench.measurements.micro import multimap
from semistream.kernels.arrays import Int32s, Int64s


class PlainFifoMultimap(multimap.PlainFifoMultimap):
    """See `semistream.kernels.hashing.multimap.FifoMultimap`."""

    def matches(self, codes: Int64s) -> list[tuple[int, int]]:
        return [(row, slot) for row, code in enumerate(codes.tolist()) for slot in self._entries.get(code, ())]

    def oldest(self, count: int) -> Int32s:
        return np.array(list(self._queue)[:count], dtype=np.int32)

    def newest(self, position: int, count: int) -> Int32s:
        return np.array(list(self._queue)[::-1][position:][:count], dtype=np.int32)

    def keys_with_at_least(self, count: int) -> dict[int, int]:
        return {code: len(slots) for code, slots in self._entries.items() if len(slots) >= count}

    def resize(self, capacity: int) -> list[tuple[int, int]]:
        self._free = deque([slot for slot in self._free if slot < capacity] + list(range(self.capacity, capacity)))
        new_slot = {old: self._free.popleft() for old in sorted(self._queue) if old >= capacity}
        self._queue = OrderedDict((new_slot.get(slot, slot), code) for slot, code in self._queue.items())
        for code, slots in self._entries.items():
            self._entries[code] = deque(new_slot.get(slot, slot) for slot in slots)
        self.capacity = capacity
        return list(new_slot.items())
