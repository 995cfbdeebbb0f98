"""How often keys come in a stream, in groups of equally frequent keys: exact enough, for any number of keys.

How often keys come among the tuples that a cache does not answer.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument

__all__ = ["KeyDistribution", "missed_keys"]

_SINGLE_RANKS = 1024  # the most frequent keys are groups of their own
_GROUPS_PER_DECADE = 200

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeyDistribution:
    """Groups of keys, the most frequent first.

    Attributes
    ----------
    keys
        How many keys a group has.
    probability
        Of each key of the group, to be the key of a tuple; over all keys they add up to 1.
    in_order
        Whether the keys lie in a clustered table as they are here, the most frequent first (S1 ll. 945-951); otherwise
        a frequent key lies anywhere.

    Examples
    --------
    >>> zipf = KeyDistribution.zipf(1_000_000, exponent=1.0)
    >>> round(float(zipf.share_of_top(10_000)), 2)
    0.68
    """

    keys: _Floats
    probability: _Floats
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
        """Return which share of the tuples has one of the ``count`` most frequent keys."""
        before = np.cumsum(self.keys) - self.keys
        taken = np.clip(count - before, 0, self.keys)
        return float(np.dot(taken, self.probability))


def missed_keys(keys: KeyDistribution, cached_share: float) -> KeyDistribution:
    """Return the keys without the most frequent ones that make up ``cached_share`` of the tuples.

    A cache that learns also holds some rarer keys and lacks some of these. For what is read of R that is the same, as
    long as the share is.

    Examples
    --------
    >>> keys = KeyDistribution(np.array([1.0, 4.0]), np.array([0.6, 0.1]))
    >>> missed_keys(keys, cached_share=0.6).probability.tolist()
    [0.25]
    """
    if cached_share <= 0:
        return keys
    before = np.cumsum(keys.keys * keys.probability) - keys.keys * keys.probability
    cached = np.clip((cached_share - before) / keys.probability, 0, keys.keys)
    left = keys.keys - cached
    if keys.in_order and left.any():  # what is cached still has its place in R
        share_left = left / keys.keys * keys.probability
        return KeyDistribution(keys.keys, share_left / float(np.dot(keys.keys, share_left)), in_order=True)
    some = left > 1e-9 * keys.keys
    if not some.any():
        some[-1], left = True, np.where(some, left, keys.keys)
    mass = float(np.dot(left[some], keys.probability[some]))
    return KeyDistribution(left[some], keys.probability[some] / mass)
