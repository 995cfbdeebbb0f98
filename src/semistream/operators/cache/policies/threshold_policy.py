"""S2's policy: a key that is frequent enough replaces the least frequent one.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.2.1 and Algorithm 1, ll. 19-22.

A key's frequency is the number of its tuples that wait when its rows come by. The frequency recorder keeps it
unchanged, whatever the hits. The threshold falls while the cache is not full and rises when entries leave too often.
"""

from typing import ClassVar

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s, Int64s
from semistream.operators.cache.policies.cache_policy import CachePolicy, Choice
from semistream.operators.cache.policies.least_frequent import LeastFrequent
from semistream.operators.cache.row_cache import RowCache

__all__ = ["ThresholdPolicy"]

_FIRST_THRESHOLD = 2
# The threshold moves once per turn, in which as many tuples arrive as the cache has keys.
_TOO_OFTEN = 0.1


class ThresholdPolicy(CachePolicy):
    """Threshold and least frequent replacement, for a cache of ``capacity`` keys.

    A key is cached when at least `threshold` of its tuples wait; a ``fixed_threshold`` does not move.
    """

    BYTES_PER_KEY: ClassVar[int] = 4

    def __init__(self, capacity: int, fixed_threshold: int | None = None) -> None:
        self.threshold = _FIRST_THRESHOLD if fixed_threshold is None else fixed_threshold
        self._moves = fixed_threshold is None
        self._capacity = capacity
        self._frequency = np.zeros(capacity, dtype=np.int32)
        self._least_frequent = LeastFrequent()
        self._arrived = 0
        self._evicted = 0

    @property
    def nbytes(self) -> int:
        return self._frequency.nbytes

    def record(self, codes: Int64s, entries: Int32s) -> None:
        self._arrived += codes.size

    def choose(self, cache: RowCache, codes: Int64s, waiting: Int32s, most: int) -> Choice:
        self._move_threshold(cache)
        frequent = np.flatnonzero(waiting >= self.threshold)
        frequent = frequent[np.argsort(-waiting[frequent], kind="stable")][:most]
        victims = self._least_frequent.first(cache, self._frequency, max(0, frequent.size - cache.free_keys))
        self._least_frequent.record_evicted(victims.size)
        self._evicted += victims.size
        return Choice(frequent[: victims.size + cache.free_keys], victims)

    def _move_threshold(self, cache: RowCache) -> None:
        if not self._moves or self._arrived < self._capacity:
            return
        if self._evicted > _TOO_OFTEN * self._capacity:
            self.threshold += 1
        elif cache.free_keys > _TOO_OFTEN * self._capacity:
            self.threshold = max(1, self.threshold - 1)
        self._arrived = self._evicted = 0

    def record_cached(self, entries: Int32s, waiting: Int32s) -> None:
        self._frequency[entries] = waiting

    def state(self) -> SavedState:
        header = {"threshold": self.threshold, "arrived": self._arrived, "evicted": self._evicted}
        saved = SavedState(header, {"frequency": self._frequency})
        saved.put_part("least_frequent", self._least_frequent.state())
        return saved

    def set_state(self, saved: SavedState, cache: RowCache) -> None:
        saved.fill("frequency", self._frequency)
        self.threshold = saved.whole_number("threshold")
        self._arrived, self._evicted = saved.whole_number("arrived"), saved.whole_number("evicted")
        self._least_frequent.set_state(saved.part("least_frequent"), cache)
