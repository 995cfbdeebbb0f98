"""How often keys came lately: a count-min sketch with conservative update, halved as it ages.

G. Einziger, R. Friedman, B. Manes: "TinyLFU: A Highly Efficient Cache Admission Policy", ACM TOS 13(4), 2017.

Counters are bytes. The four counters of a key lie in one block of 64, so a key costs one access to memory. After each
sample of keys all counters are halved: the past fades.
"""

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s, Int64s, UInt8s
from semistream.kernels.compile import kernel
from semistream.kernels.hashing.hash_directory import home_line, mix

__all__ = ["FrequencySketch"]

_BLOCK = 64
_MOST = 255


@kernel
def _estimate(counters: UInt8s, code: np.int64) -> int:
    mixed = mix(code)
    block = home_line(mixed, counters.shape[0])
    least = counters[block, mixed & np.uint64(15)]
    for row in range(1, 4):
        at = np.uint64(16 * row) + ((mixed >> np.uint64(4 * row)) & np.uint64(15))
        least = min(least, counters[block, at])
    return int(least)


@kernel
def _add(counters: UInt8s, codes: Int64s) -> None:
    for code in codes:
        least = _estimate(counters, code)
        if least == _MOST:
            continue
        mixed = mix(code)
        block = home_line(mixed, counters.shape[0])
        for row in range(4):
            at = np.uint64(16 * row) + ((mixed >> np.uint64(4 * row)) & np.uint64(15))
            if counters[block, at] == least:
                counters[block, at] = np.uint8(least + 1)


@kernel
def _estimates(counters: UInt8s, codes: Int64s, out: Int32s) -> None:
    for at in range(codes.size):
        out[at] = _estimate(counters, codes[at])


def _blocks(num_counters: int) -> int:
    return max(1, -(-num_counters // _BLOCK))


class FrequencySketch:
    """Approximate counts of keys: after every ``sample`` of them all counts are halved.

    ``memory`` is `bytes_for` zeroed bytes, which other processes may share. When they count at the same time, a count
    may be lost, no more.
    """

    def __init__(self, num_counters: int, sample: int, memory: UInt8s | None = None) -> None:
        if memory is None:
            counters, state = np.zeros(_BLOCK * _blocks(num_counters), dtype=np.uint8), np.zeros(2, dtype=np.int64)
        else:
            counters, state = memory[_BLOCK:], memory[:16].view(np.int64)
        self._counters = counters.reshape(-1, _BLOCK)
        # How many keys were counted since the last halving, and the number of halvings.
        self._seen, self._halvings = state[:1], state[1:]
        self._sample = max(1, sample)

    @staticmethod
    def bytes_for(num_counters: int) -> int:
        return _BLOCK * (1 + _blocks(num_counters))

    @property
    def nbytes(self) -> int:
        return self._counters.nbytes

    @property
    def halvings(self) -> int:
        return int(self._halvings[0])

    def add(self, codes: Int64s) -> None:
        _add(self._counters, codes)
        self._seen[0] += codes.size
        if self._seen[0] >= self._sample:
            self._counters >>= 1
            self._seen[0] //= 2
            self._halvings[0] += 1

    def estimate(self, codes: Int64s) -> Int32s:
        """Return about how often each key was counted; never too little, apart from what has faded."""
        out = np.empty(codes.size, dtype=np.int32)
        _estimates(self._counters, codes, out)
        return out

    def state(self) -> SavedState:
        header = {"seen": int(self._seen[0]), "halvings": int(self._halvings[0])}
        return SavedState(header, {"counters": self._counters})

    def set_state(self, saved: SavedState) -> None:
        saved.fill("counters", self._counters)
        self._seen[0], self._halvings[0] = saved.whole_number("seen"), saved.whole_number("halvings")
