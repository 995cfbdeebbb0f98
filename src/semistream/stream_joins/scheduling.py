"""Whose turn it is: stream scheduling (S4 ll. 404-434, 653-666).

Runs, not single tuples, are scheduled: a run of one stream is worked on at once.
"""

from typing import Protocol

import numpy as np

from semistream.stream_joins.join_key import SIDES, Side, other

__all__ = ["PriorityScheduling", "RandomScheduling", "StreamScheduling"]


class StreamScheduling(Protocol):
    """Decides from which queue the next run comes."""

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        """Return a stream of which tuples or punctuations wait, or None when none does."""

    def run_rows(self, side: Side) -> int:
        """Return how many tuples the run may have."""

    def took(self, side: Side, rows: int) -> None:
        """Say how many were taken."""


class RandomScheduling:
    """Each stream with equal chance, in runs of one length."""

    def __init__(self, run_rows: int, seed: int) -> None:
        self._run_rows = run_rows
        self._random = np.random.default_rng(seed)

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        candidates = [side for side in SIDES if waiting[side]]
        if len(candidates) == 2:
            return SIDES[int(self._random.integers(2))]
        return candidates[0] if candidates else None

    def run_rows(self, side: Side) -> int:
        return self._run_rows

    def took(self, side: Side, rows: int) -> None:
        pass


class PriorityScheduling:
    """One stream first, up to its quota, then the other up to its own, and so on (ll. 653-666).

    While neither has used up its quota, the first one goes before.
    """

    def __init__(self, first: Side, quota: int) -> None:
        self._first = first
        self._quota = quota
        self._taken = [0, 0]

    def next_side(self, waiting: tuple[int, int]) -> Side | None:
        for side in (self._first, other(self._first)):
            if waiting[side] and self._taken[side] < self._quota:
                return side
        left = [side for side in (self._first, other(self._first)) if waiting[side]]
        if not left:
            return None
        self._taken[left[0]] = 0  # the other one is empty, and cannot use its turn
        return left[0]

    def run_rows(self, side: Side) -> int:
        return self._quota - self._taken[side]

    def took(self, side: Side, rows: int) -> None:
        self._taken[side] += max(1, rows)  # a punctuation alone is a turn as well
        if self._taken[side] >= self._quota:
            self._taken[other(side)] = 0
