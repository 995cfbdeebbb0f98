"""Searches for the best of many settings without trying all of them.

Rates have one maximum over each setting (S3 Figure 5b, S1 Figure 6, S0 Figure 6b). So the search moves one setting
after the other to its best value, in wide steps first, until no move helps.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from semistream.core.errors import BudgetTooSmall
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.model import Prediction, Settings, model, predict

__all__ = ["SettingRange", "SettingSearch"]

_WIDEST_STEP = 8
_STEP_NEAR_A_GUESS = 2
_ROUNDS = 4

_Point = tuple[tuple[str, float], ...]


class SettingRange(NamedTuple):
    """The lowest and the highest value of a setting."""

    low: float
    high: float


class SettingSearch:
    """The settings of one algorithm with one memory; none is predicted twice.

    Parameters
    ----------
    proposed
        The settings to choose from; the model's proposals for this memory by default.
    guess
        Settings that are probably close to the best.

    Raises
    ------
    BudgetTooSmall
        When the algorithm cannot work with so little, whatever its settings.
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
        self._predictions: dict[_Point, Prediction | None] = {}
        self._first_step = _WIDEST_STEP
        start = _point(proposed[len(proposed) // 2])
        if guess is not None and _point(guess) in self._proposed:
            start, self._first_step = _point(guess), _STEP_NEAR_A_GUESS
        self._best = self._working(start)

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

    def best_at(self, arrivals_per_s: float | None) -> Prediction:
        """Return the prediction with the highest rate, with the times of tuples at an arrival rate."""
        best = self.best()
        if arrivals_per_s is None:
            return best
        return predict(self._name, self._case, self._memory_bytes, self._clock, self.settings, arrivals_per_s)

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
                    self._predictions[point] = predict(
                        self._name, self._case, self._memory_bytes, self._clock, dict(point)
                    )
        return self._predictions[point]

    @property
    def _at_best(self) -> Prediction:
        prediction = self._prediction(self._best)
        assert prediction is not None
        return prediction

    def _working(self, start: _Point) -> _Point:
        """Return a point to begin at: the one given if it fits the memory, or the first that does."""
        for point in (start, *sorted(self._proposed)):
            if self._prediction(point) is not None:
                return point
        predict(self._name, self._case, self._memory_bytes, self._clock, dict(start))  # raises as before
        raise AssertionError("settings fit that did not fit before")


def _point(settings: Settings) -> _Point:
    return tuple(sorted(settings.items()))
