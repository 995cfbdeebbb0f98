"""The tuner: the highest rate for a memory, the least memory for a rate, and the range of good settings for either.

N. Polyzotis et al., "Supporting Streaming Updates in an Active Data Warehouse" (S3), section 3.2, "Tuning", solve this
for MESHJOIN with calculus. Here the model of any algorithm is searched: over the settings that it proposes, and by
bisection over the memory. The paper advises a range of b, not a single point (Figure 5): `SettingSearch.good_range`.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from semistream.core.budget import require_at_least
from semistream.core.errors import BudgetTooSmall, InvalidArgument, TargetOutOfReach
from semistream.core.sizes import format_bytes
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.model import Prediction, Settings, model, predict

__all__ = ["SettingRange", "SettingSearch", "highest_rate", "least_budget", "least_memory"]

_TOLERANCE = 0.01  # of the least memory
_MEMORIES_BETWEEN = 8  # to try when the largest does not reach a rate
_MOST_TRIALS = 50
_WIDEST_STEP = 8
_STEP_NEAR_A_GUESS = 2
_ROUNDS = 4

_Point = tuple[tuple[str, float], ...]


def highest_rate(name: str, case: JoinCase, memory_bytes: int, clock: Clock) -> Prediction:
    """Return the prediction for an algorithm with its best settings for a memory (S3, "Maximizing mu")."""
    return SettingSearch(name, case, memory_bytes, clock).best()


def least_memory(
    name: str, case: JoinCase, arrivals_per_s: float, clock: Clock, most_bytes: int | None = None
) -> Prediction:
    """Return the prediction for the least memory that keeps up with a rate, to a hundredth (S3, "Minimizing M").

    Raises `TargetOutOfReach` when even the most is too little: by default the size of the table, with which the join
    could be one in memory.
    """
    if not arrivals_per_s > 0 or math.isinf(arrivals_per_s):
        raise InvalidArgument(f"rate={arrivals_per_s} must be above 0, and finite: give tuples per second")
    low = least_budget(name, case)
    high = most = max(low, case.table.num_bytes) if most_bytes is None else most_bytes
    require_at_least(high, low, name)
    proposed = model(name).settings_to_try(case, high)
    good: Settings | None = None  # the search begins near settings that were good before
    highest_tuples_per_s = 0.0

    def reached(memory_bytes: int) -> bool:
        nonlocal good, highest_tuples_per_s
        try:
            search = SettingSearch(name, case, memory_bytes, clock, proposed, good)
        except BudgetTooSmall:
            return False
        found = search.best(arrivals_per_s).tuples_per_s
        good, highest_tuples_per_s = search.settings, max(highest_tuples_per_s, found)
        return found >= arrivals_per_s

    if reached(low):
        high = low
    elif not reached(high):
        between = np.geomspace(low, high, _MEMORIES_BETWEEN + 2)[-2:0:-1]
        high = next((int(memory_bytes) for memory_bytes in between if reached(int(memory_bytes))), 0)
    if not high:
        raise TargetOutOfReach(
            f"rate={arrivals_per_s:g} tuples/s is out of reach of {name} with up to {format_bytes(most)}: "
            f"it reaches {highest_tuples_per_s:,.0f} tuples/s; ask for less, or choose another algorithm",
            highest_tuples_per_s,
        )
    while high - low > max(1, low * _TOLERANCE):
        middle = round(math.sqrt(low * high))
        if middle in (low, high):
            break
        low, high = (low, middle) if reached(middle) else (middle, high)
    return SettingSearch(name, case, high, clock, proposed, good).best().at(arrivals_per_s)


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


class SettingRange(NamedTuple):
    """The lowest and the highest value of a setting."""

    low: float
    high: float


class SettingSearch:
    """Searches for the best settings of one algorithm with one memory, without trying all of them.

    Rates have one maximum over each setting (S3 Figure 5b, S1 Figure 6, S0 Figure 6b). So the search moves one setting
    after the other to its best value, in wide steps first, until no move helps. ``guess`` is probably close to the best
    of the ``proposed`` settings, which are the model's by default.

    Raises `BudgetTooSmall` when the algorithm cannot work with so little, whatever its settings.
    """

    def __init__(
        self,
        name: str,
        case: JoinCase,
        memory_bytes: int,
        clock: Clock,
        proposed: list[dict[str, float]] | None = None,
        guess: Settings | None = None,
    ) -> None:
        self._name, self._case, self._memory_bytes, self._clock = name, case, memory_bytes, clock
        if proposed is None:
            proposed = model(name).settings_to_try(case, memory_bytes)
        proposed = proposed or [{}]
        self._proposed = {_point(settings) for settings in proposed}
        self._values = {
            name: sorted({settings[name] for settings in proposed if name in settings})
            for name in dict.fromkeys(name for settings in proposed for name in settings)
        }
        self._predictions: dict[_Point, Prediction | None] = {}  # none is predicted twice
        self._first_step = _WIDEST_STEP
        start = _point(proposed[len(proposed) // 2])
        if guess is not None and _point(guess) in self._proposed:
            start, self._first_step = _point(guess), _STEP_NEAR_A_GUESS
        fitting = (point for point in (start, *sorted(self._proposed)) if self._prediction(point) is not None)
        self._best = next(fitting, start)
        if self._prediction(self._best) is None:
            self._predict(start)  # raises as before

    def best(self, enough_tuples_per_s: float = float("inf")) -> Prediction:
        """Return the prediction with the highest rate, or the first that reaches ``enough_tuples_per_s``."""
        for _ in range(_ROUNDS):
            before = self._best
            for name, _ in before:
                for _ in self._steps_along(name):
                    if self._rate(self._best) >= enough_tuples_per_s:
                        return self._at_best
            if self._best == before:
                break
        return self._at_best

    @property
    def settings(self) -> dict[str, float]:
        """The best settings so far, as they were given to the model."""
        return dict(self._best)

    def good_range(self, least_tuples_per_s: float) -> dict[str, SettingRange]:
        """Return, for each setting, the range around its best value with at least this rate."""
        self.best()
        ranges = {}
        for name, value in self._best:
            values = self._values[name]
            low = high = values.index(value)
            while low > 0 and self._rate(self._moved(name, low - 1)) >= least_tuples_per_s:
                low -= 1
            while high + 1 < len(values) and self._rate(self._moved(name, high + 1)) >= least_tuples_per_s:
                high += 1
            ranges[name] = SettingRange(values[low], values[high])
        return ranges

    def _steps_along(self, name: str) -> Iterator[None]:
        """Move one setting of the best point to its best value: wider steps after a gain, else smaller ones."""
        count = len(self._values[name])
        if self._first_step == _WIDEST_STEP:
            for place in range(0, count, _WIDEST_STEP):
                self._try(self._moved(name, place))
                yield
        step = min(self._first_step, _WIDEST_STEP // 2)
        while step:
            before = self._best
            at = self._values[name].index(dict(before)[name])
            for place in (at - step, at + step):
                if 0 <= place < count:
                    self._try(self._moved(name, place))
                    yield
            step = step // 2 if self._best == before else step * 2

    def _try(self, point: _Point) -> None:
        if self._rate(point) > self._rate(self._best):
            self._best = point

    def _moved(self, name: str, place: int) -> _Point:
        return tuple((other, self._values[name][place] if other == name else value) for other, value in self._best)

    def _rate(self, point: _Point) -> float:
        prediction = self._prediction(point)
        return 0.0 if prediction is None else prediction.tuples_per_s

    def _prediction(self, point: _Point) -> Prediction | None:
        if point not in self._predictions:
            self._predictions[point] = None
            if point in self._proposed:
                with suppress(BudgetTooSmall):
                    self._predictions[point] = self._predict(point)
        return self._predictions[point]

    def _predict(self, point: _Point) -> Prediction:
        return predict(self._name, self._case, self._memory_bytes, self._clock, dict(point))

    @property
    def _at_best(self) -> Prediction:
        prediction = self._prediction(self._best)
        assert prediction is not None
        return prediction


def _point(settings: Settings) -> _Point:
    return tuple(sorted(settings.items()))
