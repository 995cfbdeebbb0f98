"""Which keys a cache takes in and which leave it: what a policy has to answer."""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from semistream.core.saved_state import SavedState
from semistream.operators.cache.row_cache import RowCache

__all__ = ["CachePolicy", "Choice"]

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class Choice(NamedTuple):
    """Positions of the keys to take in, best first, and the entries that leave for them."""

    positions: _Int64s
    victims: _Int32s


class CachePolicy(Protocol):
    """Decides for many keys at once.

    Attributes
    ----------
    BYTES_PER_KEY
        Memory of the policy for every key that the cache has room for.
    """

    BYTES_PER_KEY: ClassVar[int]

    @property
    def nbytes(self) -> int: ...

    def record(self, codes: _Int64s, entries: _Int32s) -> None:
        """Note tuples that arrived, with their entries in the cache, or -1."""

    def choose(self, cache: RowCache, codes: _Int64s, waiting: _Int32s, most: int) -> Choice:
        """Choose among keys that are not cached; ``waiting`` is how many tuples of each wait for its rows."""

    def keeps(self, waiting: _Int32s, row_count: _Int32s) -> npt.NDArray[np.bool_]:
        """Return which of the chosen keys stay chosen, now that the number of their rows is known."""

    def took_in(self, entries: _Int32s, waiting: _Int32s) -> None:
        """Note the entries of keys that came into the cache."""

    def state(self) -> SavedState:
        """Return everything that decides the next choices."""

    def set_state(self, saved: SavedState) -> None:
        """Choose as the saved policy would; this one is new and has its capacity."""
