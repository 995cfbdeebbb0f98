"""What one stream has promised: its punctuated range, and which punctuations still wait to be used or passed on.

S4 ll. 585-605: the punctuation collection and the punctuated range PR of a stream.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.kernels.code_ranges import CodeRanges
from semistream.kernels.codes_in_run import follow_their_mark
from semistream.stream_joins.stream_snapshot import range_table, table_ranges

__all__ = ["Promises"]

_Bools = npt.NDArray[np.bool_]
_Int64s = npt.NDArray[np.int64]


class Promises:
    """The punctuations of one stream, as ranges of key codes.

    Attributes
    ----------
    punctuated
        The range PR: no key in it comes any more.
    """

    def __init__(self) -> None:
        self.punctuated = CodeRanges()
        self._unpurged: list[tuple[_Int64s, _Int64s]] = []
        self._unpassed: list[tuple[_Int64s, _Int64s]] = []

    @property
    def nbytes(self) -> int:
        waiting = (*self._unpurged, *self._unpassed)
        return self.punctuated.nbytes + sum(lows.nbytes + highs.nbytes for lows, highs in waiting)

    @property
    def num_unpurged(self) -> int:
        """How many punctuations the other state has not been purged by."""
        return sum(lows.size for lows, _ in self._unpurged)

    @property
    def num_unpassed(self) -> int:
        """How many punctuations have not been passed on."""
        return sum(lows.size for lows, _ in self._unpassed)

    def add(self, lows: _Int64s, highs: _Int64s, *, pass_on: bool) -> None:
        """Take in punctuations."""
        if not lows.size:
            return
        self.punctuated.add(lows, highs)
        self._unpurged.append((lows, highs))
        if pass_on:
            self._unpassed.append((lows, highs))

    def take_unpurged(self) -> tuple[_Int64s, _Int64s]:
        """Return the ranges of all punctuations since the last time."""
        taken, self._unpurged = _joined(self._unpurged), []
        return taken

    def unpassed(self) -> tuple[_Int64s, _Int64s]:
        """Return the ranges of all punctuations that have not been passed on."""
        return _joined(self._unpassed)

    def set_unpassed(self, lows: _Int64s, highs: _Int64s) -> None:
        """Say which of them remain."""
        self._unpassed = [(lows, highs)] if lows.size else []

    def contradicted(self, codes: _Int64s, at: _Int64s, lows: _Int64s, highs: _Int64s) -> _Bools:
        """Return which of some tuples are excluded by what was promised before them.

        Parameters
        ----------
        codes
            Of tuples that come now.
        at, lows, highs
            Punctuations among them, which are not taken in yet: each stands after ``at`` of the tuples.
        """
        wrong = self.punctuated.contains(codes)
        if not at.size:
            return wrong
        constant = lows == highs
        if constant.any():
            wrong |= follow_their_mark(codes, lows[constant], at[constant])
        for number in np.flatnonzero(~constant).tolist():
            after = codes[at[number] :]
            wrong[at[number] :] |= (after >= lows[number]) & (after <= highs[number])
        return wrong

    def tables(self) -> dict[str, pa.Table]:
        """Return all that `set_tables` takes, for a snapshot."""
        kinds = {
            "punctuated": self.punctuated.ranges(),
            "unpurged": _joined(self._unpurged),
            "unpassed": _joined(self._unpassed),
        }
        return {kind: range_table(*ranges) for kind, ranges in kinds.items()}

    def set_tables(self, tables: dict[str, pa.Table]) -> None:
        """Take over what another one has promised."""
        self.punctuated.add(*table_ranges(tables["punctuated"]))
        self._unpurged = [table_ranges(tables["unpurged"])]
        self._unpassed = [table_ranges(tables["unpassed"])]


def _joined(ranges: list[tuple[_Int64s, _Int64s]]) -> tuple[_Int64s, _Int64s]:
    empty = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([empty, *(lows for lows, _ in ranges)]),
        np.concatenate([empty, *(highs for _, highs in ranges)]),
    )
