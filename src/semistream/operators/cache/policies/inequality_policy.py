"""SSBJ's cache inequality: a key is cached when its rows take less memory than its waiting tuples.

M. A. Naeem, G. Weber, C. Lutteroth: "A Memory-Optimal Many-to-Many Semi-Stream Join" (S0), Theorem 2 and Algorithm 1,
ll. 30-36 and 42-51.

With n waiting tuples of vS bytes and m rows of vR bytes, a key is cheaper in the cache when m * vR < n * vS. Sizes are
measured, structures included; a key's own bytes in the cache count with its rows. Nothing leaves to make room: a full
cache admits nothing. Where a key is judged only once (`choose`), a single tuple does not promise more of them, however
small its rows are.

A turn is a scan of R, or where R is not scanned, a stretch in which as many tuples miss the cache as a full join holds
waiting. Every tenth turn the keys leave whose rows take more memory than their tuples would.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.elastic import ElasticArray, Moves
from semistream.operators.cache.policies.cache_policy import CachePolicy, Choice
from semistream.operators.cache.row_cache import RowCache

__all__ = ["InequalityPolicy"]

_TURNS_TO_EVICTION = 10


class InequalityPolicy(CachePolicy):
    """The cache inequality, for a cache of ``capacity`` keys, which `resize` changes up to ``max_capacity``."""

    BYTES_PER_KEY: ClassVar[int] = 8

    def __init__(
        self,
        capacity: int,
        *,
        tuple_bytes: float,  # vS
        row_bytes: float,  # vR
        key_bytes: float,  # of a key in the cache beside its rows
        turn_tuples: Callable[[], int] | None,  # that miss the cache in a turn; None when the owner calls `end_turn`
        occupancy: float = 1.0,  # tuples of a key that wait on average, as a share of those when it is chosen
        switching_factor: float = 1.0,  # sf: how much cheaper the other side must be for a key to change sides
        max_capacity: int | None = None,
    ) -> None:
        self._tuple_bytes = tuple_bytes
        self._row_bytes = row_bytes
        self._key_bytes = key_bytes
        self._turn_tuples = turn_tuples
        self._factor = switching_factor
        self._occupancy = occupancy
        self._hits = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._since_turn = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._hits.values.fill(0)
        self._since_turn.values.fill(0)
        self._missed = 0
        self.turn = 0  # how many turns have ended
        self._next_eviction = _TURNS_TO_EVICTION

    @property
    def nbytes(self) -> int:
        return self._hits.values.nbytes + self._since_turn.values.nbytes

    def record(self, codes: Int64s, entries: Int32s) -> None:
        hits = entries[entries >= 0]
        np.add.at(self._hits.values, hits, 1)
        self._missed += entries.size - hits.size
        if self._turn_tuples is not None and self._missed >= self._turn_tuples():
            self.end_turn()

    def end_turn(self) -> None:
        """End the turn: every tuple that waited when it began has left."""
        self._missed = 0
        self.turn += 1

    @property
    def is_eviction_due(self) -> bool:
        return self.turn >= self._next_eviction

    def choose(self, cache: RowCache, codes: Int64s, waiting: Int32s, most: int) -> Choice:
        victims = self.no_longer_worth(cache) if self.is_eviction_due else np.empty(0, dtype=np.int32)
        # Every key here has a tuple: one says nothing about how many will come.
        worth = np.flatnonzero((waiting > 1) & self.is_cheaper_cached(waiting, np.zeros_like(waiting)))
        worth = worth[np.argsort(-waiting[worth], kind="stable")][:most]
        return Choice(worth[: cache.free_keys + victims.size], victims)

    def is_cheaper_cached(self, waiting: Int32s, row_count: Int32s) -> Bools:
        """Return for which keys the cache inequality holds."""
        cached_bytes = row_count * self._row_bytes + self._key_bytes
        waiting_bytes = waiting * (self._occupancy * self._tuple_bytes)
        return np.asarray(waiting_bytes > self._factor * cached_bytes, dtype=np.bool_)

    keeps = is_cheaper_cached

    def no_longer_worth(self, cache: RowCache) -> Int32s:
        """Return the entries whose rows take more than their tuples would; restart all counts."""
        self._next_eviction = self.turn + _TURNS_TO_EVICTION
        entries = cache.keys.live_slots()
        turns = self.turn - self._since_turn.values[entries]
        # Hits per turn, over the turns that the entry was cached for; an entry without a whole turn is not judged. They
        # are the mean number of tuples that would wait, so `occupancy` has no place here.
        waiting = self._hits.values[entries] / np.maximum(1, turns)
        cached_bytes = cache.row_count(entries) * self._row_bytes + self._key_bytes
        unwanted = (cached_bytes >= self._factor * waiting * self._tuple_bytes) & (turns > 0)
        self._hits.values[entries] = 0
        self._since_turn.values[entries] = self.turn
        return entries[unwanted]

    def record_cached(self, entries: Int32s, waiting: Int32s) -> None:
        self._hits.values[entries] = 0
        self._since_turn.values[entries] = self.turn

    def state(self) -> SavedState:
        header = {
            "tuple_bytes": self._tuple_bytes,
            "row_bytes": self._row_bytes,
            "key_bytes": self._key_bytes,
            "missed": self._missed,
            "turn": self.turn,
            "next_eviction": self._next_eviction,
        }
        return SavedState(header, {"hits": self._hits.values, "since_turn": self._since_turn.values})

    def set_state(self, saved: SavedState, cache: RowCache) -> None:
        saved.fill("hits", self._hits.values)
        saved.fill("since_turn", self._since_turn.values)
        self._tuple_bytes, self._row_bytes = saved.number("tuple_bytes"), saved.number("row_bytes")
        self._key_bytes, self._missed = saved.number("key_bytes"), saved.whole_number("missed")
        self.turn, self._next_eviction = saved.whole_number("turn"), saved.whole_number("next_eviction")

    def resize(self, capacity: int, moves: Moves) -> None:
        """Follow the cache to another capacity."""
        for array in (self._hits, self._since_turn):
            moves.apply(array.values)
            array.resize(capacity)
