"""The contract of a cache policy: which keys enter the cache, and which leave it for them.

There is no clock. A policy that needs time measures it in turns, stretches of the stream after which it weighs its
counts anew, and says what its turn is.
"""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from semistream.core.saved_state import SavedState
from semistream.operators.cache.row_cache import RowCache

__all__ = ["CachePolicy", "Choice"]

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class Choice(NamedTuple):
    """Positions of the keys to cache, best first, and the entries that leave for them."""

    positions: _Int64s
    victims: _Int32s


class CachePolicy(Protocol):
    """Decides for many keys at once."""

    BYTES_PER_KEY: ClassVar[int]  # what the policy remembers of each key that the cache has room for

    @property
    def nbytes(self) -> int: ...

    def record(self, codes: _Int64s, entries: _Int32s) -> None:
        """Count tuples that arrived; ``entries`` are their places in the cache, -1 for a miss."""

    def choose(self, cache: RowCache, codes: _Int64s, waiting: _Int32s, most: int) -> Choice:
        """Choose up to ``most`` of these keys, none of them cached; ``waiting`` tuples of each wait for its rows."""

    def keeps(self, waiting: _Int32s, row_count: _Int32s) -> npt.NDArray[np.bool_]:
        """Return which of the chosen keys are still worth caching, now that their rows are counted; by default all."""
        return np.ones(waiting.size, dtype=np.bool_)

    def record_cached(self, entries: _Int32s, waiting: _Int32s) -> None:
        """Start counting for keys that were cached in these entries."""
        return  # a policy that counts by key has nothing to do

    def state(self) -> SavedState:
        """Return everything that decides the next choices."""

    def set_state(self, saved: SavedState) -> None:
        """Choose as the saved policy would; this one is new and has its capacity."""
