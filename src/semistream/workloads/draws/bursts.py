"""Arrival times of a bursty, self-similar stream (S1, appendix, Figs. 9 and 11).

The paper adds up ten virtual streams, each on for a while and off for a while, at time scales from seconds to seasons.
Here, too, ten virtual streams switch on and off, each at half the time scale of the one above:

::

    time      |<----------------------- period ----------------------->|
    stream 0  |          off  20%         |           on  80%          |
    stream 1  |     on      |     off     |     off     |      on      |
      ...
    stream 9  | tick | tick | tick | ...      tuples of a tick = those of the period x the shares above it

Of two neighbouring intervals one, picked at random, gets the larger share (80% in the 80/20 rule, `burstiness` 0.6) and
the other the rest. This is the b-model of M. Wang, T. Madhyastha, N. Chan, S. Papadimitriou and C. Faloutsos, "Data
mining meets performance evaluation: fast algorithms for modeling bursty traffic", ICDE 2002. Its series looks alike at
every scale, with the Hurst exponent ``0.5 - 0.5 * log2(share**2 + (1 - share)**2)``, 0.78 for 80/20.

Deviations from the paper:

D1. An interval's switch is a function of seed and position instead of the next entry of a priority queue (Fig. 9,
    ll. 5-14). The queue must be replayed from the beginning. Here the number of tuples before any moment follows from
    ten switches, so that a restarted stream goes on exactly as it would have.
D2. Shares of the virtual streams multiply instead of adding up, and every period has the same number of tuples. The
    mean rate is exact over each period, and the 80/20 rule holds at each scale within it.
"""

import math

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Floats, Int64s
from semistream.workloads.draws.splitmix import SplitMix

__all__ = ["Bursts"]

_VIRTUAL_STREAMS = 10
_TICKS = 1 << _VIRTUAL_STREAMS
# The weight of a period: shares are split as whole numbers, so that sums are exact and never decrease.
_WEIGHT = 1 << 52
_LARGEST_POSITION = 2**53


class Bursts:
    """The number of arrivals before any moment, and the arrival time of any tuple.

    ``rate`` is the mean in tuples per second, exact over each period of ``period_s``, the longest time scale. The
    shortest, a tick, is 1/1024 of it. ``burstiness`` is the difference between the shares of two neighbouring
    intervals: 0 is a constant rate, 0.6 the 80/20 rule.
    """

    def __init__(self, rate: float, *, burstiness: float = 0.6, period_s: float = 60.0, seed: int = 0) -> None:
        if not 0 < rate < math.inf:
            raise InvalidArgument(f"rate={rate} must be above 0, and finite")
        if not 0 <= burstiness < 1:
            raise InvalidArgument(f"burstiness={burstiness} must be at least 0 and below 1")
        if not 0 < period_s < math.inf:
            raise InvalidArgument(f"period_s={period_s} must be above 0, and finite")
        if not 1 <= rate * period_s <= _LARGEST_POSITION:
            raise InvalidArgument(
                f"rate={rate} gives {rate * period_s:g} tuples in period_s={period_s}: "
                f"use a period that has at least one, and at most 2**53"
            )
        self.rate = rate
        self.period_s = period_s
        self.tick_s = period_s / _TICKS
        self._larger_share = (1 + burstiness) / 2
        self._switches = [SplitMix(seed, f"virtual stream {level}") for level in range(_VIRTUAL_STREAMS)]

    def arrived(self, elapsed_s: float) -> int:
        """Return the number of tuples in the ticks that are over after this many seconds."""
        if not 0 <= elapsed_s * self.rate <= _LARGEST_POSITION:
            raise InvalidArgument(f"elapsed_s={elapsed_s} must be 0 or more, with at most 2**53 tuples until then")
        return int(self.arrived_before(np.array([int(elapsed_s / self.tick_s)]))[0])

    def arrived_before(self, ticks: Int64s) -> Int64s:
        """Return the number of tuples before each of these ticks."""
        periods, within = np.divmod(ticks, _TICKS)
        weight_before = np.zeros_like(ticks)
        weight = np.full_like(ticks, _WEIGHT)
        for level in range(_VIRTUAL_STREAMS):
            depth = _VIRTUAL_STREAMS - level
            left = self._left_weights(level, (periods << level) + (within >> depth), weight)
            in_right = (within >> (depth - 1)) & 1 == 1
            weight_before += np.where(in_right, left, 0)
            weight = np.where(in_right, weight - left, left)
        return self._tuples_before(periods, weight_before)

    def ticks_of(self, start: int, count: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the ticks in which tuples ``start`` to ``start + count - 1`` arrive, ascending.

        Each tick comes with the positions of its first tuple and of the first tuple after it. Takes time in proportion
        to the smaller of ticks and tuples.
        """
        if start < 0 or count < 0 or start + count > _LARGEST_POSITION:
            raise InvalidArgument(f"start={start} and count={count} must be 0 or more, and their sum at most 2**53")
        nodes = np.arange(self._period_of(start), self._period_of(start + max(0, count - 1)) + 1, dtype=np.int64)
        weight_before, weight = np.zeros_like(nodes), np.full_like(nodes, _WEIGHT)
        first, after = self._tuples_before(nodes, weight_before), self._tuples_before(nodes, weight)
        for level in range(_VIRTUAL_STREAMS):
            left = self._left_weights(level, nodes, weight)
            middle = self._tuples_before(nodes >> level, weight_before + left)
            nodes = _both(nodes * 2, nodes * 2 + 1)
            weight_before = _both(weight_before, weight_before + left)
            weight = _both(left, weight - left)
            first, after = _both(first, middle), _both(middle, after)
            asked_for = np.flatnonzero(np.maximum(first, start) < np.minimum(after, start + count))
            nodes, weight_before, weight = nodes[asked_for], weight_before[asked_for], weight[asked_for]
            first, after = first[asked_for], after[asked_for]
        return nodes, first, after

    def times_s(self, start: int, count: int) -> Floats:
        """Return the arrival times of tuples ``start`` to ``start + count - 1`` in seconds, evenly within a tick."""
        ticks, first, after = self.ticks_of(start, count)
        shown = np.minimum(after, start + count) - np.maximum(first, start)
        begin_s = ticks.astype(np.float64) * self.tick_s
        spacing_s = self.tick_s / (after - first).astype(np.float64)
        after_first = (np.arange(start, start + count) - np.repeat(first, shown)).astype(np.float64)
        return np.repeat(begin_s, shown) + after_first * np.repeat(spacing_s, shown)

    def _left_weights(self, level: int, intervals: Int64s, weights: Int64s) -> Int64s:
        """Return what the first half of each interval of this virtual stream gets of the interval's weight."""
        larger = (weights * self._larger_share).astype(np.int64)
        left_is_on = self._switches[level].words(intervals) >> np.uint64(63) == 1
        return np.where(left_is_on, larger, weights - larger)

    def _tuples_before(self, periods: Int64s, weight_before: Int64s) -> Int64s:
        # Rounded and floored products and quotients never decrease when a factor grows.
        begin = np.floor(periods * (self.rate * self.period_s))
        end = np.floor((periods + 1) * (self.rate * self.period_s))
        within = np.floor((end - begin) * (weight_before / _WEIGHT))
        before: Int64s = (begin + within).astype(np.int64)
        return before

    def _period_of(self, position: int) -> int:
        per_period = self.rate * self.period_s
        period = max(0, int(position / per_period) - 1)
        while math.floor((period + 1) * per_period) <= position:
            period += 1
        return period


def _both(left: Int64s, right: Int64s) -> Int64s:
    """Return the elements of both, one of each in turn."""
    return np.stack([left, right], axis=1).ravel()
