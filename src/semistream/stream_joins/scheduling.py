"""Whose turn it is: stream scheduling (S4 ll. 404-434, 653-666).

Runs, not single tuples, are scheduled: a run of one stream is worked on at once.
"""

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

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

_MOST_QUOTAS = 32


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
        candidates = [side for side in (self._first, other(self._first)) if waiting[side]]
        if not candidates:
            return None
        self._taken[candidates[0]] = 0  # the other one is empty, and cannot use its turn
        return candidates[0]

    def run_rows(self, side: Side) -> int:
        return max(1, self.quota - self._taken[side])

    def took(self, side: Side, rows: int) -> None:
        self._taken[side] += max(1, rows)  # a punctuation alone is a turn as well
        if self._taken[side] >= self.quota:
            self._taken[other(side)] = 0


class GainScheduling:
    """The stream whose next run gains more; at a tie, the one of which fewer tuples were taken.

    After so many tuples of one stream that gained more, the other has a turn all the same: none waits for ever.

    Parameters
    ----------
    gain
        Returns what the next run of a stream would gain, of at most so many tuples.
    """

    def __init__(self, first: Side, quota: int, gain: Callable[[Side, int], float]) -> None:
        self.quota = quota
        self._gain = gain
        self._first = first
        self._taken = [0, 0]
        self._last: Side = first
        self._in_a_row = 0

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        candidates = [side for side in (self._first, other(self._first)) if waiting[side]]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        if self._in_a_row >= _MOST_QUOTAS * self.quota:
            return other(self._last)
        gains = [self._gain(side, self.quota) for side in candidates]
        if gains[0] == gains[1]:
            return min(candidates, key=lambda side: self._taken[side])
        return candidates[0] if gains[0] > gains[1] else candidates[1]

    def run_rows(self, side: Side) -> int:
        return self.quota

    def took(self, side: Side, rows: int) -> None:
        self._in_a_row = max(1, rows) + (self._in_a_row if side == self._last else 0)
        self._last = side
        self._taken[side] += max(1, rows)

    def state(self) -> list[int]:
        """Return what `set_state` takes."""
        return [*self._taken, self._last, self._in_a_row]

    def set_state(self, state: list[int]) -> None:
        """Go on where another one was."""
        self._taken, self._last, self._in_a_row = state[:2], SIDES[state[2]], state[3]


def stream_scheduling(
    order: StreamOrder, first: Side, quota: int, seed: int, gain: Callable[[Side, int], float]
) -> StreamScheduling:
    """Return the scheduling of a name."""
    if order == "priority":
        return PriorityScheduling(first, quota)
    return RandomScheduling(quota, seed) if order == "random" else GainScheduling(first, quota, gain)
