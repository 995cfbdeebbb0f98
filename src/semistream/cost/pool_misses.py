"""How many look-ups miss a pool that keeps the pages that were used last.

H. Che, Y. Tung, Z. Wang: "Hierarchical Web Caching Systems: Modeling, Design and Experimental Results", IEEE JSAC
20(7), 2002: a page stays in the pool for about the same time t after it was used, whichever page it is. It is there
when it was asked for within that time, which has the probability 1 - exp(-q t) for a page asked for at the rate q. As
many pages are there as fit: that gives t.
"""

import numpy as np

from semistream.cost.part_rates import PartRates
from semistream.cost.partition_loads import increasing_root

__all__ = ["pool_misses"]


def pool_misses(rates: PartRates, pool_pages: float) -> float:
    """Return the share of look-ups that miss a pool of so many pages.

    Parameters
    ----------
    rates
        How often pages are asked for.

    Examples
    --------
    With equal pages, those in the pool are as good as any:

    >>> round(pool_misses(PartRates(np.array([0.01]), np.array([100.0])), pool_pages=30), 6)
    0.7
    """
    rate = rates.rate
    if pool_pages >= rates.total((rate > 0).astype(np.float64)):
        return 0.0
    if pool_pages <= 0:
        return 1.0
    time = increasing_root(lambda time: rates.total(-np.expm1(-rate * time)) - pool_pages, high=pool_pages)
    return rates.total(rate * np.exp(-rate * time)) / rates.total(rate)
