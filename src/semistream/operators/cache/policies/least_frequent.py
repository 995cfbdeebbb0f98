"""Finds the least frequent entries of a cache, for many evictions at once.

A search through the whole cache for each eviction would cost more than the eviction brings.
"""

import numpy as np
import numpy.typing as npt

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s
from semistream.operators.cache.row_cache import RowCache

__all__ = ["LeastFrequent"]

_SHARE = 1 / 64


class LeastFrequent:
    """Hands out entries of a cache, least frequent first."""

    def __init__(self) -> None:
        self._entries = np.empty(0, dtype=np.int32)
        self._random = np.random.default_rng(0)

    def forget(self) -> None:
        """Search again next time: frequencies have changed."""
        self._entries = self._entries[:0]

    def first(self, cache: RowCache, frequency: npt.NDArray[np.generic], count: int) -> Int32s:
        """Return up to ``count`` entries, and the same again until `record_evicted`."""
        if self._entries.size < count:
            # Live slots come in the order of their hashes. Evicting equals in that order would empty one end of the
            # hash table and crowd the other until every search there probes thousands of lines.
            entries = self._random.permutation(cache.keys.live_slots())
            spare = min(entries.size, max(count, int(cache.shape.keys * _SHARE)))
            if spare < entries.size:
                entries = entries[np.argpartition(frequency[entries], spare)[:spare]]
            self._entries = entries[np.argsort(frequency[entries], kind="stable")]
        return self._entries[:count]

    def record_evicted(self, count: int) -> None:
        """Drop the first ``count`` entries: they left the cache."""
        self._entries = self._entries[count:]

    def state(self) -> SavedState:
        return SavedState({"random": self._random.bit_generator.state}, {"entries": self._entries})

    def set_state(self, saved: SavedState, cache: RowCache) -> None:
        self._entries = saved.array("entries", np.int32)
        is_live = np.isin(self._entries, cache.keys.live_slots(), assume_unique=True)
        is_sound = self._entries.ndim == 1 and np.unique(self._entries).size == self._entries.size and is_live.all()
        saved.require(is_sound, "entries to evict that are not in the cache, each once")
        self._random.bit_generator.state = saved.header["random"]
