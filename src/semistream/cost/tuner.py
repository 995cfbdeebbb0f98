"""The tuner: the highest rate for a memory, the least memory for a rate, and how far settings may be off either.

N. Polyzotis et al., "Supporting Streaming Updates in an Active Data Warehouse" (S3), ll. 193-215, solve this for
MESHJOIN with calculus. Here it is a search that asks the model of any algorithm: over the settings that the model
proposes, and by bisection over the memory. The papers' advice to take a range of settings and no single point (S3
l. 209) is `good_range` and `good_range_for_rate`.
"""

import math
from typing import NamedTuple

import numpy as np

from semistream.core.budget import require_at_least
from semistream.core.errors import BudgetTooSmall, InvalidArgument, TargetOutOfReach
from semistream.core.sizes import format_bytes
from semistream.cost.clock import Clock
from semistream.cost.model import JoinCase, Prediction, Settings, model, predict
from semistream.cost.setting_search import Tried, all_settings, best_setting

__all__ = [
    "SettingRange",
    "good_range",
    "good_range_for_rate",
    "highest_rate",
    "least_budget",
    "least_memory",
]

_TOLERANCE = 0.01  # of the least memory
_LOOKS_ON_THE_WAY = 8  # memories to look at when the largest does not reach a rate
_MOST_TRIALS = 50


class SettingRange(NamedTuple):
    """From where to where a setting may lie."""

    low: float
    high: float


def highest_rate(
    name: str, case: JoinCase, memory_bytes: int, clock: Clock, arrivals_per_s: float | None = None
) -> Prediction:
    """Return what an algorithm does at its best with a memory (S3 ll. 211-215).

    Parameters
    ----------
    arrivals_per_s
        A rate to tell waiting and processing times for, if the join keeps up with it.

    Raises
    ------
    BudgetTooSmall
        When the algorithm cannot work with so little, whatever its settings.
    """
    best = best_setting(name, case, memory_bytes, clock)
    if arrivals_per_s is None:
        return best.prediction
    return predict(name, case, memory_bytes, clock, best.given, arrivals_per_s)


def least_memory(
    name: str, case: JoinCase, arrivals_per_s: float, clock: Clock, most_bytes: int | None = None
) -> Prediction:
    """Return what an algorithm does with the least memory that keeps up with a rate, to a hundredth (S3 ll. 193-209).

    Parameters
    ----------
    most_bytes
        The most that it may have: the size of the table unless given, with which the join could be one in memory.

    Raises
    ------
    TargetOutOfReach
        When even the most does not do.
    """
    if not arrivals_per_s > 0 or math.isinf(arrivals_per_s):
        raise InvalidArgument(f"rate={arrivals_per_s} must be above 0, and finite: give tuples per second")
    low = least_budget(name, case)
    high = max(low, case.table.num_bytes) if most_bytes is None else most_bytes
    require_at_least(high, low, name)
    search = _RateSearch(name, case, arrivals_per_s, clock)
    if search.reached(low):
        return search.at(low)
    if not search.reached(high):
        high = _reaching_memory(search, low, high)
    while high - low > max(1, low * _TOLERANCE):
        middle = round(math.sqrt(low * high))
        if middle in (low, high):
            break
        if search.reached(middle):
            high = middle
        else:
            low = middle
    return search.at(high)


def good_range(
    name: str, case: JoinCase, memory_bytes: int, clock: Clock, within: float = 0.05
) -> dict[str, SettingRange]:
    """Return, for each setting that can be chosen, where the rate is at most so much below the best (S3 l. 209).

    The other settings stay at their best. The range goes from the best setting as far as the rate is good throughout.
    """
    tried = all_settings(name, case, memory_bytes, clock)
    if not tried:
        highest_rate(name, case, memory_bytes, clock)  # raises
    best = max(tried, key=lambda each: each.tuples_per_s)
    return _ranges(tried, best, (1 - within) * best.tuples_per_s)


def good_range_for_rate(
    name: str, case: JoinCase, arrivals_per_s: float, clock: Clock, within: float = 0.05, most_bytes: int | None = None
) -> dict[str, SettingRange]:
    """Return, for each setting that can be chosen, where a rate needs at most so much more than the least memory.

    More memory never makes a setting slower, so these are the settings that reach the rate with so much more of it.
    """
    least = least_memory(name, case, arrivals_per_s, clock, most_bytes)
    tried = all_settings(name, case, int(least.budget_bytes * (1 + within)), clock)
    best = max(tried, key=lambda each: each.tuples_per_s)
    return _ranges(tried, best, arrivals_per_s)


def least_budget(name: str, case: JoinCase) -> int:
    """Return the least memory with which an algorithm can work at all, whatever its rate."""
    memory_bytes = 1
    for _ in range(_MOST_TRIALS):
        try:
            model(name).plan(case, memory_bytes, {})
        except BudgetTooSmall as error:
            memory_bytes = max(error.least_bytes or 0, memory_bytes + 1 if error.least_bytes else memory_bytes * 2)
        else:
            break
    return memory_bytes


class _RateSearch:
    """Tells whether a memory reaches a rate; settings that did so before are tried first."""

    def __init__(self, name: str, case: JoinCase, arrivals_per_s: float, clock: Clock) -> None:
        self.name, self.case, self.arrivals_per_s, self.clock = name, case, arrivals_per_s, clock
        self.highest_tuples_per_s = 0.0
        self._reaching: Settings | None = None

    def reached(self, memory_bytes: int) -> bool:
        try:
            if self._reaching is not None and self._reaches(self._reaching, memory_bytes):
                return True
            best = best_setting(self.name, self.case, memory_bytes, self.clock, self.arrivals_per_s)
        except BudgetTooSmall:
            return False
        self.highest_tuples_per_s = max(self.highest_tuples_per_s, best.tuples_per_s)
        if best.tuples_per_s < self.arrivals_per_s:
            return False
        self._reaching = best.given
        return True

    def _reaches(self, settings: Settings, memory_bytes: int) -> bool:
        try:
            prediction = predict(self.name, self.case, memory_bytes, self.clock, settings)
        except BudgetTooSmall:
            return False
        return prediction.tuples_per_s >= self.arrivals_per_s

    def at(self, memory_bytes: int) -> Prediction:
        best = highest_rate(self.name, self.case, memory_bytes, self.clock, self.arrivals_per_s)
        if best.tuples_per_s >= self.arrivals_per_s or self._reaching is None:
            return best
        return predict(self.name, self.case, memory_bytes, self.clock, self._reaching, self.arrivals_per_s)


def _reaching_memory(search: _RateSearch, low: int, high: int) -> int:
    """Return some memory between two that reaches the rate where the larger one does not, or raise."""
    for memory_bytes in np.geomspace(low, high, _LOOKS_ON_THE_WAY + 2)[-2:0:-1]:
        if search.reached(int(memory_bytes)):
            return int(memory_bytes)
    raise TargetOutOfReach(
        f"rate={search.arrivals_per_s:g} tuples/s is out of reach of {search.name} with up to {format_bytes(high)}: "
        f"it reaches {search.highest_tuples_per_s:,.0f} tuples/s; ask for less, or choose another algorithm",
        search.highest_tuples_per_s,
    )


def _ranges(tried: list[Tried], best: Tried, least_tuples_per_s: float) -> dict[str, SettingRange]:
    ranges = {}
    for setting in best.given:
        others = _without(best.given, setting)
        line = sorted(
            (each.given[setting], each.tuples_per_s >= least_tuples_per_s)
            for each in tried
            if setting in each.given and _without(each.given, setting) == others
        )
        values = [value for value, _ in line]
        low = high = values.index(best.given[setting])
        while low > 0 and line[low - 1][1]:
            low -= 1
        while high + 1 < len(line) and line[high + 1][1]:
            high += 1
        ranges[setting] = SettingRange(values[low], values[high])
    return ranges


def _without(settings: Settings, name: str) -> dict[str, float]:
    return {other: value for other, value in settings.items() if other != name}
