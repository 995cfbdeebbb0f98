"""The punctuations of both streams (S4, section 5.1): punctuated ranges PRa and PRb, and punctuation collections.

::

    a punctuation ─┬─► PR: no key in it comes any more
                   ├─► unpurged: the other state has not been purged by it
                   └─► unpassed: it has not been passed on
"""

import numpy as np

from semistream.core.errors import StateTooLarge
from semistream.core.saved_state import SavedState
from semistream.core.sizes import format_bytes
from semistream.kernels.arrays import Bools, Int64s
from semistream.kernels.keys.code_ranges import CodeRanges
from semistream.kernels.keys.codes_in_run import follow_their_mark
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.stream_joins.parts.join_key import SIDES, Side
from semistream.stream_joins.parts.part import Part

__all__ = ["ALL_CODES", "Punctuations", "StreamPunctuations", "Unpassed"]

_Ranges = tuple[Int64s, Int64s]

ALL_CODES: _Ranges = (np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max]))
"""The range of all keys."""

_MOST_NESTED = 64
_NONE = np.empty(0, dtype=np.int64)


class Punctuations(Part):
    """The punctuations of the left and of the right stream, inside a limit of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._streams = (StreamPunctuations(), StreamPunctuations())

    def __getitem__(self, side: Side) -> "StreamPunctuations":
        return self._streams[side]

    @property
    def num_unpurged(self) -> int:
        """How many punctuations the states have not been purged by."""
        return sum(stream.num_unpurged for stream in self._streams)

    @property
    def num_unpassed(self) -> int:
        """How many punctuations have not been passed on."""
        return sum(len(stream.unpassed) for stream in self._streams)

    @property
    def is_full(self) -> bool:
        """Whether they take more than their limit."""
        return sum(stream.nbytes for stream in self._streams) > self._limit_bytes

    def forget_common(self) -> None:
        """Forget keys that neither stream sends any more."""
        left, right = (stream.range for stream in self._streams)
        lows, highs = left.common(right)
        left.remove(lows, highs)
        right.remove(lows, highs)

    def give_up_unpassed(self) -> None:
        """Forget the punctuations that have not been passed on: none of them will be."""
        for stream in self._streams:
            stream.unpassed = Unpassed()

    def require_room(self) -> None:
        """Raise `StateTooLarge` when they take more than their limit."""
        if self.is_full:
            ranges = sum(len(stream.range) for stream in self._streams)
            raise StateTooLarge(
                f"punctuations fill the {format_bytes(self._limit_bytes)} that they have: {ranges} ranges of keys "
                "that do not touch, and what waits to be passed on: give more memory, or punctuate ranges, or both "
                "streams, or say with relation= in which a key comes once"
            )

    def components(self) -> dict[str, int]:
        return {"punctuations": sum(stream.nbytes for stream in self._streams)}

    def state(self) -> SavedState:
        saved = SavedState()
        for side in SIDES:
            for kind, (lows, highs) in self._streams[side].ranges_by_kind().items():
                if lows.size:
                    saved.put(f"{side} {kind}", np.stack([lows, highs]))
        return saved

    def set_state(self, saved: SavedState) -> None:
        for side in SIDES:
            kinds = self._streams[side].ranges_by_kind()
            for kind in kinds:
                if f"{side} {kind}" in saved.arrays:
                    lows, highs = saved.array(f"{side} {kind}")
                    kinds[kind] = (lows, highs)
            self._streams[side].set_ranges(kinds)

    def check(self) -> None:
        for side in SIDES:
            lows, highs = self._streams[side].range.ranges()
            assert (lows <= highs).all()
            assert (highs[:-1] < lows[1:]).all()


class StreamPunctuations:
    """The punctuations of one stream, as ranges of key codes.

    Attributes
    ----------
    range
        The punctuated range PR: no key in it comes any more.
    unpassed
        The punctuations that have not been passed on.
    """

    def __init__(self) -> None:
        self.range = CodeRanges()
        self.unpassed = Unpassed()
        self._unpurged: list[_Ranges] = []

    @property
    def nbytes(self) -> int:
        return self.range.nbytes + _ranges_bytes(self._unpurged) + self.unpassed.nbytes

    @property
    def num_unpurged(self) -> int:
        """How many punctuations the other state has not been purged by."""
        return sum(lows.size for lows, _ in self._unpurged)

    def add(self, lows: Int64s, highs: Int64s, *, pass_on: bool) -> None:
        """Take in punctuations."""
        if not lows.size:
            return
        self.range.add(lows, highs)
        self._unpurged.append((lows, highs))
        if pass_on:
            self.unpassed.add(lows, highs)

    def take_unpurged(self) -> _Ranges:
        """Return the ranges of all punctuations since the last call."""
        taken, self._unpurged = _joined(self._unpurged), []
        return taken

    def excludes(self, keys: KeyCodes, at: Int64s, lows: Int64s, highs: Int64s) -> Bools:
        """Return which tuples of a run are excluded by a punctuation before them.

        Parameters
        ----------
        keys
            Of the tuples; NULL is never excluded.
        at, lows, highs
            Punctuations among them, which are not taken in yet: each stands after ``at`` of the tuples.
        """
        codes = keys.code
        wrong = self.range.contains(codes)
        if at.size:
            constant = lows == highs
            if constant.any():
                wrong |= follow_their_mark(codes, lows[constant], at[constant])
            for number in np.flatnonzero(~constant).tolist():
                after = codes[at[number] :]
                wrong[at[number] :] |= (after >= lows[number]) & (after <= highs[number])
        return wrong if keys.valid is None else wrong & keys.valid

    def ranges_by_kind(self) -> dict[str, _Ranges]:
        """Return all that `set_ranges` takes."""
        return {"range": self.range.ranges(), "unpurged": _joined(self._unpurged), **self.unpassed.ranges_by_kind()}

    def set_ranges(self, kinds: dict[str, _Ranges]) -> None:
        """Take over the punctuations of another one."""
        self.range.add(*kinds["range"])
        if kinds["unpurged"][0].size:
            self._unpurged = [kinds["unpurged"]]
        self.unpassed.set_ranges(kinds)


class Unpassed:
    """The punctuations of a stream that have not been passed on, and which of them are worth asking about.

    A punctuation of one key is held back by tuples of its stream in the state. Once that was found, it is not asked
    about again until tuples of its key have left: many more of them may wait than leave at a time.

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
        self._new: list[_Ranges] = []
        self._held_back = _NONE  # keys; what holds a range back is not known, so it stays new
        self._gone_from_state: list[Int64s] = []

    def __len__(self) -> int:
        return sum(lows.size for lows, _ in self._new) + self._held_back.size

    @property
    def nbytes(self) -> int:
        return _ranges_bytes(self._new) + self._held_back.nbytes + sum(codes.nbytes for codes in self._gone_from_state)

    def add(self, lows: Int64s, highs: Int64s) -> None:
        """Take in punctuations."""
        if lows.size:
            self._new.append((lows, highs))

    def ranges(self) -> _Ranges:
        """Return all of them."""
        return _joined([(self._held_back, self._held_back), *self._new])

    def gone_from_state(self, codes: Int64s) -> None:
        """Note that no tuple with one of these keys is in the state any more."""
        if codes.size + sum(some.size for some in self._gone_from_state) > self._held_back.size:
            self.ask_about_all()  # as many as are held back: nothing needs to be remembered
        else:
            self._gone_from_state.append(codes)

    def ask_about_all(self) -> None:
        """Note that tuples with any keys may have left the state."""
        self.add(self._held_back, self._held_back)
        self._held_back, self._gone_from_state = _NONE, []

    def take_passable(self) -> _Ranges:
        """Take out those that may be passed on: the new ones, and those of keys that have left the state."""
        if self._gone_from_state:
            gone = np.concatenate(self._gone_from_state)
            may_pass = follow_their_mark(self._held_back, gone, np.zeros(gone.size, dtype=np.int64))
            passable = self._held_back[may_pass]
            self.add(passable, passable)
            self._held_back, self._gone_from_state = self._held_back[~may_pass], []
        taken, self._new = _joined(self._new), []
        return taken

    def hold_back(self, lows: Int64s, highs: Int64s) -> None:
        """Put back what was taken out, because tuples in the state hold it back."""
        constant = lows == highs
        self._held_back = np.concatenate([self._held_back, lows[constant]])
        if not constant.all():
            self.add(*_thinned(lows[~constant], highs[~constant]))

    def ranges_by_kind(self) -> dict[str, _Ranges]:
        """Return all that `set_ranges` takes."""
        gone = np.concatenate([_NONE, *self._gone_from_state])
        return {"new": _joined(self._new), "held back": (self._held_back, self._held_back), "gone": (gone, gone)}

    def set_ranges(self, kinds: dict[str, _Ranges]) -> None:
        """Take over those of another one."""
        self.add(*kinds["new"])
        self._held_back = kinds["held back"][0]
        if kinds["gone"][0].size:
            self._gone_from_state = [kinds["gone"][0]]


def _ranges_bytes(ranges: list[_Ranges]) -> int:
    return sum(lows.nbytes + highs.nbytes for lows, highs in ranges)


def _joined(ranges: list[_Ranges]) -> _Ranges:
    """Return ranges of codes in one piece."""
    if len(ranges) == 1:
        return ranges[0]
    return (
        np.concatenate([_NONE, *(lows for lows, _ in ranges)]),
        np.concatenate([_NONE, *(highs for _, highs in ranges)]),
    )


def _thinned(lows: Int64s, highs: Int64s) -> _Ranges:
    """Return ranges without some of those that lie in others: a stream in order has one in the next, for every run."""
    if lows.size <= _MOST_NESTED:
        return lows, highs
    order = np.lexsort((-highs, lows))  # one that holds others comes before them
    lows, highs = lows[order], highs[order]
    is_inside = np.zeros(lows.size, dtype=np.bool_)
    is_inside[1:] = highs[1:] <= np.maximum.accumulate(highs)[:-1]
    kept = ~is_inside | (np.arange(lows.size) % 2 == 0)
    return lows[kept], highs[kept]
