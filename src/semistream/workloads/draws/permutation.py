"""Pseudo-random permutations of ``range(n)`` without a table: each element is computed on its own."""

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Int64s, UInt64s
from semistream.workloads.draws.splitmix import mix

__all__ = ["Permutation"]

_ROUNDS = 4


class Permutation:
    """A permutation of ``range(size)``, chosen by ``seed``.

    A Feistel network permutes a range whose size is a power of four. An element outside ``range(size)`` is permuted
    again until it is inside (cycle walking), which keeps the map one-to-one.
    """

    def __init__(self, size: int, seed: int) -> None:
        if not 1 <= size <= 2**62:
            raise InvalidArgument(f"size={size} must be between 1 and 2**62")
        self.size = size
        self._half_bits = np.uint64(max(1, -(-(size - 1).bit_length() // 2)))
        self._half_mask = (np.uint64(1) << self._half_bits) - np.uint64(1)
        self._round_keys = np.random.default_rng(seed).integers(0, 2**64, size=_ROUNDS, dtype=np.uint64)

    def __call__(self, positions: Int64s) -> Int64s:
        """Return the elements at these positions."""
        elements = self._permute(positions.astype(np.uint64))
        outside = np.flatnonzero(elements >= self.size)
        while outside.size:
            elements[outside] = self._permute(elements[outside])
            outside = outside[elements[outside] >= self.size]
        return elements.astype(np.int64)

    def _permute(self, values: UInt64s) -> UInt64s:
        left, right = values >> self._half_bits, values & self._half_mask
        for round_key in self._round_keys:
            left, right = right, left ^ (mix(right ^ round_key) & self._half_mask)
        return (left << self._half_bits) | right
