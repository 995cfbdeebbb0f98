"""The contract of a cache policy: which keys enter the cache, and which leave it for them.

There is no clock. A policy that needs time measures it in turns, stretches of the stream after which it weighs its
counts anew, and says what its turn is.
"""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.operators.cache.row_cache import RowCache

__all__ = ["CachePolicy", "Choice"]


class Choice(NamedTuple):
    """Positions of the keys to cache, best first, and the entries that leave for them."""

    positions: Int64s
    victims: Int32s


class CachePolicy(Protocol):
    """Decides for many keys at once."""

    BYTES_PER_KEY: ClassVar[int]  # what the policy remembers of each key that the cache has room for

    @property
    def nbytes(self) -> int: ...

    def record(self, codes: Int64s, entries: Int32s) -> None:
        """Count tuples that arrived; ``entries`` are their places in the cache, -1 for a miss."""

    def choose(self, cache: RowCache, codes: Int64s, waiting: Int32s, most: int) -> Choice:
        """Choose up to ``most`` of these keys, none of them cached; ``waiting`` tuples of each wait for its rows."""

    def keeps(self, waiting: Int32s, row_count: Int32s) -> Bools:
        """Return which of the chosen keys are still worth caching, now that their rows are counted; by default all."""
        return np.ones(waiting.size, dtype=np.bool_)

    def record_cached(self, entries: Int32s, waiting: Int32s) -> None:
        """Start counting for keys that were cached in these entries."""
        return  # a policy that counts by key has nothing to do

    def state(self) -> SavedState:
        """Return everything that decides the next choices."""

    def set_state(self, saved: SavedState, cache: RowCache) -> None:
        """Choose as the saved policy would for its cache; this one is new and has its capacity."""
