"""How many look-ups miss a pool that keeps the pages that were used last.

H. Che, Y. Tung, Z. Wang: "Hierarchical Web Caching Systems: Modeling, Design and Experimental Results", IEEE JSAC
20(7), 2002: a page stays in the pool for about the same time t after it was used, whichever page it is. It is there
when it was asked for within that time, which has the probability 1 - exp(-q t) for a page asked for at the rate q. As
many pages are there as fit: that gives t.
"""

import numpy as np
import numpy.typing as npt

from semistream.cost.partition_loads import increasing_root

__all__ = ["pool_misses"]


def pool_misses(rates: npt.NDArray[np.float64], pool_pages: float) -> float:
    """Return the share of look-ups that miss a pool of so many pages.

    Parameters
    ----------
    rates
        The probability of each page to be the next that is asked for.

    Examples
    --------
    With equal pages, those in the pool are as good as any:

    >>> round(pool_misses(np.full(100, 0.01), pool_pages=30), 6)
    0.7
    """
    asked = int(np.count_nonzero(rates))
    if pool_pages >= asked:
        return 0.0
    if pool_pages <= 0:
        return 1.0
    time = increasing_root(lambda time: float(np.sum(-np.expm1(-rates * time))) - pool_pages, high=pool_pages)
    return float(np.dot(rates, np.exp(-rates * time)) / rates.sum())
