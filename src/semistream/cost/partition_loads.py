"""How often partitions of R are read for the stream tuples that wait for them: what models of HYBRIDJOIN share.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1), ll. 727-815.

Time is counted in tuples that enter the window. Partition p is asked for by a tuple with probability λ_p. When it has
been read, nobody waits for it. Its next tuple comes 1/λ_p later on average, grows old, and at the age T it is the
oldest of the window and has p read, for itself and for all that came meanwhile::

    read ──── 1/λ_p ────► first tuple ──────────── T ────────────► it is the oldest: read
                              └ others of p gather, λ_p T of them ┘

So a turn of p takes 1/λ_p + T. Per tuple that enters there are Σ λ_p / (1 + λ_p T) reads, and
Σ λ_p (T + λ_p T² / 2) / (1 + λ_p T) tuples wait. T is the one for which as many wait as the window holds, or for
which the disk reads as fast as it can.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semistream.cost.model import Times
from semistream.cost.part_rates import PartRates

__all__ = ["PartitionLoads", "increasing_root", "times_between_loads"]

_HALVINGS = 200


def increasing_root(excess: Callable[[float], float], high: float) -> float:
    """Return where an increasing function of a number above 0 becomes 0; ``high`` is a first guess of an upper bound.

    Examples
    --------
    >>> round(increasing_root(lambda x: x * x - 2, high=1.0), 6)
    1.414214
    """
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


@dataclass(frozen=True)
class PartitionLoads:
    """Reads of partitions whose oldest waiting tuple is ``oldest_tuples`` old when it has its partition read.

    Attributes
    ----------
    rates
        λ_p: how often a tuple asks for each partition.
    oldest_tuples
        T: how many tuples enter the window while its oldest tuple waits.

    Examples
    --------
    >>> import numpy as np

    Of four partitions one is read for every tuple that enters, when none may wait:

    >>> rates = PartRates(np.array([0.25]), np.array([4.0]))
    >>> PartitionLoads(rates, 0.0).per_tuple
    1.0

    A window for 100 tuples gathers 40 for each read: 30, 20 and 10 wait for the others then:

    >>> round(1 / PartitionLoads.of_window(rates, 100).per_tuple)
    40
    """

    rates: PartRates
    oldest_tuples: float

    @staticmethod
    def of_window(rates: PartRates, window_tuples: float) -> "PartitionLoads":
        """Return the reads of a join whose window of so many tuples is always full when it reads."""

        def excess(oldest_tuples: float) -> float:
            loads = PartitionLoads(rates, oldest_tuples)
            # A read frees the places of its tuples, and they fill again: the window lacks half of them on average.
            return loads.waiting + 0.5 / loads.per_tuple - window_tuples

        if excess(0.0) >= 0:
            return PartitionLoads(rates, 0.0)
        return PartitionLoads(rates, increasing_root(excess, max(1.0, window_tuples)))

    @staticmethod
    def of_speed(rates: PartRates, loads_per_tuple: float) -> "PartitionLoads":
        """Return the reads of a join that reads all the time, so often for each tuple that arrives."""
        if loads_per_tuple >= 1:
            return PartitionLoads(rates, 0.0)
        return PartitionLoads(
            rates, increasing_root(lambda oldest: loads_per_tuple - PartitionLoads(rates, oldest).per_tuple, 1.0)
        )

    @property
    def per_tuple(self) -> float:
        """Reads for each tuple that enters the window; the papers' w is one divided by it."""
        rate = self.rates.rate
        return self.rates.total(rate / (1 + rate * self.oldest_tuples))

    @property
    def waiting(self) -> float:
        """How many tuples wait on average."""
        own = self.rates.rate * self.oldest_tuples
        return self.rates.total(own * (1 + own / 2) / (1 + own))


def times_between_loads(rates: PartRates, loop_s: float, arrivals_per_s: float, cached_share: float = 0.0) -> Times:
    """Return the times of tuples when one partition after the other is read, in ``loop_s`` each.

    Parameters
    ----------
    rates
        λ_p of the tuples that no cache answers.
    cached_share
        Of the tuples that arrive; they are answered at the end of the loop that they enter.
    """
    to_disk_per_s = arrivals_per_s * (1 - cached_share)
    if not to_disk_per_s:
        return Times(0.0, 0.0)
    loads = PartitionLoads.of_speed(rates, 1 / (to_disk_per_s * loop_s))
    # Little's law. A tuple that comes in mid-loop waits outside for its end, and is answered at the end of another.
    in_window_s = loads.waiting / to_disk_per_s + loop_s / 2
    busy_share = min(1.0, to_disk_per_s * loop_s)
    return Times(
        waiting_s=busy_share * loop_s / 2,
        processing_s=cached_share * loop_s + (1 - cached_share) * max(loop_s, in_window_s),
    )
