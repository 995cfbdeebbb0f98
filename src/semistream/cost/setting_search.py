"""Looks for the best of many settings without trying all: a coarse grid first, then around its best point.

Rates have one maximum over each setting (S3 figure 5b, S1 figure 6, S0 figure 6b), so that nothing better hides far
from the best of the grid.
"""

from collections.abc import Iterator
from typing import NamedTuple

from semistream.core.errors import BudgetTooSmall
from semistream.cost.clock import Clock
from semistream.cost.model import JoinCase, Prediction, Settings, model, predict

__all__ = ["Tried", "all_settings", "best_setting"]

_COARSE_STEP = 3


class Tried(NamedTuple):
    """Settings that were given to a model, and what it says of them."""

    given: Settings
    prediction: Prediction

    @property
    def tuples_per_s(self) -> float:
        return self.prediction.tuples_per_s


def best_setting(
    name: str, case: JoinCase, memory_bytes: int, clock: Clock, enough_tuples_per_s: float = float("inf")
) -> Tried:
    """Return the settings with the highest rate, or the first that are found to reach one that is enough.

    Raises
    ------
    BudgetTooSmall
        When the algorithm cannot work with so little, whatever its settings.
    """
    proposed = model(name).settings_to_try(case, memory_bytes) or [{}]
    places = _places(proposed)
    coarse = [settings for settings in proposed if all(places[at].coarse for at in settings.items())]
    best = _best(_tried(name, case, memory_bytes, clock, coarse), enough_tuples_per_s)
    if best is None:  # what fits may lie between the points of the grid
        best = _best(_tried(name, case, memory_bytes, clock, proposed), enough_tuples_per_s)
    elif best.tuples_per_s < enough_tuples_per_s:
        around = best
        near = [settings for settings in proposed if settings not in coarse and _is_near(settings, around, places)]
        best = _best(_tried(name, case, memory_bytes, clock, near), enough_tuples_per_s, best)
    if best is None:
        predict(name, case, memory_bytes, clock, proposed[0])  # raises what it raised before
    assert best is not None
    return best


def all_settings(name: str, case: JoinCase, memory_bytes: int, clock: Clock) -> list[Tried]:
    """Return what all settings lead to that the model proposes, those that do not fit left out."""
    return list(_tried(name, case, memory_bytes, clock, model(name).settings_to_try(case, memory_bytes) or [{}]))


class _Place(NamedTuple):
    number: int
    coarse: bool


def _places(proposed: list[dict[str, float]]) -> dict[tuple[str, float], _Place]:
    """Return where each value of a setting is in the order of its values, and whether it is on the grid."""
    places = {}
    for name in dict.fromkeys(name for settings in proposed for name in settings):
        values = sorted({settings[name] for settings in proposed if name in settings})
        for number, value in enumerate(values):
            places[name, value] = _Place(number, number % _COARSE_STEP == 0 or number == len(values) - 1)
    return places


def _is_near(settings: Settings, around: Tried, places: dict[tuple[str, float], _Place]) -> bool:
    return settings.keys() == around.given.keys() and all(
        abs(places[name, value].number - places[name, around.given[name]].number) < _COARSE_STEP
        for name, value in settings.items()
    )


def _tried(
    name: str, case: JoinCase, memory_bytes: int, clock: Clock, proposed: list[dict[str, float]]
) -> Iterator[Tried]:
    for settings in proposed:
        try:
            yield Tried(settings, predict(name, case, memory_bytes, clock, settings))
        except BudgetTooSmall:
            continue


def _best(tried: Iterator[Tried], enough_tuples_per_s: float, best: Tried | None = None) -> Tried | None:
    for each in tried:
        if best is None or each.tuples_per_s > best.tuples_per_s:
            best = each
        if best.tuples_per_s >= enough_tuples_per_s:
            break
    return best
