"""How often the parts of R are asked for, its pages or partitions of several pages; how many look-ups miss a pool."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semistream.cost.key_distribution import KeyDistribution
from semistream.kernels.arrays import Floats

__all__ = ["PartRates", "increasing_root", "pool_misses"]

_SCATTERED_PER_PART = 4  # further keys of a part even out
_LEAST_SCATTERED = 1024
_MOST_PARTS_DRAWN = 1 << 20
_MOST_HOT_KEYS = 1 << 16
_SINGLE_PARTS = 1024  # those that are asked for most are groups of their own
_GROUPS = 4096
_SEED = 7
_HALVINGS = 200


@dataclass(frozen=True)
class PartRates:
    """Groups of ``parts`` parts that are asked for about equally often: large tables take no longer to predict.

    Examples
    --------
    >>> PartRates.of(KeyDistribution.zipf(1000, exponent=1.0, in_order=True), parts=4).rate.round(3).tolist()
    [0.815, 0.092, 0.054, 0.038]
    """

    rate: Floats  # λ_p: the probability that a tuple asks for a part of the group
    parts: Floats
    neighbours_alike: bool = False  # whether parts lie in R beside others that are asked for as often, or beside any

    @staticmethod
    def each(rates: Floats) -> "PartRates":
        """Return parts with these rates, one of each."""
        return PartRates(rates, np.ones(rates.size))

    @staticmethod
    def of(keys: KeyDistribution, parts: int) -> "PartRates":
        """Return the rates of so many equal parts of R.

        Where frequent keys lie anywhere, their parts are drawn, always alike; the other keys are spread evenly.
        """
        if keys.in_order:
            return _in_order(keys, parts)
        if bool(np.all(keys.probability == keys.probability[0])):
            return _equal(keys, parts)
        if parts > _MOST_PARTS_DRAWN:
            return _of_many(keys, parts)
        rates = _drawn(keys, parts, np.random.default_rng(_SEED))
        return PartRates.each(rates / rates.sum())._grouped()

    @property
    def num_parts(self) -> float:
        return float(self.parts.sum())

    def total(self, of_part: Floats) -> float:
        """Return the sum over all parts of a value given for a part of each group."""
        return float(np.dot(self.parts, of_part))

    def _grouped(self) -> "PartRates":
        """Return larger groups, of parts whose rates lie close together."""
        if self.rate.size <= _GROUPS:
            return self
        order = np.argsort(-self.rate, kind="stable")
        rate, parts = self.rate[order], self.parts[order]
        further = np.geomspace(_SINGLE_PARTS, rate.size, _GROUPS - _SINGLE_PARTS + 1)[:-1].astype(np.int64)
        begins = np.concatenate([np.arange(_SINGLE_PARTS), np.unique(further)])
        counts = np.add.reduceat(parts, begins)
        return PartRates(np.add.reduceat(rate * parts, begins) / counts, counts, self.neighbours_alike)


def _equal(keys: KeyDistribution, parts: int) -> PartRates:
    """Return parts that have as many keys each, of keys that come equally often; some have none if there are fewer."""
    asked = min(float(parts), max(1.0, keys.num_keys))
    if asked == parts:
        return PartRates(np.array([1.0 / parts]), np.array([asked]))
    return PartRates(np.array([1.0 / asked, 0.0]), np.array([asked, parts - asked]))


def _in_order(keys: KeyDistribution, parts: int) -> PartRates:
    looked_at = min(parts, _MOST_PARTS_DRAWN)
    ends = np.concatenate([[0.0], np.cumsum(keys.keys)])
    mass = np.concatenate([[0.0], np.cumsum(keys.keys * keys.probability)])
    rates = np.diff(np.interp(np.linspace(0.0, ends[-1], looked_at + 1), ends, mass))
    each = parts / looked_at
    return PartRates(rates / each, np.full(looked_at, each), neighbours_alike=True)._grouped()


def _drawn(keys: KeyDistribution, parts: int, rng: np.random.Generator) -> Floats:
    """Return the rates of parts among which keys are scattered, the first ones one by one."""
    most = max(_LEAST_SCATTERED, _SCATTERED_PER_PART * parts)
    single = int(np.searchsorted(np.cumsum(keys.keys), most, side="right"))
    drawn = np.repeat(keys.probability[:single], np.round(keys.keys[:single]).astype(np.int64))
    even = float(np.dot(keys.keys[single:], keys.probability[single:]))
    rates = np.bincount(rng.integers(parts, size=drawn.size), weights=drawn, minlength=parts)
    return rates.astype(np.float64) + even / parts


def _of_many(keys: KeyDistribution, parts: int) -> PartRates:
    """Draw the parts of the most frequent keys; the other keys are drawn for some parts, which stand for all."""
    rng = np.random.default_rng(_SEED)
    hot = int(np.searchsorted(np.cumsum(keys.keys), _MOST_HOT_KEYS, side="right"))
    hot_probability = np.repeat(keys.probability[:hot], np.round(keys.keys[:hot]).astype(np.int64))
    with_hot, where = np.unique(rng.integers(parts, size=hot_probability.size), return_inverse=True)
    hot_rates = np.bincount(where, weights=hot_probability, minlength=with_hot.size)
    # As many of the other keys as the drawn parts have: a whole number of every few groups.
    others = keys.keys[hot:] * (_MOST_PARTS_DRAWN / parts)
    whole = np.diff(np.round(np.concatenate([[0.0], np.cumsum(others)])))
    other_rates = _drawn(KeyDistribution(whole, keys.probability[hot:]), _MOST_PARTS_DRAWN, rng)
    mass = float(np.dot(keys.keys[hot:], keys.probability[hot:]))
    other_rates *= mass / max(float(other_rates.sum()) * parts / _MOST_PARTS_DRAWN, 1e-300)
    rate = np.concatenate([hot_rates + other_rates[: with_hot.size], other_rates])
    without_hot = (parts - with_hot.size) / _MOST_PARTS_DRAWN
    counts = np.concatenate([np.ones(with_hot.size), np.full(_MOST_PARTS_DRAWN, without_hot)])
    rate /= float(np.dot(rate, counts))
    return PartRates(rate, counts)._grouped()


def increasing_root(excess: Callable[[float], float], high: float) -> float:
    """Return where an increasing function of a number above 0 becomes 0; ``high`` is a guess of an upper bound."""
    low = 0.0
    for _ in range(_HALVINGS):
        if excess(high) >= 0:
            break
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if excess(middle) < 0:
            low = middle
        else:
            high = middle
    return high


def pool_misses(rates: PartRates, pool_pages: float) -> float:
    """Return the share of look-ups that miss a pool of the pages used last.

    After H. Che, Y. Tung, Z. Wang, "Hierarchical Web Caching Systems: Modeling, Design and Experimental Results", IEEE
    JSAC 20(7), 2002: every page stays for about the same time t after it was used. A page asked for at the rate q is in
    the pool with probability 1 - exp(-q t). As many pages are in it as fit: that gives t.
    """
    rate = rates.rate
    if pool_pages >= rates.total((rate > 0).astype(np.float64)):
        return 0.0
    if pool_pages <= 0:
        return 1.0
    time = increasing_root(lambda time: rates.total(-np.expm1(-rate * time)) - pool_pages, high=pool_pages)
    return rates.total(rate * np.exp(-rate * time)) / rates.total(rate)
