"""Stream scheduling (S4, section 4.1): the stream of the next run, and how long the run is.

Runs, not single tuples, are scheduled: a run of one stream is worked on at once.
"""

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int64s
from semistream.stream_joins.metadata.punctuations import Punctuations
from semistream.stream_joins.parts.join_key import SIDES, Side, other
from semistream.stream_joins.parts.memory_state import MemoryState
from semistream.stream_joins.parts.part import Part
from semistream.stream_joins.parts.queues import InputQueues

__all__ = ["GrowthScheduling", "PriorityScheduling", "RandomScheduling", "StreamOrder", "StreamScheduling"]

StreamOrder: TypeAlias = Literal["chosen", "random", "priority"]

_MOST_QUOTAS = 32
_SAMPLE = 128


class StreamScheduling(Part, ABC):
    """Decides from which queue the next run comes. ``quota`` is how many tuples one stream may give in a row."""

    @abstractmethod
    def next_side(self, waiting: tuple[Side, ...], quota: int) -> Side | None:
        """Return one of the streams that wait, or None when none does."""

    def run_rows(self, side: Side, quota: int) -> int:
        return quota

    def record_taken(self, side: Side, rows: int, quota: int) -> None:
        """Note how many were taken."""


class RandomScheduling(StreamScheduling):
    """Each stream with equal chance, in runs of one length (S4, section 4.1)."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def next_side(self, waiting: tuple[Side, ...], quota: int) -> Side | None:
        if len(waiting) == 2:
            return SIDES[int(self._random.integers(2))]
        return waiting[0] if waiting else None

    def state(self) -> SavedState:
        return SavedState({"random": self._random.bit_generator.state})

    def set_state(self, saved: SavedState) -> None:
        if "random" in saved.header:
            self._random.bit_generator.state = saved.header["random"]


class PriorityScheduling(StreamScheduling):
    """One stream first, up to its quota, then the other up to its own, and so on (S4, section 5.3).

    While neither has used up its quota, the first one goes before.
    """

    def __init__(self, first: Side) -> None:
        self._order = (first, other(first))
        self._taken = [0, 0]

    def next_side(self, waiting: tuple[Side, ...], quota: int) -> Side | None:
        candidates = [side for side in self._order if side in waiting]
        for side in candidates:
            if self._taken[side] < quota:
                return side
        if not candidates:
            return None
        self._taken[candidates[0]] = 0  # the other one is empty, and cannot use its turn
        return candidates[0]

    def run_rows(self, side: Side, quota: int) -> int:
        return max(1, quota - self._taken[side])

    def record_taken(self, side: Side, rows: int, quota: int) -> None:
        self._taken[side] += max(1, rows)  # a punctuation alone is a turn as well
        if self._taken[side] >= quota:
            self._taken[other(side)] = 0

    def state(self) -> SavedState:
        return SavedState({"taken": self._taken})

    def set_state(self, saved: SavedState) -> None:
        if "taken" in saved.header:
            self._taken = saved.whole_numbers("taken", len(SIDES))


class GrowthScheduling(StreamScheduling):
    """The stream whose next run lets the state grow less; at a tie, the one of which fewer tuples were taken.

    A look at some of the tuples and punctuations in the queue says how much that is. After so many tuples of one
    stream, the other has a turn all the same: none waits for ever. ``is_one`` says in which streams a key comes once.
    """

    def __init__(
        self,
        first: Side,
        queues: InputQueues,
        state: MemoryState,
        punctuations: Punctuations,
        is_one: tuple[bool, bool],
    ) -> None:
        self._order = (first, other(first))
        self._queues = queues
        self._state = state
        self._punctuations = punctuations
        self._is_one = is_one
        self._taken = [0, 0]
        self._last: Side = first
        self._in_a_row = 0

    def next_side(self, waiting: tuple[Side, ...], quota: int) -> Side | None:
        if len(waiting) < 2:
            return waiting[0] if waiting else None
        if self._in_a_row >= _MOST_QUOTAS * quota:
            return other(self._last)
        return min(self._order, key=lambda side: (self._growth(side, quota), self._taken[side]))

    def record_taken(self, side: Side, rows: int, quota: int) -> None:
        self._in_a_row = max(1, rows) + (self._in_a_row if side == self._last else 0)
        self._last = side
        self._taken[side] += max(1, rows)

    def _growth(self, side: Side, rows: int) -> float:
        """Return by how much a tuple of the next run lets the state grow; some, evenly spread, stand for all."""
        batch = self._queues[side].first
        rows = min(rows, len(batch))
        key = self._state.key
        keys = batch.rows.select([key.names[side]])
        codes = key.codes(side, keys.take(pa.array(_some(rows)))).valid_codes()
        opposite = self._state.by_key(other(side))
        found = opposite.count(codes)
        is_dropped = self._punctuations[other(side)].range.contains(codes)
        if self._is_one[other(side)]:
            is_dropped |= found > 0
        removed = _mean(found) if self._is_one[side] else 0.0
        marks = int(np.searchsorted(batch.marks.at, rows, side="right"))
        lows, highs = key.ranges(batch.marks.taken(_some(marks)))
        purged = marks / max(1, rows) * _mean(opposite.count(lows[lows == highs]))
        return _mean(~is_dropped) - removed - purged

    def state(self) -> SavedState:
        return SavedState({"taken": self._taken, "last": self._last, "in_a_row": self._in_a_row})

    def set_state(self, saved: SavedState) -> None:
        if "in_a_row" in saved.header:
            self._taken = saved.whole_numbers("taken", len(SIDES))
            self._last = SIDES[saved.whole_number("last", 0, len(SIDES) - 1)]
            self._in_a_row = saved.whole_number("in_a_row")


def _some(count: int) -> Int64s:
    """Return some of the first numbers, evenly spread."""
    return np.arange(0, count, max(1, count // _SAMPLE), dtype=np.int64)


def _mean(values: npt.NDArray[np.generic]) -> float:
    return float(values.mean()) if values.size else 0.0
