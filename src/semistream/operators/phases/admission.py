"""How tuples leave the stream buffer: S2 Algorithm 3.

Tuples that can match nothing are answered at once. With a front stage, so are those whose rows are cached. The rest
enters the window, as many as there is room for.
"""

from collections.abc import Generator

import numpy as np
import pyarrow as pa

from semistream.core.metrics import Metrics
from semistream.core.saved_state import SavedState
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.join import Part
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_side import StreamSide
from semistream.state.tuple_window import WindowCodes

__all__ = ["Admission"]

# Tuples that are looked up together: what is found stays in a core's cache until it is joined.
_LEAST_PORTION = 256
_LARGEST_PORTION = 32_768


class Admission(Part):
    """The way from the stream buffer into the window of a join."""

    def __init__(
        self,
        stream: StreamSide,
        codes: WindowCodes,
        delivery: Delivery,
        metrics: Metrics,
        front_stage: FrontStage | None = None,  # answers tuples before they enter
    ) -> None:
        self._stream = stream
        self._codes = codes
        self._delivery = delivery
        self._metrics = metrics
        self._front_stage = front_stage
        self._entering_share = 1.0  # of the tuples that were read last

    def read(self, most: int) -> Generator[pa.RecordBatch, None, int]:
        """Read until ``most`` tuples entered the window, it is full, or no tuple waits; return how many entered."""
        entered = 0
        while entered < most:
            read, came = yield from self._read_portion(most - entered)
            entered += came
            if read == 0:
                break
        return entered

    def _read_portion(self, most: int) -> Generator[pa.RecordBatch, None, tuple[int, int]]:
        """Return how many tuples were read, and how many of them entered."""
        arrivals = self._stream.buffer.peek(self._portion(most))
        if arrivals is None:
            return 0, 0
        enters = np.ones(len(arrivals), dtype=np.bool_) if arrivals.valid is None else arrivals.valid.copy()
        entries = None
        if self._front_stage is not None:
            entries = self._front_stage.find(arrivals.code)
            entries[~enters] = -1
            enters &= entries < 0
        window_codes = self._codes.window_codes(arrivals.code)
        if window_codes.valid is not None:
            enters &= window_codes.valid
        position = np.flatnonzero(enters)
        entering = arrivals.where(enters).first(most)
        fitting = self._stream.window.fitting_rows(entering.batch) if len(entering) else 0
        assert fitting or not len(entering) or self._stream.tuples_in_window, "an empty window takes any accepted tuple"
        # What comes after the first tuple without room waits, whatever it is: the stream is read in its order.
        stop = int(position[fitting]) if fitting < position.size else len(arrivals)
        if stop == 0:
            return 0, 0
        arrivals, enters, position = arrivals.first(stop), enters[:stop], position[:fitting]
        self._stream.buffer.consume(stop)
        entering = entering.first(fitting)
        self._stream.window.insert(window_codes.code[position], entering.batch, entering.number)
        cached = np.zeros(stop, dtype=np.bool_)
        if self._front_stage is not None and entries is not None:
            entries = entries[:stop]
            cached = entries >= 0
            self._front_stage.record(arrivals.code, entries)
            if cached.any():
                yield from self._front_stage.answer(arrivals.where(cached), entries[cached])
        if fitting + int(cached.sum()) < stop:
            unmatchable = arrivals.where(~enters & ~cached)
            self._metrics.tuples_answered += len(unmatchable)
            self._metrics.tuples_without_match += len(unmatchable)
            yield from self._delivery.outside(unmatchable.batch, unmatchable.number)
        self._entering_share = (self._entering_share + fitting / stop) / 2
        return stop, fitting

    def _portion(self, most: int) -> int:
        """Return how many tuples to look up so that about ``most`` enter; what is looked up in vain costs time."""
        if self._front_stage is None:
            return most
        expected = int(most / max(self._entering_share, most / _LARGEST_PORTION))
        return min(max(expected, _LEAST_PORTION), _LARGEST_PORTION)

    def state(self, *, exact: bool) -> SavedState:
        return SavedState({"entering_share": self._entering_share}) if exact else SavedState()

    def set_state(self, saved: SavedState) -> None:
        self._entering_share = saved.number("entering_share", 1.0)
