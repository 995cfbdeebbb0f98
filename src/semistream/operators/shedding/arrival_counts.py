"""The arrival numbers of shed tuples in a fixed number of bytes: how many lie in each of 1,024 ranges."""

import numpy as np
import numpy.typing as npt

__all__ = ["ArrivalCounts"]

_RANGES = 1024

_Int64s = npt.NDArray[np.int64]


class ArrivalCounts:
    """Counts of arrival numbers in equal ranges, which widen by powers of two to cover all of them."""

    def __init__(self) -> None:
        self._counts: _Int64s = np.zeros(_RANGES, dtype=np.int64)
        self._first = 0  # the range of the first count: range i holds numbers from i << shift on
        self._shift = 0
        self._total = 0

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes

    @property
    def lower_bound(self) -> int | None:
        """The start of the range with the smallest number inside; None if empty."""
        if not self._total:
            return None
        return (self._first + int(np.flatnonzero(self._counts)[0])) << self._shift

    def add(self, numbers: _Int64s) -> None:
        if numbers.size == 0:
            return
        low, high = int(numbers.min()), int(numbers.max())
        if not self._total or low >> self._shift < self._first or high >> self._shift >= self._first + _RANGES:
            self._cover(low, high)
        self._counts += np.bincount((numbers >> self._shift) - self._first, minlength=_RANGES)
        self._total += numbers.size

    def _cover(self, low: int, high: int) -> None:
        """Move and widen the ranges to cover all numbers inside and those from ``low`` to ``high``."""
        if not self._total:
            self._shift = 0
        occupied = np.flatnonzero(self._counts)
        ranges, counts = self._first + occupied, self._counts[occupied]
        if occupied.size:
            low = min(low, int(ranges[0]) << self._shift)
            high = max(high, int(ranges[-1]) << self._shift)
        shift = self._shift
        while (high >> shift) - (low >> shift) >= _RANGES:
            shift += 1
        self._counts[:] = 0
        self._first = low >> shift
        np.add.at(self._counts, (ranges >> (shift - self._shift)) - self._first, counts)
        self._shift = shift

    def remove(self, numbers: _Int64s) -> bool:
        """Count numbers out; return False, and change nothing, if some cannot have been inside."""
        if numbers.size == 0:
            return True
        ranges = (numbers >> self._shift) - self._first
        if int(ranges.min()) < 0 or int(ranges.max()) >= _RANGES:
            return False
        gone = np.bincount(ranges, minlength=_RANGES)
        if (gone > self._counts).any():
            return False
        self._counts -= gone
        self._total -= numbers.size
        return True
