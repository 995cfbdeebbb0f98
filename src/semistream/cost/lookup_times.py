"""Waiting and processing time of joins that look up, in every step, all tuples that have arrived.

Tuples come at even distances. A step takes those that are there, looks them up, and answers them at its end. Most of
its time goes to reading pages for those that miss: their number is drawn, always alike. When no step finds more than
one tuple, nobody waits. Otherwise some steps take longer than the distance of tuples, and the next ones find more.
"""

import numpy as np

from semistream.cost.model import Times

__all__ = ["lookup_times"]

_TUPLES = 20_000
_SEED = 7


def lookup_times(miss_share: float, miss_s: float, w: float, arrivals_per_s: float) -> Times:
    """Return the mean times of tuples.

    Parameters
    ----------
    miss_share, miss_s
        Which share of the tuples has pages read, and how long that takes for one of them.
    w
        How many tuples a step takes at most.

    Examples
    --------
    When every tuple has a page read before the next one comes, it waits for nothing:

    >>> lookup_times(miss_share=1.0, miss_s=0.01, w=100, arrivals_per_s=50)
    Times(waiting_s=0.0, processing_s=0.01)
    """
    rng = np.random.default_rng(_SEED)
    distance_s = 1 / arrivals_per_s
    now_s = waiting_s = processing_s = 0.0
    taken = 0
    while taken < _TUPLES:
        now_s = max(now_s, taken * distance_s)
        arrived = int(now_s / distance_s + 1e-9) + 1 - taken
        tuples = max(1, min(arrived, int(w)))
        step_s = int(rng.binomial(tuples, min(1.0, miss_share))) * miss_s
        waiting_s += tuples * now_s - distance_s * (tuples * taken + tuples * (tuples - 1) / 2)
        processing_s += tuples * step_s
        taken += tuples
        now_s += step_s
    return Times(max(0.0, waiting_s) / taken, processing_s / taken)
