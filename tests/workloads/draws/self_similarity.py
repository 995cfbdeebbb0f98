"""Self-similarity of a series of counts: two estimates of the Hurst exponent, and the share of the busiest times.

A series is self-similar if it looks alike at every time scale: bursts do not average out. Its Hurst exponent H lies
between 0.5 for independent counts, where they do, and 1. Both estimates are those of W. Leland, M. Taqqu, W. Willinger
and D. Wilson, "On the self-similar nature of Ethernet traffic", IEEE/ACM ToN 2(1), 1994. They are rough: some
hundredths off, R/S too high where H is 0.5, both too low where it is close to 1. `Bursts`, whose mean rate is exact
over every period, is self-similar up to that scale only: give it as ``largest_scale``.
"""

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument

__all__ = ["hurst_by_rescaled_range", "hurst_by_variance", "share_of_busiest"]

_LEAST_COUNTS = 256
_LEAST_BLOCKS = 32  # for a variance of their means
_ROUNDING = 1e-12
_LEAST_BLOCK = 16  # for a range within it

_Counts = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def hurst_by_variance(counts: _Counts, largest_scale: int | None = None) -> float:
    """Return the Hurst exponent by aggregated variance: means over m counts vary as ``m ** (2 * H - 2)``."""
    series = _checked(counts)
    sizes = _sizes(1, series.size // _LEAST_BLOCKS, largest_scale)
    variances = np.array([_blocks(series, size).mean(axis=1).var() for size in sizes])
    varying = variances > variances[0] * _ROUNDING
    return 1 + _slope(sizes[varying], variances[varying]) / 2


def hurst_by_rescaled_range(counts: _Counts, largest_scale: int | None = None) -> float:
    """Return the Hurst exponent by R/S: sums over m counts range over ``m ** H`` standard deviations."""
    series = _checked(counts)
    kept, rescaled = [], []
    for size in _sizes(_LEAST_BLOCK, series.size, largest_scale).tolist():
        blocks = _blocks(series, size)
        deviations = blocks.std(axis=1)
        walks = np.cumsum(blocks - blocks.mean(axis=1, keepdims=True), axis=1)
        ranges = np.maximum(walks.max(axis=1), 0) - np.minimum(walks.min(axis=1), 0)
        varying = deviations > 0
        if varying.any():
            kept.append(size)
            rescaled.append(float(np.mean(ranges[varying] / deviations[varying])))
    return _slope(np.array(kept), np.array(rescaled))


def share_of_busiest(counts: _Counts, share: float = 0.2) -> float:
    """Return the share of all counts in the busiest part of the series: 0.8 for a fifth is the 80/20 rule."""
    if not 0 < share <= 1:
        raise InvalidArgument(f"share={share} must be above 0 and at most 1")
    if counts.size == 0 or counts.sum() == 0:
        raise InvalidArgument("counts are all 0: give a series in which something arrives")
    busiest_first = np.sort(counts)[::-1]
    return float(busiest_first[: max(1, round(share * counts.size))].sum() / counts.sum())


def _checked(counts: _Counts) -> npt.NDArray[np.float64]:
    if counts.size < _LEAST_COUNTS:
        raise InvalidArgument(f"a series of {counts.size} counts is too short: give at least {_LEAST_COUNTS}")
    if counts.min() == counts.max():
        raise InvalidArgument("counts are all equal, so that there is no Hurst exponent: give a series that varies")
    return np.asarray(counts, dtype=np.float64)


def _sizes(least: int, most: int, largest_scale: int | None) -> npt.NDArray[np.int64]:
    """Return numbers of counts to take together, each twice the one before."""
    if largest_scale is not None:
        if largest_scale < 4 * least:
            raise InvalidArgument(f"largest_scale={largest_scale} leaves too few scales: give at least {4 * least}")
        most = min(most, largest_scale)
    sizes: npt.NDArray[np.int64] = least << np.arange((most // least).bit_length(), dtype=np.int64)
    return sizes


def _blocks(series: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    return series[: series.size // size * size].reshape(-1, size)


def _slope(sizes: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
