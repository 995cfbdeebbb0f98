"""Times at which the tuples of a stream arrive: a constant rate, or the times of a workload."""

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument

__all__ = ["ArrivalTimes", "Arrivals", "arrivals_of"]

_TIMES_AT_ONCE = 1 << 16

_Floats = npt.NDArray[np.float64]


class ArrivalTimes(Protocol):
    """Times of arrival, as in `semistream.workloads.Bursts`."""

    def times_s(self, start: int, count: int) -> _Floats:
        """Return the seconds at which tuples ``start`` to ``start + count - 1`` arrive, ascending."""
        ...


class Arrivals(Protocol):
    """Arrivals as a replay needs them."""

    def arrival_s(self, tuple_number: int) -> float:
        """Return the time at which a tuple arrives."""
        ...

    def arrived(self, now_s: float, known: int) -> int:
        """Return how many tuples have arrived by now, at least ``known``."""
        ...

    def sum_s(self, start: int, count: int) -> float:
        """Return the sum of the times at which ``count`` tuples arrive."""
        ...


def arrivals_of(rate: float | ArrivalTimes) -> Arrivals:
    """Return arrivals at a constant rate, or at given times."""
    if isinstance(rate, int | float):
        return _Even(rate)
    if not callable(getattr(rate, "times_s", None)):
        raise InvalidArgument(f"rate={rate!r} is neither tuples per second nor has it times_s(start, count)")
    return _Timed(rate)


class _Even:
    """One tuple after the other, 1 / rate seconds apart."""

    def __init__(self, rate: float) -> None:
        if not 0 < rate < math.inf:
            raise InvalidArgument(f"rate={rate} must be a finite number of tuples per second above 0")
        self._interval_s = 1 / rate

    def arrival_s(self, tuple_number: int) -> float:
        return tuple_number * self._interval_s

    def arrived(self, now_s: float, known: int) -> int:
        # Rounding in the division must not leave an arrived tuple behind for ever.
        next_has = self.arrival_s(known) <= now_s
        return max(known + int(next_has), int(now_s / self._interval_s + 1e-9) + 1)

    def sum_s(self, start: int, count: int) -> float:
        return count * (self.arrival_s(start) + self.arrival_s(start + count - 1)) / 2


class _Timed:
    """Times asked for in blocks: a call costs as much as many of its results."""

    def __init__(self, times: ArrivalTimes) -> None:
        self._times = times
        self._start = 0
        self._block: _Floats = np.empty(0)

    def arrival_s(self, tuple_number: int) -> float:
        if not self._start <= tuple_number < self._start + self._block.size:
            self._start = tuple_number
            self._block = self._times.times_s(tuple_number, _TIMES_AT_ONCE)
        return float(self._block[tuple_number - self._start])

    def arrived(self, now_s: float, known: int) -> int:
        while self.arrival_s(known) <= now_s:
            known = self._start + int(np.searchsorted(self._block, now_s, side="right"))
        return known

    def sum_s(self, start: int, count: int) -> float:
        first = start - self._start
        if first >= 0 and first + count <= self._block.size:
            return float(self._block[first : first + count].sum())
        return float(self._times.times_s(start, count).sum())
