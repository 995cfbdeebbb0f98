"""The plain twin of `semistream.kernels.hashing.multimap`: the same contract in a dict and lists."""

from collections import OrderedDict, deque

import numpy as np
import numpy.typing as npt

__all__ = ["PlainFifoMultimap"]

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class PlainFifoMultimap:
    """See `semistream.kernels.hashing.multimap.FifoMultimap`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: dict[int, deque[int]] = {}
        self._queue: OrderedDict[int, int] = OrderedDict()
        self._free = deque(range(capacity))

    def __len__(self) -> int:
        return len(self._queue)

    def insert(self, codes: _Int64s) -> _Int32s:
        slots = []
        for code in codes.tolist():
            slot = self._free.popleft()
            self._queue[slot] = code
            self._entries.setdefault(code, deque()).append(slot)
            slots.append(slot)
        return np.array(slots, dtype=np.int32)

    def probe(self, codes: _Int64s) -> tuple[_Int32s, _Int32s]:
        rows, firsts = [], []
        for row, code in enumerate(codes.tolist()):
            entries = self._entries.get(code)
            if entries:
                rows.append(row)
                firsts.append(entries[0])
        return np.array(rows, dtype=np.int32), np.array(firsts, dtype=np.int32)

    def count(self, codes: _Int64s) -> _Int32s:
        return np.array([len(self._entries.get(code, ())) for code in codes.tolist()], dtype=np.int32)

    def expire(self, count: int) -> _Int32s:
        slots = []
        for _ in range(count):
            slot, code = self._queue.popitem(last=False)
            entries = self._entries[code]
            entries.popleft()
            if not entries:
                del self._entries[code]
            self._free.append(slot)
            slots.append(slot)
        return np.array(slots, dtype=np.int32)

    def delete(self, codes: _Int64s) -> _Int32s:
        slots: list[int] = []
        for code in codes.tolist():
            slots += self._entries.pop(code, ())
        for slot in slots:
            del self._queue[slot]
            self._free.append(slot)
        return np.array(slots, dtype=np.int32)
