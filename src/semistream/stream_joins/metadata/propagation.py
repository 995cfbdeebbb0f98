"""Punctuations of the input become punctuations of the output, once all their results are out (S4, section 4.2)."""

from collections.abc import Iterator

import numpy as np

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import SavedState
from semistream.stream_joins.metadata.punctuations import Punctuations
from semistream.stream_joins.parts.disk_stages import DiskStages
from semistream.stream_joins.parts.join_key import SIDES, JoinKey
from semistream.stream_joins.parts.joined_rows import JoinedRows
from semistream.stream_joins.parts.memory_state import MemoryState
from semistream.stream_joins.parts.part import Part

__all__ = ["Propagation"]


class Propagation(Part):
    """Passes punctuations on.

    A punctuation waits for the tuples of its own stream with such a key: none of them may be in the state any more.
    """

    def __init__(
        self, key: JoinKey, punctuations: Punctuations, state: MemoryState, disk: DiskStages, results: JoinedRows
    ) -> None:
        self._key = key
        self._punctuations = punctuations
        self._state = state
        self._disk = disk
        self._results = results
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
                yield self._results.punctuations(self._key.marks(done_lows, done_highs))

    def state(self) -> SavedState:
        return SavedState({"flushes_unseen": self._disk.flushes - self._flushes_seen})

    def set_state(self, saved: SavedState) -> None:
        self._flushes_seen = self._disk.flushes - saved.header["flushes_unseen"]
