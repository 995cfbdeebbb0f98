"""The punctuations of a stream that have not been passed on, and which of them are worth asking about.

A punctuation of one key is held back by tuples of its stream in the state. When it has been found to be, it is not
asked about again until tuples of its key have left: there may be many more of them than leave at a time.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.keys.codes_in_run import follow_their_mark

__all__ = ["Unpassed", "joined_ranges"]

_Int64s = npt.NDArray[np.int64]

_MOST_NESTED = 64
_NONE = np.empty(0, dtype=np.int64)


def joined_ranges(ranges: list[tuple[_Int64s, _Int64s]]) -> tuple[_Int64s, _Int64s]:
    """Return ranges of codes in one piece."""
    if len(ranges) == 1:
        return ranges[0]
    return (
        np.concatenate([_NONE, *(lows for lows, _ in ranges)]),
        np.concatenate([_NONE, *(highs for _, highs in ranges)]),
    )


class Unpassed:
    """Ranges of key codes.

    Examples
    --------
    >>> unpassed = Unpassed()
    >>> unpassed.add(np.array([3, 5]), np.array([3, 5]))
    >>> unpassed.hold_back(*unpassed.take_passable())
    >>> unpassed.gone_from_state(np.array([5, 8]))
    >>> unpassed.take_passable()[0].tolist(), len(unpassed)
    ([5], 1)
    """

    def __init__(self) -> None:
        self._new: list[tuple[_Int64s, _Int64s]] = []
        self._held_back = _NONE  # keys; what holds a range back is not known, so that it stays new
        self._gone_from_state: list[_Int64s] = []

    def __len__(self) -> int:
        return sum(lows.size for lows, _ in self._new) + self._held_back.size

    @property
    def nbytes(self) -> int:
        new = sum(lows.nbytes + highs.nbytes for lows, highs in self._new)
        return new + self._held_back.nbytes + sum(codes.nbytes for codes in self._gone_from_state)

    def add(self, lows: _Int64s, highs: _Int64s) -> None:
        """Take in punctuations."""
        if lows.size:
            self._new.append((lows, highs))

    def ranges(self) -> tuple[_Int64s, _Int64s]:
        """Return all of them."""
        return joined_ranges([(self._held_back, self._held_back), *self._new])

    def gone_from_state(self, codes: _Int64s | None) -> None:
        """Say that no tuple with one of these keys is in the state any more; None for any keys."""
        if codes is None or codes.size + sum(some.size for some in self._gone_from_state) > self._held_back.size:
            # As many as are held back: then all are asked about, and nothing needs to be remembered.
            self.add(self._held_back, self._held_back)
            self._held_back, self._gone_from_state = _NONE, []
        else:
            self._gone_from_state.append(codes)

    def take_passable(self) -> tuple[_Int64s, _Int64s]:
        """Take out those that may be passed on: the new ones, and those of keys that have left the state."""
        if self._gone_from_state:
            gone = np.concatenate(self._gone_from_state)
            may_pass = follow_their_mark(self._held_back, gone, np.zeros(gone.size, dtype=np.int64))
            passable = self._held_back[may_pass]
            self.add(passable, passable)
            self._held_back, self._gone_from_state = self._held_back[~may_pass], []
        taken, self._new = joined_ranges(self._new), []
        return taken

    def hold_back(self, lows: _Int64s, highs: _Int64s) -> None:
        """Put back what was taken out, because tuples in the state hold it back."""
        constant = lows == highs
        if constant.all():
            self._held_back = np.concatenate([self._held_back, lows])
        else:
            self._held_back = np.concatenate([self._held_back, lows[constant]])
            self.add(*_thinned(lows[~constant], highs[~constant]))


def _thinned(lows: _Int64s, highs: _Int64s) -> tuple[_Int64s, _Int64s]:
    """Return ranges without some of those that lie in others: a stream in order has one in the next, for every run."""
    if lows.size <= _MOST_NESTED:
        return lows, highs
    order = np.lexsort((-highs, lows))  # one that holds others comes before them
    lows, highs = lows[order], highs[order]
    is_inside = np.zeros(lows.size, dtype=np.bool_)
    is_inside[1:] = highs[1:] <= np.maximum.accumulate(highs)[:-1]
    kept = ~is_inside | (np.arange(lows.size) % 2 == 0)
    return lows[kept], highs[kept]
