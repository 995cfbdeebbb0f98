"""Zipf-distributed ranks over any domain, for any exponent, without a table of probabilities.

Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
monotone discrete distributions", ACM TOMACS 6(3), 1996: a continuous density that covers the discrete one is
inverted, and few candidates are rejected, whatever the exponent and the size of the domain.
"""

from collections.abc import Callable

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Bools, Floats, Int64s
from semistream.workloads.draws.splitmix import SplitMix

__all__ = ["Zipf"]


class Zipf:
    """Ranks 1 to ``domain``, rank r with a probability in proportion to ``r ** -exponent``.

    Exponent 0 is the uniform distribution, 1 the classical Zipf distribution.
    """

    def __init__(self, domain: int, exponent: float) -> None:
        if not 1 <= domain <= 2**53:
            raise InvalidArgument(f"domain={domain} must be between 1 and 2**53")
        if not 0 <= exponent < float("inf"):
            raise InvalidArgument(f"exponent={exponent} must be 0 or more, and finite")
        self.domain = domain
        self.exponent = exponent
        # The first rank covers [1, 1.5] of its own density; the rest of the area goes to 1.5 and beyond.
        self._area_from = float(self._area(np.array([1.5]))[0]) - 1.0
        self._area_to = float(self._area(np.array([domain + 0.5]))[0])
        two = np.array([2.0])
        self._sure_distance = float((two - self._inverse_area(self._area(two + 0.5) - self._density(two)))[0])

    def sample(self, count: int, rng: np.random.Generator) -> Int64s:
        """Return ``count`` ranks."""
        if self.exponent == 0:
            return rng.integers(1, self.domain, size=count, dtype=np.int64, endpoint=True)
        return self._accepted(count, lambda open_ranks, _: rng.random(open_ranks.size))

    def at(self, positions: Int64s, seed: int) -> Int64s:
        """Return the ranks at these positions of an endless sequence; each depends on seed and position only."""
        if self.exponent == 0:
            uniform = SplitMix(seed, "rank 0").uniform(positions)
            return np.minimum((uniform * self.domain).astype(np.int64) + 1, self.domain)
        return self._accepted(
            positions.size, lambda open_ranks, tries: SplitMix(seed, f"rank {tries}").uniform(positions[open_ranks])
        )

    def _accepted(self, count: int, draw: Callable[[Int64s, int], Floats]) -> Int64s:
        ranks = np.empty(count, dtype=np.int64)
        open_ranks = np.arange(count)
        tries = 0
        while open_ranks.size:
            candidates, accepted = self._candidates(draw(open_ranks, tries))
            ranks[open_ranks[accepted]] = candidates[accepted]
            open_ranks = open_ranks[~accepted]
            tries += 1
        return ranks

    def _candidates(self, uniform: Floats) -> tuple[Int64s, Bools]:
        area = self._area_to + uniform * (self._area_from - self._area_to)
        x = self._inverse_area(area)
        rank = np.clip(np.floor(x + 0.5), 1, self.domain)
        accepted = rank - x <= self._sure_distance
        unsure = np.flatnonzero(~accepted)
        tried = rank[unsure]
        accepted[unsure] = area[unsure] >= self._area(tried + 0.5) - self._density(tried)
        return rank.astype(np.int64), accepted

    def _density(self, x: Floats) -> Floats:
        return np.exp(-self.exponent * np.log(x))

    def _area(self, x: Floats) -> Floats:
        """Return the integral of the density from 1 to x."""
        log_x = np.log(x)
        return _expm1_over((1 - self.exponent) * log_x) * log_x

    def _inverse_area(self, area: Floats) -> Floats:
        # Rounding may push the argument of the logarithm below its domain.
        scaled = np.maximum(area * (1 - self.exponent), -1.0)
        return np.exp(_log1p_over(scaled) * area)


def _log1p_over(x: Floats) -> Floats:
    """Return log(1 + x) / x, also close to 0, where the exponent is close to 1."""
    small = np.abs(x) < 1e-8
    with np.errstate(divide="ignore"):
        return np.where(small, 1 - x / 2, np.log1p(x) / np.where(small, 1.0, x))


def _expm1_over(x: Floats) -> Floats:
    """Return (exp(x) - 1) / x, also close to 0."""
    small = np.abs(x) < 1e-8
    return np.where(small, 1 + x / 2, np.expm1(x) / np.where(small, 1.0, x))
