"""A set of 64-bit codes as disjoint ranges, which merge as neighbours come.

::

    add 3..5, 9, 6..8   ──►   lows   3
                              highs  9

Binary search tells whether a code is in the set. New ranges wait until the next question; then they are sorted and
merged into the others in one pass.
"""

import numpy as np

from semistream.kernels.arrays import Bools, Int64s
from semistream.kernels.compile import kernel
from semistream.kernels.hashing.hash_directory import BLOCK

__all__ = ["CodeRanges"]


_MOST = np.iinfo(np.int64).max
_NONE = np.empty(0, dtype=np.int64)


class CodeRanges:
    def __init__(self, lows: Int64s = _NONE, highs: Int64s = _NONE) -> None:
        self._lows = self._highs = _NONE
        self._new: list[tuple[Int64s, Int64s]] = []
        self.add(lows, highs)

    def __len__(self) -> int:
        self._merge()
        return self._lows.size

    @property
    def nbytes(self) -> int:
        return self._lows.nbytes + self._highs.nbytes + sum(lows.nbytes + highs.nbytes for lows, highs in self._new)

    def add(self, lows: Int64s, highs: Int64s) -> None:
        """Add all codes from ``lows[i]`` to ``highs[i]``, both included."""
        assert (lows <= highs).all(), "a range has a code in it"
        if lows.size:
            self._new.append((np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64)))

    def contains(self, codes: Int64s) -> Bools:
        self._merge()
        inside = np.zeros(codes.size, dtype=np.bool_)
        if self._lows.size:
            _find_inside(self._lows, self._highs, codes, inside)
        return inside

    def ranges(self) -> tuple[Int64s, Int64s]:
        self._merge()
        return self._lows, self._highs

    def common(self, other: "CodeRanges") -> tuple[Int64s, Int64s]:
        lows, highs = np.empty((2, len(self) + len(other)), dtype=np.int64)
        count = _intersect(self._lows, self._highs, other._lows, other._highs, lows, highs)
        return lows[:count], highs[:count]

    def remove(self, lows: Int64s, highs: Int64s) -> None:
        """Remove ranges, which are ascending and do not touch each other."""
        kept_lows, kept_highs = np.empty((2, len(self) + lows.size), dtype=np.int64)
        count = _subtract(self._lows, self._highs, lows, highs, kept_lows, kept_highs)
        self._lows, self._highs = kept_lows[:count].copy(), kept_highs[:count].copy()

    def _merge(self) -> None:
        if not self._new:
            return
        lows = np.concatenate([self._lows, *(new[0] for new in self._new)])
        highs = np.concatenate([self._highs, *(new[1] for new in self._new)])
        order = np.argsort(lows, kind="stable")  # a stable sort profits from the old ranges, which are sorted
        lows, highs = lows[order], highs[order]
        count = _merge_sorted(lows, highs)
        self._lows, self._highs = lows[:count].copy(), highs[:count].copy()
        self._new = []


@kernel
def _find_inside(lows: Int64s, highs: Int64s, codes: Int64s, inside: Bools) -> None:
    # Per code, the last range known to begin at it or before it. All codes of a block take each step together, so no
    # branch depends on a code and the memory system fetches for many at a time.
    at = np.empty(BLOCK, dtype=np.uint64)
    for start in range(0, codes.size, BLOCK):
        count = min(BLOCK, codes.size - start)
        at[:count] = 0
        remaining = np.uint64(lows.size)
        while remaining > np.uint64(1):
            half = remaining >> np.uint64(1)
            for row in range(count):
                at[row] += half * np.uint64(lows[at[row] + half] <= codes[start + row])
            remaining -= half
        for row in range(count):
            code = codes[start + row]
            inside[start + row] = (lows[at[row]] <= code) & (code <= highs[at[row]])


@kernel
def _merge_sorted(lows: Int64s, highs: Int64s) -> int:
    """Merge ranges, ascending by their lows, in place; return how many are left."""
    count = 0
    for at in range(lows.size):
        # The largest code has no successor.
        if count and (highs[count - 1] == _MOST or lows[at] <= highs[count - 1] + 1):
            highs[count - 1] = max(highs[count - 1], highs[at])
        else:
            lows[count] = lows[at]
            highs[count] = highs[at]
            count += 1
    return count


@kernel
def _intersect(
    lows: Int64s, highs: Int64s, other_lows: Int64s, other_highs: Int64s, out_lows: Int64s, out_highs: Int64s
) -> int:
    """Write the intersection of two ascending lists of ranges; return how many ranges it has."""
    count = at = other_at = 0
    while at < lows.size and other_at < other_lows.size:
        low = max(lows[at], other_lows[other_at])
        high = min(highs[at], other_highs[other_at])
        if low <= high:
            out_lows[count] = low
            out_highs[count] = high
            count += 1
        if highs[at] < other_highs[other_at]:
            at += 1
        else:
            other_at += 1
    return count


@kernel
def _subtract(
    lows: Int64s, highs: Int64s, gone_lows: Int64s, gone_highs: Int64s, out_lows: Int64s, out_highs: Int64s
) -> int:
    """Write the difference of two ascending lists of ranges; return how many ranges it has."""
    count = gone_at = 0
    for at in range(lows.size):
        low = lows[at]
        is_over = False
        while gone_at < gone_lows.size and gone_highs[gone_at] < low:
            gone_at += 1
        while gone_at < gone_lows.size and gone_lows[gone_at] <= highs[at] and not is_over:
            if gone_lows[gone_at] > low:
                out_lows[count] = low
                out_highs[count] = gone_lows[gone_at] - 1
                count += 1
            if gone_highs[gone_at] >= highs[at]:
                is_over = True  # the same range may reach into the next one
            else:
                low = gone_highs[gone_at] + 1
                gone_at += 1
        if not is_over:
            out_lows[count] = low
            out_highs[count] = highs[at]
            count += 1
    return count
