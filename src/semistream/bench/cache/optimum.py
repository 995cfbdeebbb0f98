"""The most hits that a cache which never changes can have, knowing the whole stream beforehand."""

import numpy as np
import numpy.typing as npt

__all__ = ["interval_optimum", "static_optimum"]

_Int64s = npt.NDArray[np.int64]


def static_optimum(keys: _Int64s, capacity_keys: int) -> float:
    """Return the share of tuples that ask for one of the ``capacity_keys`` most frequent keys.

    Examples
    --------
    >>> static_optimum(np.array([7, 7, 7, 8, 8, 9]), capacity_keys=2)
    0.8333333333333334
    """
    return _most_hits(keys, capacity_keys) / keys.size


def interval_optimum(keys: _Int64s, capacity_keys: int, first_tuple: int, interval_tuples: int) -> float:
    """Return the same share for a cache that is filled anew, and best, at the start of every interval.

    Parameters
    ----------
    first_tuple
        The number of the first of these tuples in its stream, whose intervals begin at multiples of
        ``interval_tuples``.

    Examples
    --------
    >>> interval_optimum(np.array([7, 7, 9, 8, 8, 9]), capacity_keys=1, first_tuple=0, interval_tuples=3)
    0.6666666666666666
    """
    first_cut = interval_tuples - first_tuple % interval_tuples
    parts = np.split(keys, np.arange(first_cut, keys.size, interval_tuples))
    return sum(_most_hits(part, capacity_keys) for part in parts) / keys.size


def _most_hits(keys: _Int64s, capacity_keys: int) -> int:
    counts = np.sort(np.unique(keys, return_counts=True)[1])
    return int(counts[max(0, counts.size - capacity_keys) :].sum())
