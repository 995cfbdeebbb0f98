"""Whose turn it is: stream scheduling (S4 ll. 404-434, 653-666).

Runs, not single tuples, are scheduled: a run of one stream is worked on at once.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from semistream.stream_joins.join_key import SIDES, Side, other

__all__ = [
    "GainScheduling",
    "PriorityScheduling",
    "RandomScheduling",
    "StreamOrder",
    "StreamScheduling",
    "stream_scheduling",
]

StreamOrder: TypeAlias = Literal["chosen", "random", "priority"]

_TRIED_AFTER = 4


class StreamScheduling(Protocol):
    """Decides from which queue the next run comes.

    Attributes
    ----------
    quota
        How many tuples are taken from one stream in a row; may be changed between runs.
    """

    quota: int

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        """Return a stream of which tuples or punctuations wait, or None when none does."""

    def run_rows(self, side: Side) -> int:
        """Return how many tuples the run may have."""

    def took(self, side: Side, rows: int) -> None:
        """Say how many were taken."""


class RandomScheduling:
    """Each stream with equal chance, in runs of one length."""

    def __init__(self, quota: int, seed: int) -> None:
        self.quota = quota
        self._random = np.random.default_rng(seed)

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        candidates = [side for side in SIDES if waiting[side]]
        if len(candidates) == 2:
            return SIDES[int(self._random.integers(2))]
        return candidates[0] if candidates else None

    def run_rows(self, side: Side) -> int:
        return self.quota

    def took(self, side: Side, rows: int) -> None:
        pass


class PriorityScheduling:
    """One stream first, up to its quota, then the other up to its own, and so on (ll. 653-666).

    While neither has used up its quota, the first one goes before.
    """

    def __init__(self, first: Side, quota: int) -> None:
        self._first = first
        self.quota = quota
        self._taken = [0, 0]

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        for side in (self._first, other(self._first)):
            if waiting[side] and self._taken[side] < self.quota:
                return side
        left = [side for side in (self._first, other(self._first)) if waiting[side]]
        if not left:
            return None
        self._taken[left[0]] = 0  # the other one is empty, and cannot use its turn
        return left[0]

    def run_rows(self, side: Side) -> int:
        return max(1, self.quota - self._taken[side])

    def took(self, side: Side, rows: int) -> None:
        self._taken[side] += max(1, rows)  # a punctuation alone is a turn as well
        if self._taken[side] >= self.quota:
            self._taken[other(side)] = 0


class GainScheduling:
    """Stays with a stream while its runs gain more than those of the other did, and changes at a tie.

    What a stream would gain is only known when it is tried: after four quotas of the other, it gets a quarter of one.

    Parameters
    ----------
    gain
        Returns what the tuples of a stream gained of late (see `semistream.stream_joins.cost_choice`).
    """

    def __init__(self, first: Side, quota: int, gain: Callable[[Side], float]) -> None:
        self.quota = quota
        self._current = first
        self._in_a_row = 0
        self._is_trial = False
        self._gain = gain

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        candidates = [side for side in SIDES if waiting[side]]
        if not candidates:
            return None
        opposite = other(self._current)
        self._is_trial = len(candidates) == 2 and self._in_a_row >= _TRIED_AFTER * self.quota
        gains_no_more = self._in_a_row > 0 and self._gain(self._current) <= self._gain(opposite)
        if len(candidates) == 1:
            self._turn_to(candidates[0])
        elif self._is_trial or gains_no_more:
            self._turn_to(opposite)
        return self._current

    def _turn_to(self, side: Side) -> None:
        if side != self._current:
            self._current, self._in_a_row = side, 0

    def run_rows(self, side: Side) -> int:
        return max(1, self.quota // _TRIED_AFTER) if self._is_trial else self.quota

    def took(self, side: Side, rows: int) -> None:
        self._in_a_row += max(1, rows)

    def state(self) -> list[Any]:
        """Return what `set_state` takes."""
        return [self._current, self._in_a_row, self._is_trial]

    def set_state(self, state: list[Any]) -> None:
        self._current, self._in_a_row, self._is_trial = SIDES[state[0]], state[1], state[2]


def stream_scheduling(
    order: StreamOrder, first: Side, quota: int, seed: int, gain: Callable[[Side], float]
) -> StreamScheduling:
    """Return the scheduling of a name."""
    if order == "priority":
        return PriorityScheduling(first, quota)
    return RandomScheduling(quota, seed) if order == "random" else GainScheduling(first, quota, gain)
