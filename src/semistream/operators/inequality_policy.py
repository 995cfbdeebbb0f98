"""SSBJ's cache inequality as the policy of a cache of fixed size.

M. A. Naeem, G. Weber, C. Lutteroth: "A Memory-Optimal Many-to-Many Semi-Stream Join" (S0), Theorem 2.

A key is cached when its rows take less memory than its waiting tuples do, m * vR < n * vS, and leaves when that no
longer holds for the tuples that hit it. Nothing leaves to make room: a full cache takes nothing in.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from semistream.operators.cache_policy import Choice
from semistream.operators.row_cache import RowCache

__all__ = ["InequalityPolicy"]

_TURNS_TO_EVICTION = 10

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class InequalityPolicy:
    """The cache inequality, for a cache of ``capacity`` keys.

    Parameters
    ----------
    turn_tuples
        How many arriving tuples make a turn: as many as come by while a tuple waits.
    row_bytes, tuple_bytes
        vR and vS, structures included.
    """

    BYTES_PER_KEY: ClassVar[int] = 8

    def __init__(self, capacity: int, turn_tuples: int, row_bytes: float, tuple_bytes: float) -> None:
        self._turn_tuples = max(1, turn_tuples)
        self._rows_per_tuple = row_bytes / tuple_bytes
        self._hits = np.zeros(capacity, dtype=np.int32)
        self._since_turn = np.zeros(capacity, dtype=np.int32)
        self._arrived = 0
        self._turn = 0
        self._next_eviction = _TURNS_TO_EVICTION

    @property
    def nbytes(self) -> int:
        return self._hits.nbytes + self._since_turn.nbytes

    def record(self, codes: _Int64s, entries: _Int32s) -> None:
        np.add.at(self._hits, entries[entries >= 0], 1)
        self._arrived += codes.size
        self._turn = self._arrived // self._turn_tuples

    def choose(self, cache: RowCache, codes: _Int64s, waiting: _Int32s, most: int) -> Choice:
        victims = np.empty(0, dtype=np.int32)
        if self._turn >= self._next_eviction:
            self._next_eviction = self._turn + _TURNS_TO_EVICTION
            victims = self._no_longer_worth(cache)
        worth = np.flatnonzero(waiting > 0)
        worth = worth[np.argsort(-waiting[worth], kind="stable")][:most]
        return Choice(worth[: cache.free_keys + victims.size], victims)

    def _no_longer_worth(self, cache: RowCache) -> _Int32s:
        entries = cache.keys.live_slots()
        turns = np.maximum(1, self._turn - self._since_turn[entries])
        unwanted = cache.row_count[entries] * self._rows_per_tuple >= self._hits[entries] / turns
        self._hits[entries] = 0
        self._since_turn[entries] = self._turn
        return entries[unwanted]

    def keeps(self, waiting: _Int32s, row_count: _Int32s) -> npt.NDArray[np.bool_]:
        return np.asarray(row_count * self._rows_per_tuple < waiting, dtype=np.bool_)

    def took_in(self, entries: _Int32s, waiting: _Int32s) -> None:
        self._hits[entries] = 0
        self._since_turn[entries] = self._turn
