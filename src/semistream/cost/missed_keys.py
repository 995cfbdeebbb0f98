"""How often keys come among the tuples that a cache does not answer."""

import numpy as np

from semistream.cost.key_distribution import KeyDistribution

__all__ = ["missed_keys"]


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
