"""What one stream has promised: its punctuated range, and which punctuations still wait to be used or passed on.

S4 ll. 580-584 and 595-607: the punctuation collection and the punctuated range PR of a stream.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.kernels.keys.code_ranges import CodeRanges
from semistream.kernels.keys.codes_in_run import follow_their_mark
from semistream.stream_joins.stream_snapshot import range_rows, ranges_of_rows
from semistream.stream_joins.unpassed import Unpassed, joined_ranges

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
        self._unpassed = Unpassed()

    @property
    def nbytes(self) -> int:
        unpurged = sum(lows.nbytes + highs.nbytes for lows, highs in self._unpurged)
        return self.punctuated.nbytes + unpurged + self._unpassed.nbytes

    @property
    def num_unpurged(self) -> int:
        """How many punctuations the other state has not been purged by."""
        return sum(lows.size for lows, _ in self._unpurged)

    @property
    def num_unpassed(self) -> int:
        """How many punctuations have not been passed on."""
        return len(self._unpassed)

    def add(self, lows: _Int64s, highs: _Int64s, *, pass_on: bool) -> None:
        """Take in punctuations."""
        if not lows.size:
            return
        self.punctuated.add(lows, highs)
        self._unpurged.append((lows, highs))
        if pass_on:
            self._unpassed.add(lows, highs)

    def take_unpurged(self) -> tuple[_Int64s, _Int64s]:
        """Return the ranges of all punctuations since the last time."""
        taken, self._unpurged = joined_ranges(self._unpurged), []
        return taken

    def unpassed(self) -> tuple[_Int64s, _Int64s]:
        """Return the ranges of all punctuations that have not been passed on."""
        return self._unpassed.ranges()

    def gone_from_state(self, codes: _Int64s | None) -> None:
        """Say that no tuple of the stream with one of these keys is in its state any more; None for any keys."""
        self._unpassed.gone_from_state(codes)

    def take_passable(self) -> tuple[_Int64s, _Int64s]:
        """Take out the punctuations not passed on of which it is not known that tuples in the state hold them back."""
        return self._unpassed.take_passable()

    def hold_back(self, lows: _Int64s, highs: _Int64s) -> None:
        """Put punctuations back: tuples in the state hold them back."""
        self._unpassed.hold_back(lows, highs)

    def give_up_unpassed(self) -> None:
        """Forget the punctuations that have not been passed on: none of them will be."""
        self._unpassed = Unpassed()

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

    def portions(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield all that `put_back` takes, for a snapshot."""
        kinds = {
            "punctuated": self.punctuated.ranges(),
            "unpurged": joined_ranges(self._unpurged),
            "unpassed": self._unpassed.ranges(),
        }
        for kind, (lows, highs) in kinds.items():
            if lows.size:
                yield kind, range_rows(lows, highs)

    def put_back(self, kind: str, rows: pa.RecordBatch) -> None:
        """Take over what another one has promised."""
        ranges = ranges_of_rows(rows)
        if kind == "punctuated":
            self.punctuated.add(*ranges)
        elif kind == "unpurged":
            self._unpurged.append(ranges)
        else:
            self._unpassed.add(*ranges)
