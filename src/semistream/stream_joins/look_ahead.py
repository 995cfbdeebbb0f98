"""What the next run of a stream would gain, from a look at some of the tuples and punctuations that wait."""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.join_key import JoinKey, Side, other
from semistream.stream_joins.promises import Promises
from semistream.stream_joins.shared_state import SharedState

__all__ = ["Goal", "LookAhead"]

Goal: TypeAlias = Literal["output", "memory", "propagation"]

_LOOKED_AT = 128

_Bools = npt.NDArray[np.bool_]
_Int64s = npt.NDArray[np.int64]
_Counts = npt.NDArray[np.int32]


class LookAhead:
    """Looks at a queue as the state of the other stream is now; nothing is changed by it.

    Parameters
    ----------
    is_one
        Whether a key comes once, of the left and of the right stream.
    """

    def __init__(
        self,
        goal: Goal,
        key: JoinKey,
        state: SharedState,
        promises: tuple[Promises, Promises],
        is_one: tuple[bool, bool],
    ) -> None:
        self._goal = goal
        self._key = key
        self._state = state
        self._promises = promises
        self._is_one = is_one

    def gain(self, side: Side, batch: PunctuatedBatch, rows: int) -> float:
        """Return the gain to a tuple of the first ``rows`` ones: rows or punctuations that leave, or state that goes.

        Some of them, evenly spread, stand for all.
        """
        rows = min(rows, len(batch))
        keys = batch.rows.select([self._key.names[side]])
        codes = self._key.codes(side, keys.take(pa.array(_some(rows))))
        tuples = codes.code[codes.valid_rows()]
        found = self._state.by_key(other(side)).count(tuples)
        if self._goal == "output":
            return _mean(found)
        marks = int(np.searchsorted(batch.marks.at, rows, side="right"))
        promised = self._some_promised(batch, marks)
        per_tuple = marks / max(1, rows)
        if self._goal == "memory":
            kept = _mean(~self._is_dropped(side, tuples, found))
            removed = _mean(found) if self._is_one[side] else 0.0
            return removed - kept + per_tuple * _mean(self._state.by_key(other(side)).count(promised))
        in_other = self._state.by_key(other(side)).count(promised)
        is_alone = self._state.by_key(side).count(promised) == 0
        passed = _mean(is_alone & self._is_dropped(side, promised, in_other))
        freed = _mean(self._is_waited_for(side, promised, in_other))
        freed_by_tuples = _mean(self._is_waited_for(side, tuples, found)) if self._is_one[side] else 0.0
        return per_tuple * (passed + freed) + freed_by_tuples

    def _some_promised(self, batch: PunctuatedBatch, count: int) -> _Int64s:
        """Return keys that some of the first punctuations promise, those with one key each."""
        lows, highs = self._key.ranges(batch.marks.taken(_some(count)))
        constants: _Int64s = lows[lows == highs]
        return constants

    def _is_dropped(self, side: Side, codes: _Int64s, found: _Counts) -> _Bools:
        """Return which tuples would not stay: nothing that comes can match them."""
        dropped: _Bools = self._promises[other(side)].punctuated.contains(codes)
        return dropped | (found > 0) if self._is_one[other(side)] else dropped

    def _is_waited_for(self, side: Side, codes: _Int64s, found: _Counts) -> _Bools:
        """Return for which keys a punctuation of the other stream waits until its tuples have gone."""
        waited_for: _Bools = self._promises[other(side)].punctuated.contains(codes) & (found > 0)
        return waited_for


def _some(count: int) -> _Int64s:
    """Return some of the first numbers, evenly spread."""
    return np.arange(0, count, max(1, count // _LOOKED_AT), dtype=np.int64)


def _mean(values: npt.NDArray[np.generic]) -> float:
    return float(values.mean()) if values.size else 0.0
