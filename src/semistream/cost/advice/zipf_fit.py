"""The Zipf exponent of a stream from how often keys came in a sample.

Ranks do not serve: in a small sample some of the most frequent keys came so often by chance, so a line through ranks
and frequencies is too steep, and without skew there is no line. Instead the fit looks at how many keys came once,
twice, three times and so on. A key of probability p comes in n tuples as often as a Poisson variable of mean n p, and
the number of keys in each class is close to a Poisson variable too. The exponent, and the number of keys if that is in
doubt, are those that make the classes found most likely.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.cost.key_distribution import KeyDistribution, poisson_at_least
from semistream.kernels.arrays import Int64s

__all__ = ["ZipfFit", "fit_zipf"]

_EXACT_COUNTS = 16  # below, each count is a class of its own
_CLASS_RATIO = 1.25  # above, classes become wider
_HIGHEST_EXPONENT = 3.0
_COARSE_STEPS = 16
_FINE_STEPS = 14
_GOLDEN = (math.sqrt(5) - 1) / 2
_RARE = 1e-9  # keys of a class that a distribution all but excludes


class ZipfFit(NamedTuple):
    """The distribution that makes a sample most likely."""

    exponent: float
    domain: int
    log_likelihood: float


def fit_zipf(counts: Int64s, domains: Sequence[int]) -> ZipfFit:
    """Return the exponent and the number of keys that fit a sample.

    ``counts`` says how often each key came that came at all. Of the possible numbers of keys, ``domains``, the first is
    taken unless another is clearly more likely.
    """
    if counts.size == 0:
        raise InvalidArgument("a sample without keys has no skew: give at least one tuple")
    classes = _Classes(counts)
    fits = [_best_exponent(classes, domain) for domain in domains]
    most_likely = max(fits, key=lambda fit: fit.log_likelihood)
    clearly = 3.0 + math.log(classes.tuples) / 2
    return most_likely if most_likely.log_likelihood > fits[0].log_likelihood + clearly else fits[0]


class _Classes:
    """How many keys came how often, in classes of counts that grow wider."""

    def __init__(self, counts: Int64s) -> None:
        self.tuples = int(counts.sum())
        edges = [float(count) for count in range(1, _EXACT_COUNTS + 1)]
        while edges[-1] <= counts.max():
            edges.append(np.ceil(edges[-1] * _CLASS_RATIO))
        self.edges = np.array(edges)  # the last class has no end
        self.found = np.bincount(np.searchsorted(self.edges, counts, side="right") - 1, minlength=self.edges.size)

    def log_likelihood(self, keys: KeyDistribution) -> float:
        at_least = poisson_at_least(self.tuples * keys.probability, self.edges)
        inside = -np.diff(at_least, axis=1, append=0.0)
        expected = np.maximum(keys.keys @ np.maximum(inside, 0.0), _RARE)
        return float(np.dot(self.found, np.log(expected)) - expected.sum())


def _best_exponent(classes: _Classes, domain: int) -> ZipfFit:
    def likelihood(exponent: float) -> float:
        return classes.log_likelihood(KeyDistribution.zipf(domain, exponent))

    coarse = np.linspace(0, _HIGHEST_EXPONENT, _COARSE_STEPS)
    at = int(np.argmax([likelihood(float(exponent)) for exponent in coarse]))
    low, high = float(coarse[max(0, at - 1)]), float(coarse[min(at + 1, coarse.size - 1)])
    tried: dict[float, float] = {}
    for _ in range(_FINE_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        for exponent in (left, right):
            tried.setdefault(exponent, likelihood(exponent))
        low, high = (low, right) if tried[left] >= tried[right] else (left, high)
    tried[float(coarse[at])] = likelihood(float(coarse[at]))  # no skew at all lies at the end of the range
    best = max(tried, key=lambda exponent: tried[exponent])
    return ZipfFit(best, domain, tried[best])
