"""The punctuations of both streams (S4, section 5.1): punctuated ranges PRa and PRb, and punctuation collections.

::

    a punctuation ─┬─► PR: no key in it comes any more
                   ├─► unpurged: the other state has not been purged by it
                   └─► unpassed: it has not been passed on ─► Propagation ─► a punctuation of the output
"""

from collections.abc import Iterator

import numpy as np

from semistream.core.errors import StateTooLarge
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import SavedState
from semistream.core.sizes import format_bytes
from semistream.kernels.arrays import Bools, Int64s
from semistream.kernels.keys.code_ranges import CodeRanges
from semistream.kernels.keys.codes_in_run import follow_their_mark
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.stream_joins.parts.disk_stages import DiskStages
from semistream.stream_joins.parts.join_key import SIDES, Side
from semistream.stream_joins.parts.memory_state import MemoryState
from semistream.stream_joins.parts.part import Part

__all__ = ["ALL_CODES", "Propagation", "Punctuations", "StreamPunctuations", "Unpassed"]

_Ranges = tuple[Int64s, Int64s]

ALL_CODES: _Ranges = (np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max]))
"""The range of all keys."""

_MOST_NESTED = 64
_NONE = np.empty(0, dtype=np.int64)


class _Pieces:
    """Ranges of codes, in the pieces in which they came."""

    def __init__(self) -> None:
        self._pieces: list[_Ranges] = []

    def __len__(self) -> int:
        return sum(lows.size for lows, _ in self._pieces)

    @property
    def nbytes(self) -> int:
        return sum(lows.nbytes + highs.nbytes for lows, highs in self._pieces)

    def add(self, lows: Int64s, highs: Int64s) -> None:
        if lows.size:
            self._pieces.append((lows, highs))

    def joined(self) -> _Ranges:
        if len(self._pieces) == 1:
            return self._pieces[0]
        lows, highs = zip((_NONE, _NONE), *self._pieces, strict=True)
        return np.concatenate(lows), np.concatenate(highs)

    def take(self) -> _Ranges:
        taken, self._pieces = self.joined(), []
        return taken


class Punctuations(Part):
    """The punctuations of the left and of the right stream, inside a limit of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._streams = (StreamPunctuations(), StreamPunctuations())

    def __getitem__(self, side: Side) -> "StreamPunctuations":
        return self._streams[side]

    @property
    def num_unpurged(self) -> int:
        return sum(len(stream.unpurged) for stream in self._streams)

    @property
    def num_unpassed(self) -> int:
        return sum(len(stream.unpassed) for stream in self._streams)

    @property
    def is_full(self) -> bool:
        return sum(self.components().values()) > self._limit_bytes

    def forget_common(self) -> None:
        left, right = (stream.range for stream in self._streams)
        lows, highs = left.common(right)
        left.remove(lows, highs)
        right.remove(lows, highs)

    def give_up_unpassed(self) -> None:
        """Forget the punctuations that have not been passed on: none of them will be."""
        for stream in self._streams:
            stream.unpassed = Unpassed()

    def require_room(self) -> None:
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
                    ranges = saved.array(f"{side} {kind}", np.int64)
                    is_sound = ranges.ndim == 2 and len(ranges) == 2 and (ranges[0] <= ranges[1]).all()
                    saved.require(is_sound, f"ranges without a key in {side} {kind!r}")
                    kinds[kind] = (ranges[0], ranges[1])
            self._streams[side].set_ranges(kinds)

    def check(self) -> None:
        for side in SIDES:
            lows, highs = self._streams[side].range.ranges()
            assert (lows <= highs).all()
            assert (highs[:-1] < lows[1:]).all()


class StreamPunctuations:
    """The punctuations of one stream, as ranges of key codes. The punctuated range PR is ``range``."""

    def __init__(self) -> None:
        self.range = CodeRanges()
        self.unpurged = _Pieces()
        self.unpassed = Unpassed()

    @property
    def nbytes(self) -> int:
        return self.range.nbytes + self.unpurged.nbytes + self.unpassed.nbytes

    def add(self, lows: Int64s, highs: Int64s, *, pass_on: bool) -> None:
        self.range.add(lows, highs)
        self.unpurged.add(lows, highs)
        if pass_on:
            self.unpassed.add(lows, highs)

    def excludes(self, keys: KeyCodes, at: Int64s, lows: Int64s, highs: Int64s) -> Bools:
        """Return which tuples of a run are excluded by what is known, or by a new punctuation after ``at`` of them."""
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
        return {"range": self.range.ranges(), "unpurged": self.unpurged.joined(), **self.unpassed.ranges_by_kind()}

    def set_ranges(self, kinds: dict[str, _Ranges]) -> None:
        self.range.add(*kinds["range"])
        self.unpurged.add(*kinds["unpurged"])
        self.unpassed.set_ranges(kinds)


class Unpassed:
    """The punctuations of a stream that have not been passed on, and which of them are worth asking about.

    A punctuation of one key is held back by tuples of its stream in the state. Once that was found, it is not asked
    about again until tuples of its key have left: many more of them may wait than leave at a time.
    """

    def __init__(self) -> None:
        self._new = _Pieces()
        self._held_back = _NONE  # keys; what holds a range back is not known, so it stays new
        self._gone_from_state: list[Int64s] = []

    def __len__(self) -> int:
        return len(self._new) + self._held_back.size

    @property
    def nbytes(self) -> int:
        return self._new.nbytes + self._held_back.nbytes + sum(codes.nbytes for codes in self._gone_from_state)

    def add(self, lows: Int64s, highs: Int64s) -> None:
        self._new.add(lows, highs)

    def ranges(self) -> _Ranges:
        lows, highs = self._new.joined()
        return np.concatenate([self._held_back, lows]), np.concatenate([self._held_back, highs])

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
        return self._new.take()

    def hold_back(self, lows: Int64s, highs: Int64s) -> None:
        """Put back what was taken out, because tuples in the state hold it back."""
        constant = lows == highs
        self._held_back = np.concatenate([self._held_back, lows[constant]])
        if not constant.all():
            self.add(*_thinned(lows[~constant], highs[~constant]))

    def ranges_by_kind(self) -> dict[str, _Ranges]:
        gone = np.concatenate([_NONE, *self._gone_from_state])
        return {"new": self._new.joined(), "held back": (self._held_back, self._held_back), "gone": (gone, gone)}

    def set_ranges(self, kinds: dict[str, _Ranges]) -> None:
        self.add(*kinds["new"])
        self._held_back = kinds["held back"][0]
        if kinds["gone"][0].size:
            self._gone_from_state = [kinds["gone"][0]]


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


class Propagation(Part):
    """Passes punctuations on, once no tuple of their own stream with such a key is in the state (S4, section 4.2)."""

    def __init__(self, punctuations: Punctuations, state: MemoryState, disk: DiskStages) -> None:
        self._punctuations = punctuations
        self._state = state
        self._disk = disk
        self._flushes_seen = 0

    def pass_on(self) -> Iterator[PunctuatedBatch]:
        """Let punctuations out that no tuple of their stream holds back."""
        if self._disk.flushes != self._flushes_seen:  # tuples have moved to disk, and those of a clean-up may have left
            self._flushes_seen = self._disk.flushes
            for side in SIDES:
                self._punctuations[side].unpassed.ask_about_all()
        for side in SIDES:
            unpassed = self._punctuations[side].unpassed
            lows, highs = unpassed.take_passable()
            if not lows.size:
                continue
            waits = self._state.by_key(side).has(lows) | self._disk.holds(side, lows)  # of constants
            constant = lows == highs
            if not constant.all():
                codes = self._state.keys(side)
                at = np.searchsorted(codes, lows[~constant])
                inside = at < codes.size
                inside[inside] = codes[at[inside]] <= highs[~constant][inside]
                waits[~constant] = inside | self._disk.parts.has(side).any()
            unpassed.hold_back(lows[waits], highs[waits])
            if not waits.all():
                done_lows = lows[~waits]
                done_highs = done_lows if constant.all() else highs[~waits]
                yield self._state.results.punctuations(self._state.key.marks(done_lows, done_highs))

    def state(self) -> SavedState:
        return SavedState({"flushes_unseen": self._disk.flushes - self._flushes_seen})

    def set_state(self, saved: SavedState) -> None:
        self._flushes_seen = self._disk.flushes - saved.whole_number("flushes_unseen")
