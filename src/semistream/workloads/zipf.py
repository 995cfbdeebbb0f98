"""Zipf-distributed ranks over any domain, for any exponent, without a table of probabilities.

Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
monotone discrete distributions", ACM TOMACS 6(3), 1996: a continuous density that covers the discrete one is
inverted, and few candidates are rejected, whatever the exponent and the size of the domain.
"""

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument

__all__ = ["Zipf"]

_Floats = npt.NDArray[np.float64]


class Zipf:
    """Ranks 1 to ``domain``, rank r with a probability in proportion to ``r ** -exponent``.

    Parameters
    ----------
    domain
        The largest rank.
    exponent
        0 is the uniform distribution; 1 is the classical Zipf distribution.

    Examples
    --------
    >>> ranks = Zipf(10**12, exponent=1.0).sample(1000, np.random.default_rng(3))
    >>> int(ranks.min()) >= 1, int(ranks.max()) <= 10**12
    (True, True)
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

    def sample(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return ``count`` ranks."""
        ranks = np.empty(count, dtype=np.int64)
        if self.exponent == 0:
            ranks[:] = rng.integers(1, self.domain, size=count, endpoint=True)
            return ranks
        open_positions = np.arange(count)
        while open_positions.size:
            candidates, accepted = self._candidates(open_positions.size, rng)
            ranks[open_positions[accepted]] = candidates[accepted]
            open_positions = open_positions[~accepted]
        return ranks

    def _candidates(self, count: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        area = self._area_to + rng.random(count) * (self._area_from - self._area_to)
        x = self._inverse_area(area)
        rank = np.clip(np.floor(x + 0.5), 1, self.domain)
        accepted = rank - x <= self._sure_distance
        unsure = np.flatnonzero(~accepted)
        tried = rank[unsure]
        accepted[unsure] = area[unsure] >= self._area(tried + 0.5) - self._density(tried)
        return rank.astype(np.int64), accepted

    def _density(self, x: _Floats) -> _Floats:
        return np.exp(-self.exponent * np.log(x))

    def _area(self, x: _Floats) -> _Floats:
        """Return the integral of the density from 1 to x."""
        log_x = np.log(x)
        return _expm1_over((1 - self.exponent) * log_x) * log_x

    def _inverse_area(self, area: _Floats) -> _Floats:
        # Rounding may push the argument of the logarithm below its domain.
        scaled = np.maximum(area * (1 - self.exponent), -1.0)
        return np.exp(_log1p_over(scaled) * area)


def _log1p_over(x: _Floats) -> _Floats:
    """Return log(1 + x) / x, also close to 0, where the exponent is close to 1."""
    small = np.abs(x) < 1e-8
    with np.errstate(divide="ignore"):
        return np.where(small, 1 - x / 2, np.log1p(x) / np.where(small, 1.0, x))


def _expm1_over(x: _Floats) -> _Floats:
    """Return (exp(x) - 1) / x, also close to 0."""
    small = np.abs(x) < 1e-8
    return np.where(small, 1 + x / 2, np.expm1(x) / np.where(small, 1.0, x))
