"""Which share of a stream's tuples SWEEPJOIN's cache answers, in the long run.

The cache holds the keys that were counted most often (`HotRows`). Counts are of a sample of the
stream: near the limit of the cache a key is counted a few times, and by chance some more and some less often than they
should. A key's count is a Poisson number, and those above a bound are cached; with the bound the cache is just full.
"""

import numpy as np
import numpy.typing as npt

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models.poisson import at_least

__all__ = ["sketch_share"]

_MOST_COUNT = 255  # a counter is a byte

_Floats = npt.NDArray[np.float64]


def sketch_share(keys: KeyDistribution, capacity_keys: float, sample_tuples: float) -> float:
    """Return the share of tuples that a cache of so many keys answers.

    Parameters
    ----------
    sample_tuples
        How many of the latest tuples the counts are of.

    Examples
    --------
    >>> zipf = KeyDistribution.zipf(1_000_000, exponent=1.0)
    >>> share = sketch_share(zipf, 10_000, sample_tuples=360_000)
    >>> 0.9 < share / zipf.share_of_top(10_000) < 1
    True
    """
    if capacity_keys < 1:
        return 0.0
    if capacity_keys >= keys.num_keys:
        return 1.0
    counts = keys.probability * sample_tuples
    low, high = 0, _MOST_COUNT  # bounds with too many keys, and with few enough
    while high - low > 1:
        middle = (low + high) // 2
        if float(np.dot(keys.keys, at_least(counts, middle))) > capacity_keys:
            low = middle
        else:
            high = middle
    cached, more = at_least(counts, high), at_least(counts, low)
    used, more_used = float(np.dot(keys.keys, cached)), float(np.dot(keys.keys, more))
    if used > capacity_keys:  # all at the top of the counters: the most frequent are not told apart
        cached = cached * capacity_keys / used
    elif more_used > used:
        # Of those that were counted just once less, as many as there is room for.
        cached = cached + (more - cached) * min(1.0, (capacity_keys - used) / (more_used - used))
    return float(np.dot(keys.keys * keys.probability, cached))
