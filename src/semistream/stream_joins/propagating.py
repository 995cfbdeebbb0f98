"""Punctuations of the input that become punctuations of the output, once all their results are out (S4 ll. 454-465)."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.join_key import Side
from semistream.stream_joins.three_stages import ThreeStages

__all__ = ["Propagating"]

_Int64s = npt.NDArray[np.int64]


class Propagating(ThreeStages):
    """A join that passes punctuations on.

    A punctuation waits for the tuples of its own stream that it speaks of: none of them may be in the state any more.
    """

    _passes_on: bool

    def _remove(self, side: Side, codes: _Int64s) -> Iterator[PunctuatedBatch]:
        held = len(self.state.windows[side])
        yield from super()._remove(side, codes)
        if len(self.state.windows[side]) < held:
            self.promises[side].gone_from_state(codes)

    def _flush(self, partitions: _Int64s) -> None:
        super()._flush(partitions)
        for promises in self.promises:
            promises.gone_from_state(None)  # and at a clean-up, which begins so, keys leave the disk

    def _promise(self, side: Side, lows: _Int64s, highs: _Int64s) -> None:
        if self._passes_on:
            super()._promise(side, lows, highs)
        else:
            self.promises[side].add(lows, highs, pass_on=False)

    def _pass_on(self, side: Side) -> Iterator[PunctuatedBatch]:
        """Let punctuations out whose results are all out (ll. 458-461): no tuple of the stream can match any more."""
        lows, highs = self.promises[side].take_passable()
        if not lows.size:
            return
        waits = self.state.by_key(side).has(lows) | self._is_on_disk(side, lows)  # of constants
        constant = lows == highs
        if not constant.all():
            codes, _ = self.state.by_key(side).keys_with_at_least(1)
            at = np.searchsorted(codes, lows[~constant])
            inside = at < codes.size
            inside[inside] = codes[at[inside]] <= highs[~constant][inside]
            waits[~constant] = inside | self.parts.has(side).any()
        self.promises[side].hold_back(lows[waits], highs[waits])
        if not waits.all():
            done = np.flatnonzero(~waits)
            self.metrics.punctuations_out += done.size
            done_lows = lows[done]
            done_highs = done_lows if constant.all() else highs[done]
            yield PunctuatedBatch(self._rows.none, self.key.marks(done_lows, done_highs))
