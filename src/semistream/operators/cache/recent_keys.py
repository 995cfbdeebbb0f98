"""CINLJ's temporary buffer: the keys that were looked up lately, counted (S2 section 3.3)."""

import numpy as np
import numpy.typing as npt

from semistream.core.saved_state import SavedState
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.operators.join import Part

__all__ = ["RecentKeys"]


class RecentKeys(Part):
    """The last ``capacity`` keys."""

    def __init__(self, capacity: int) -> None:
        self._keys = FifoMultimap(capacity)

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Return the bytes of a buffer of this capacity."""
        return FifoMultimap.hash_bytes_for(capacity) + FifoMultimap.queue_bytes_for(capacity)

    @property
    def nbytes(self) -> int:
        return self._keys.hash_bytes + self._keys.queue_bytes

    def add(self, codes: npt.NDArray[np.int64]) -> None:
        """Note keys; as many of the oldest are forgotten."""
        codes = codes[-self._keys.capacity :]
        self._keys.expire(max(0, codes.size - self._keys.free))
        self._keys.insert(codes)

    def count(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return how often each of these keys was noted lately."""
        return self._keys.count(codes)

    def components(self) -> dict[str, int]:
        return {"temporary buffer": self.nbytes}

    def state(self, *, exact: bool) -> SavedState:
        return self._keys.state() if exact else SavedState()

    def set_state(self, saved: SavedState) -> None:
        self._keys.set_state(saved)
