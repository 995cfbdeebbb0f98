"""Searches the least memory with which a measured rate reaches a target."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from semistream.core.errors import BudgetTooSmall

__all__ = ["LeastMemory", "MemorySearch"]

_LARGEST_STEP = 8.0  # from one budget to the next while the target is not between two of them
_NARROW = 1.05  # budgets that are as close as this are not divided further
_BEYOND = 1.1  # a budget at which the target is expected is passed by as much, so that it lies between two


@dataclass(frozen=True)
class LeastMemory:
    """What a search found."""

    memory_bytes: float  # with which the rate is reached, between measured budgets by interpolation
    is_reached: bool  # otherwise ``memory_bytes`` is the largest budget that was tried
    is_least: bool  # less memory is not enough for the join to work at all: the target is reached with ease
    measured: dict[int, float]  # the rates that it was found from, by budget


class MemorySearch:
    """Measures rates at budgets of its choice; what was measured for one target serves for the next.

    ``rate_of`` returns the rate with a budget in bytes, which grows with the budget, or raises `BudgetTooSmall`. The
    search begins at ``first_bytes`` and ends with ``most_bytes``, with a rate that is off by ``tolerance`` of the
    target, or after ``most_runs``.
    """

    def __init__(
        self,
        rate_of: Callable[[int], float],
        first_bytes: int,
        most_bytes: int,
        tolerance: float = 0.03,
        most_runs: int = 6,
    ) -> None:
        self._rate_of = rate_of
        self._first_bytes = min(first_bytes, most_bytes)
        self._most_bytes = most_bytes
        self._tolerance = tolerance
        self._most_runs = most_runs
        self._rates: dict[int, float] = {}
        self._too_small = 0  # the largest budget that the join could not work with

    def find(self, target: float, guess_bytes: int | None = None) -> LeastMemory:
        """Return the least memory for a rate; ``guess_bytes`` is where it may be, such as a model says."""
        for run in range(self._most_runs):
            budget = self._next(target)
            if budget is None:
                break
            if run == 0 and guess_bytes is not None and guess_bytes not in self._rates:
                budget = min(max(guess_bytes, self._too_small + 1), self._most_bytes)
            self._measure(budget)
        return self._found(target)

    def _measure(self, budget: int) -> None:
        try:
            self._rates[budget] = self._rate_of(budget)
        except BudgetTooSmall:
            self._too_small = max(self._too_small, budget)

    def _around(self, target: float) -> tuple[int | None, int | None]:
        """Return the largest budget that is not enough, and the smallest above it that is."""
        enough = [budget for budget, rate in self._rates.items() if rate >= target]
        high = min(enough, default=None)
        low = max(
            (budget for budget in self._rates if budget not in enough and (not high or budget < high)), default=None
        )
        return low, high

    def _next(self, target: float) -> int | None:
        """Return the budget to measure next; None when what was measured is enough."""
        if not self._rates:
            return self._first_bytes if self._first_bytes > self._too_small else self._grown(self._too_small, math.inf)
        if any(abs(rate / target - 1) <= self._tolerance for rate in self._rates.values()):
            return None
        low, high = self._around(target)
        if high is None:
            assert low is not None
            return self._grown(low, _BEYOND * target / max(self._rates[low], target / _LARGEST_STEP))
        if low is not None:
            return None if high <= low * _NARROW else self._interpolated(low, high, target)
        if high <= self._too_small * _NARROW:
            return None
        lower = int(high * max(1 / _LARGEST_STEP, target / self._rates[high] / _BEYOND))
        return lower if lower > self._too_small else int(math.sqrt(self._too_small * high))

    def _grown(self, budget: int, factor: float) -> int | None:
        grown = min(self._most_bytes, math.ceil(budget * min(_LARGEST_STEP, max(_NARROW, factor))))
        return None if grown <= budget else grown

    def _interpolated(self, low: int, high: int, target: float) -> int | None:
        """Return the budget between two at which the rate would be reached on a straight line in logarithms."""
        least, most = self._rates[low], self._rates[high]
        share = math.log(target / least) / math.log(most / least) if least > 0 else 0.5
        between = round(low * (high / low) ** min(0.95, max(0.05, share)))
        return between if low < between < high else None

    def _found(self, target: float) -> LeastMemory:
        measured = dict(sorted(self._rates.items()))
        low, high = self._around(target)
        if high is None:
            largest = max(self._rates, default=self._too_small)
            close = self._rates.get(largest, 0.0) >= target * (1 - self._tolerance)
            return LeastMemory(float(largest), close, False, measured)
        if low is None:
            return LeastMemory(float(high), True, bool(self._too_small), measured)
        least, most = self._rates[low], self._rates[high]
        share = math.log(target / least) / math.log(most / least) if 0 < least < most else 1.0
        return LeastMemory(low * (high / low) ** share, True, False, measured)
