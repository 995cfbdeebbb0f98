"""Least frequently used, with frequencies that age: a cache that also learns from hits.

S2 writes a key's frequency down once, when it is cached. Here every entry counts its hits. Time is measured in turns:
in a turn as many tuples miss the cache as a full join holds waiting. So a key's waiting tuples and an entry's hits in a
turn measure the same thing. At the end of a turn an entry's frequency becomes the mean of its old value and its hits:
the past fades by half.

A key enters when its waiting tuples, without the last, outnumber the frequency of the least frequent entry. A single
tuple, as in a scan through all keys, replaces no entry that was ever hit.
"""

from typing import ClassVar

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s, Int64s
from semistream.operators.cache.policies.cache_policy import CachePolicy, Choice
from semistream.operators.cache.policies.least_frequent import LeastFrequent
from semistream.operators.cache.row_cache import RowCache

__all__ = ["AgingPolicy"]


class AgingPolicy(CachePolicy):
    """Aging frequencies, for a cache of ``capacity`` keys; ``turn_tuples`` tuples miss the cache in a turn."""

    BYTES_PER_KEY: ClassVar[int] = 8

    def __init__(self, capacity: int, turn_tuples: int) -> None:
        self._turn_tuples = max(1, turn_tuples)
        self._frequency = np.zeros(capacity, dtype=np.float32)
        self._hits = np.zeros(capacity, dtype=np.int32)
        self._least_frequent = LeastFrequent()
        self._missed = 0

    @property
    def nbytes(self) -> int:
        return self._frequency.nbytes + self._hits.nbytes

    def record(self, codes: Int64s, entries: Int32s) -> None:
        hits = entries[entries >= 0]
        np.add.at(self._hits, hits, 1)
        self._missed += entries.size - hits.size
        if self._missed >= self._turn_tuples:
            self._missed = 0
            self._frequency += self._hits
            self._frequency /= 2
            self._hits[:] = 0
            self._least_frequent.forget()

    def choose(self, cache: RowCache, codes: Int64s, waiting: Int32s, most: int) -> Choice:
        best_first = np.argsort(-waiting, kind="stable")[:most]
        unopposed, contenders = best_first[: cache.free_keys], best_first[cache.free_keys :]
        contenders = contenders[waiting[contenders] > 1]
        rivals = self._least_frequent.first(cache, self._frequency, contenders.size)
        contenders = contenders[: rivals.size]
        # Contenders fall and rivals rise: the winners come first.
        known = np.maximum(self._frequency[rivals], self._hits[rivals])
        winners = int(np.count_nonzero(waiting[contenders] - 1 > np.maximum.accumulate(known)))
        self._least_frequent.record_evicted(winners)
        return Choice(np.concatenate([unopposed, contenders[:winners]]), rivals[:winners])

    def record_cached(self, entries: Int32s, waiting: Int32s) -> None:
        self._frequency[entries] = waiting
        self._hits[entries] = 0

    def state(self) -> SavedState:
        header = {"turn_tuples": self._turn_tuples, "missed": self._missed}
        saved = SavedState(header, {"frequency": self._frequency, "hits": self._hits})
        saved.put_part("least_frequent", self._least_frequent.state())
        return saved

    def set_state(self, saved: SavedState, cache: RowCache) -> None:
        saved.fill("frequency", self._frequency)
        saved.fill("hits", self._hits)
        self._turn_tuples, self._missed = saved.whole_number("turn_tuples", 1), saved.whole_number("missed")
        self._least_frequent.set_state(saved.part("least_frequent"), cache)
