"""The tuner: the highest rate for a memory, the least memory for a rate, and the range of good settings for either.

N. Polyzotis et al., "Supporting Streaming Updates in an Active Data Warehouse" (S3), section 3.2, "Tuning", solve this
for MESHJOIN with calculus. Here the model of any algorithm is searched: over the settings that it proposes, and by
bisection over the memory. The paper advises a range of b, not a single point (Figure 5): `good_range` and
`good_range_for_rate`.
"""

import math

import numpy as np

from semistream.core.budget import require_at_least
from semistream.core.errors import BudgetTooSmall, InvalidArgument, TargetOutOfReach
from semistream.core.sizes import format_bytes
from semistream.cost.advice.setting_search import SettingRange, SettingSearch
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.model import Prediction, Settings, model

__all__ = [
    "SettingRange",
    "good_range",
    "good_range_for_rate",
    "highest_rate",
    "least_budget",
    "least_memory",
]

_TOLERANCE = 0.01  # of the least memory
_MEMORIES_BETWEEN = 8  # to try when the largest does not reach a rate
_MOST_TRIALS = 50


def highest_rate(
    name: str, case: JoinCase, memory_bytes: int, clock: Clock, arrivals_per_s: float | None = None
) -> Prediction:
    """Return the prediction for an algorithm with its best settings for a memory (S3, "Maximizing mu").

    Parameters
    ----------
    arrivals_per_s
        A rate at which to tell waiting and processing times, if the join keeps up with it.

    Raises
    ------
    BudgetTooSmall
        When the algorithm cannot work with so little, whatever its settings.
    """
    return SettingSearch(name, case, memory_bytes, clock).best_at(arrivals_per_s)


def least_memory(
    name: str, case: JoinCase, arrivals_per_s: float, clock: Clock, most_bytes: int | None = None
) -> Prediction:
    """Return the prediction for the least memory that keeps up with a rate, to a hundredth (S3, "Minimizing M").

    Parameters
    ----------
    most_bytes
        The most memory; by default the size of the table, with which the join could be one in memory.

    Raises
    ------
    TargetOutOfReach
        When even the most is too little.
    """
    if not arrivals_per_s > 0 or math.isinf(arrivals_per_s):
        raise InvalidArgument(f"rate={arrivals_per_s} must be above 0, and finite: give tuples per second")
    low = least_budget(name, case)
    high = max(low, case.table.num_bytes) if most_bytes is None else most_bytes
    require_at_least(high, low, name)
    search = _RateSearch(name, case, arrivals_per_s, clock, model(name).settings_to_try(case, high))
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
    """Return, for each setting, the range in which the rate is at most ``within`` below the best.

    The other settings stay at their best.
    """
    search = SettingSearch(name, case, memory_bytes, clock)
    return search.good_range((1 - within) * search.best().tuples_per_s)


def good_range_for_rate(
    name: str, case: JoinCase, arrivals_per_s: float, clock: Clock, within: float = 0.05, most_bytes: int | None = None
) -> dict[str, SettingRange]:
    """Return, for each setting, the range in which a rate needs at most ``within`` more than the least memory.

    More memory never makes a setting slower, so these are the settings that reach the rate with so much more of it.
    """
    least = least_memory(name, case, arrivals_per_s, clock, most_bytes)
    return SettingSearch(name, case, int(least.budget_bytes * (1 + within)), clock).good_range(arrivals_per_s)


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
    """Tells whether a memory reaches a rate; the search for settings begins near those that were good before."""

    def __init__(
        self, name: str, case: JoinCase, arrivals_per_s: float, clock: Clock, proposed: list[dict[str, float]]
    ) -> None:
        self.name, self.case, self.arrivals_per_s, self.clock = name, case, arrivals_per_s, clock
        self.highest_tuples_per_s = 0.0
        self._proposed = proposed
        self._good: Settings | None = None

    def reached(self, memory_bytes: int) -> bool:
        try:
            search = self._settings_with(memory_bytes)
        except BudgetTooSmall:
            return False
        best = search.best(self.arrivals_per_s)
        self._good = search.settings
        self.highest_tuples_per_s = max(self.highest_tuples_per_s, best.tuples_per_s)
        return best.tuples_per_s >= self.arrivals_per_s

    def at(self, memory_bytes: int) -> Prediction:
        return self._settings_with(memory_bytes).best_at(self.arrivals_per_s)

    def _settings_with(self, memory_bytes: int) -> SettingSearch:
        return SettingSearch(self.name, self.case, memory_bytes, self.clock, self._proposed, self._good)


def _reaching_memory(search: _RateSearch, low: int, high: int) -> int:
    """Return some memory between two that reaches the rate where the larger one does not, or raise."""
    for memory_bytes in np.geomspace(low, high, _MEMORIES_BETWEEN + 2)[-2:0:-1]:
        if search.reached(int(memory_bytes)):
            return int(memory_bytes)
    raise TargetOutOfReach(
        f"rate={search.arrivals_per_s:g} tuples/s is out of reach of {search.name} with up to {format_bytes(high)}: "
        f"it reaches {search.highest_tuples_per_s:,.0f} tuples/s; ask for less, or choose another algorithm",
        search.highest_tuples_per_s,
    )
