"""Random numbers by position: each is computed on its own, in any order.

SplitMix64 after G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: its
state is a counter, so that number i follows from i. Generated data stay the same however they are cut.
"""

import numpy as np

from semistream.kernels.arrays import Floats, Int32s, Int64s, UInt64s

__all__ = ["SplitMix", "mix"]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def mix(values: UInt64s) -> UInt64s:
    """Return a one-to-one map of values; every bit depends on every bit of the given value."""
    values = values ^ (values >> np.uint64(30))
    values *= _MIX1
    values ^= values >> np.uint64(27)
    values *= _MIX2
    values ^= values >> np.uint64(31)
    return values


class SplitMix:
    """Random numbers, one for each position; those of two purposes do not depend on each other."""

    def __init__(self, seed: int, purpose: str) -> None:
        entropy = np.random.SeedSequence([seed, *purpose.encode()])
        self._first = entropy.generate_state(1, np.uint64)

    def words(self, positions: Int64s) -> UInt64s:
        """Return 64 random bits for each position."""
        return mix(positions.astype(np.uint64) * _GAMMA + self._first)

    def uniform(self, positions: Int64s) -> Floats:
        """Return a number from 0 to below 1 for each position."""
        return (self.words(positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, limit: int, positions: Int64s) -> Int32s:
        """Return a whole number from 0 to below ``limit`` for each position."""
        return (self.uniform(positions) * limit).astype(np.int32)
