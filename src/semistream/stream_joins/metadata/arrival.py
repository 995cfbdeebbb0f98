"""How a stream arrives, and the keys that are over because of it.

S4, section 4.3, implicit purging indications:

- any: none.
- clustered: the tuples of a key come one after the other; when another key comes, the one before is over.
- ascending, descending: when a key comes, all smaller (larger) ones are over.
"""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Bools, Int64s
from semistream.stream_joins.parts.part import Part

__all__ = ["Arrival", "ArrivalOrder", "Implied"]

Arrival: TypeAlias = Literal["any", "clustered", "ascending", "descending"]

_LIMITS = np.iinfo(np.int64)
_NONE = np.empty(0, dtype=np.int64)


class Implied(NamedTuple):
    """What a run says: which of its tuples do not come as they should, and which ranges of keys are over."""

    wrong: Bools
    lows: Int64s
    highs: Int64s


class ArrivalOrder(Part):
    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self._last: int | None = None

    def observe(self, codes: Int64s) -> Implied:
        """Look at the keys of a run, none of them NULL, none of them excluded by what was known before."""
        if self.arrival == "any" or not codes.size:
            return Implied(np.zeros(codes.size, dtype=np.bool_), _NONE, _NONE)
        return self._clusters(codes) if self.arrival == "clustered" else self._order(codes)

    def _clusters(self, codes: Int64s) -> Implied:
        starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
        values = codes[starts]
        wrong = np.zeros(codes.size, dtype=np.bool_)
        again = np.ones(values.size, dtype=np.bool_)
        again[np.unique(values, return_index=True)[1]] = False
        if self._last is not None:
            again[1:] |= values[1:] == self._last
        if again.any():
            wrong = np.repeat(again, np.diff(np.append(starts, codes.size)))
            values = values[~again]
        over = values[:-1]
        if self._last is not None and values[0] != self._last:
            over = np.append(self._last, over)
        self._last = int(values[-1])
        return Implied(wrong, over, over)

    def _order(self, codes: Int64s) -> Implied:
        ascends = self.arrival == "ascending"
        first = codes[0] if self._last is None else np.int64(self._last)
        furthest = (np.maximum if ascends else np.minimum).accumulate(np.append(first, codes))
        wrong = codes < furthest[:-1] if ascends else codes > furthest[:-1]
        self._last = int(furthest[-1])
        low, high = (_LIMITS.min, self._last - 1) if ascends else (self._last + 1, _LIMITS.max)
        if not _LIMITS.min <= low <= high <= _LIMITS.max:
            return Implied(wrong, _NONE, _NONE)
        return Implied(wrong, np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))

    def state(self) -> SavedState:
        return SavedState({"last": self._last})

    def set_state(self, saved: SavedState) -> None:
        self._last = saved.whole_number_or_none("last", _LIMITS.min, _LIMITS.max)
