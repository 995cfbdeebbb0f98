"""How often keys come in a stream, in groups of equally frequent keys: any number of keys takes little memory."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Floats

__all__ = ["KeyDistribution", "poisson_at_least"]

_SINGLE_RANKS = 1024  # the most frequent keys are groups of their own
_GROUPS_PER_DECADE = 200
_MOST_SUMMED = 16  # above, Poisson numbers are close to normal ones


@dataclass(frozen=True)
class KeyDistribution:
    """Groups of ``keys`` keys, the most frequent first.

    A tuple has a given key of a group with its ``probability``; over all keys they add up to 1. With ``in_order`` a
    clustered table has the keys in this order (S1, section 5); otherwise a frequent key lies anywhere.

    Examples
    --------
    >>> zipf = KeyDistribution.zipf(1_000_000, exponent=1.0)
    >>> round(float(zipf.share_of_top(10_000)), 2)
    0.68
    """

    keys: Floats
    probability: Floats
    in_order: bool = False

    @staticmethod
    def zipf(domain: int, exponent: float, *, in_order: bool = False) -> "KeyDistribution":
        """Return the distribution in which the key of rank r is as frequent as ``r ** -exponent``."""
        if domain < 1:
            raise InvalidArgument(f"domain={domain} must be at least 1")
        if not 0 <= exponent < float("inf"):
            raise InvalidArgument(f"exponent={exponent} must be 0 or more, and finite")
        singles = np.arange(1, min(domain, _SINGLE_RANKS) + 2, dtype=np.float64)
        bounds = singles
        if domain > _SINGLE_RANKS:
            decades = np.log10((domain + 1) / singles[-1])
            more = np.geomspace(singles[-1], domain + 1, max(2, int(decades * _GROUPS_PER_DECADE)))
            bounds = np.unique(np.concatenate([singles, np.round(more)]))
        keys = np.diff(bounds)
        # The mean of r ** -exponent over a group, taken at its middle: groups are narrow.
        weight = ((bounds[:-1] + bounds[1:] - 1) / 2) ** -exponent
        return KeyDistribution(keys, weight / float(np.dot(keys, weight)), in_order)

    @property
    def num_keys(self) -> float:
        return float(self.keys.sum())

    def share_of_top(self, count: float) -> float:
        """Return the share of tuples that have one of the ``count`` most frequent keys."""
        before = np.cumsum(self.keys) - self.keys
        taken = np.clip(count - before, 0, self.keys)
        return float(np.dot(taken, self.probability))

    def missed(self, cached_share: float) -> "KeyDistribution":
        """Return the keys without the most frequent ones that make up ``cached_share`` of the tuples.

        A cache that learns also holds some rarer keys and lacks some of these. Reads of R depend on the share alone.
        """
        if cached_share <= 0:
            return self
        before = np.cumsum(self.keys * self.probability) - self.keys * self.probability
        cached = np.clip((cached_share - before) / self.probability, 0, self.keys)
        left = self.keys - cached
        if self.in_order and left.any():  # cached keys keep their places in R
            share_left = left / self.keys * self.probability
            return KeyDistribution(self.keys, share_left / float(np.dot(self.keys, share_left)), in_order=True)
        some = left > 1e-9 * self.keys
        if not some.any():
            some[-1], left = True, np.where(some, left, self.keys)
        mass = float(np.dot(left[some], self.probability[some]))
        return KeyDistribution(left[some], self.probability[some] / mass)


def poisson_at_least(means: Floats, numbers: npt.ArrayLike) -> Floats:
    """Return how likely a Poisson variable is at least a number, for each mean (rows) and number (columns).

    So often a key comes in a stretch of the stream. Numbers up to 16 are exact; above, the cube root is taken to be
    normal (Wilson and Hilferty).
    """
    number = np.asarray(numbers, dtype=np.float64)
    mean = np.maximum(means, 1e-300)[:, None]
    found = np.ones((means.size, number.size))
    few = (number >= 1) & (number <= _MOST_SUMMED)
    if few.any():
        count = np.arange(number[few].max())
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(count[1:]))])
        below = np.cumsum(np.exp(count * np.log(mean) - mean - log_factorial), axis=1)
        found[:, few] = np.maximum(0.0, 1 - below[:, number[few].astype(np.int64) - 1])
    many = number > _MOST_SUMMED
    if many.any():
        large = number[many]
        deviation = (1 - 1 / (9 * large) - np.cbrt(mean / large)) * 3 * np.sqrt(large)
        found[:, many] = 0.5 * (1 - np.tanh(np.sqrt(2 / np.pi) * (deviation + 0.044715 * deviation**3)))
    return found
