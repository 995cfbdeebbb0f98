"""The stream side of a scanning join: tuples arrive in the stream buffer and move on into the window.

The window is shaped when the first tuples arrive, because only they show how large a tuple is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, InvalidArgument, TupleTooLarge
from semistream.core.semantics import JoinSpec
from semistream.operators.matching import WindowCodes
from semistream.operators.stream_buffer import StreamBuffer
from semistream.operators.stream_window import LiveTuples, StreamWindow, VarlenSizes, WindowShape
from semistream.operators.tuple_store import TupleStore
from semistream.operators.varlen_columns import varlen_bytes

__all__ = ["Admitted", "WindowedStream"]


@dataclass(frozen=True)
class Admitted:
    """What one read of the stream buffer brought.

    Attributes
    ----------
    tuples
        How many entered the window.
    unmatchable, unmatchable_numbers
        Tuples with a NULL key, which match nothing and do not enter; and their arrival numbers.
    """

    tuples: int
    unmatchable: pa.RecordBatch | None = None
    unmatchable_numbers: npt.NDArray[np.int64] | None = None


class WindowedStream:
    """Stream buffer and window in fixed shares of memory.

    Parameters
    ----------
    ordered
        Whether arrival numbers are kept, for output in stream order.
    buffer_bytes, window_bytes
        The shares.
    max_tuples
        The most tuples that the window need hold, where that is known; None for as many as fit.
    max_window_bytes
        The most that `resize` can make of the window in place; None when it is to copy the tuples.
    """

    def __init__(
        self,
        spec: JoinSpec,
        matching: WindowCodes,
        *,
        ordered: bool,
        buffer_bytes: int,
        window_bytes: int,
        max_tuples: int | None,
        max_window_bytes: int | None = None,
    ) -> None:
        self._spec = spec
        self._matching = matching
        self._ordered = ordered
        self._has_text = TupleStore.num_varlen_columns(spec.stream_schema) > 0
        self._buffer = StreamBuffer(buffer_bytes)
        self._window_bytes = window_bytes
        self._max_tuples = max_tuples
        self._max_window_bytes = max_window_bytes
        self._window: StreamWindow | None = None
        self._varlen = VarlenSizes(0.0, 0)
        self._next_number = 0

    @property
    def window(self) -> StreamWindow:
        """The tuples that are being joined; there is one once a tuple was accepted."""
        assert self._window is not None
        return self._window

    @property
    def pending(self) -> int:
        return self._buffer.num_rows + self.tuples_in_window

    @property
    def tuples_in_window(self) -> int:
        return 0 if self._window is None else len(self._window)

    @property
    def capacity_tuples(self) -> int:
        """How many tuples the window can hold; 0 until the first tuples were measured."""
        return 0 if self._window is None else self._window.shape.capacity

    @property
    def buffer_bytes(self) -> int:
        return self._buffer.nbytes

    @property
    def hash_bytes(self) -> int:
        return 0 if self._window is None else self._window.hash_bytes

    @property
    def queue_bytes(self) -> int:
        return 0 if self._window is None else self._window.queue_bytes

    @property
    def oldest_pending_number(self) -> int:
        """The arrival number before which all tuples that left the buffer are answered."""
        if not self.tuples_in_window:
            return self._next_number
        return int(self.window.number[self.window.codes.oldest(1)[0]])

    def accept(self, batch: pa.RecordBatch) -> int:
        """Take rows from the front of ``batch`` into the stream buffer and return how many."""
        if self._window is None:
            self._shape_window(VarlenSizes.of(batch))
        if self._has_text:
            batch = self._rows_that_fit_the_ring(batch)
        return self._buffer.offer(batch, self._matching.stream_codes) if batch.num_rows else 0

    def _rows_that_fit_the_ring(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows before the first whose text exceeds the whole ring of the window.

        That tuple waits outside until the window is empty, which is then shaped anew.
        """
        sizes = varlen_bytes(batch)
        if sizes[0] > self.window.ring_bytes and self.pending == 0:
            self._shape_window(VarlenSizes.of(batch))
        too_large = np.flatnonzero(sizes > self.window.ring_bytes)
        fitting = int(too_large[0]) if too_large.size else batch.num_rows
        if fitting:
            # A window that is shaped anew has to have room for what waits in the buffer.
            self._varlen = VarlenSizes(self._varlen.mean, max(self._varlen.largest, int(sizes[:fitting].max())))
        return batch.slice(0, fitting)

    def _shape_window(self, varlen: VarlenSizes, live: LiveTuples | None = None) -> None:
        self._window = None
        tuples, text_bytes = (1, 0) if live is None else (live.batch.num_rows, int(varlen_bytes(live.batch).sum()))
        shape = self._shape_for(varlen, self._window_bytes, self._max_tuples, tuples, text_bytes)
        if shape.capacity == 0:
            raise TupleTooLarge(
                f"a stream tuple with {varlen.largest} bytes of text does not fit the {self._window_bytes} bytes "
                "that the budget leaves for stream tuples: raise memory="
            )
        self._varlen = varlen
        self._window = self._make_window(shape)

    def _make_window(self, shape: WindowShape) -> StreamWindow:
        max_shape = None
        if self._max_window_bytes is not None:
            # Text may grow and shrink: all tuples and no text, or one tuple and all text.
            tuples = WindowShape.fitting(
                self._matching, self._spec.stream_schema, self._ordered, VarlenSizes(0.0, 0), self._max_window_bytes
            )
            max_shape = WindowShape(max(tuples.capacity, shape.capacity), max(self._max_window_bytes, shape.ring_bytes))
        return StreamWindow(self._spec, self._matching, shape, self._ordered, max_shape)

    def _shape_for(
        self, varlen: VarlenSizes, window_bytes: int, max_tuples: int | None, least_tuples: int, text_bytes: int
    ) -> WindowShape:
        """Return the shape of a window that takes in so many tuples and so much text at once.

        Its capacity is 0 when that cannot be.
        """
        least_ring_bytes = max(varlen.largest, text_bytes)
        shape = WindowShape.fitting(
            self._matching,
            self._spec.stream_schema,
            self._ordered,
            VarlenSizes(varlen.mean, least_ring_bytes),
            window_bytes,
        )
        if max_tuples is None or shape.capacity <= max(max_tuples, least_tuples):
            return shape
        capacity = max(max_tuples, least_tuples)
        return WindowShape(capacity, max(least_ring_bytes, shape.ring_bytes * capacity // shape.capacity))

    def admit(self, count: int) -> Admitted:
        """Move up to ``count`` tuples from the buffer into the window, as many as fit."""
        waiting = self._buffer.peek(count)
        if waiting is None:
            return Admitted(0)
        batch, codes = waiting
        rows = self.window.fitting_rows(batch)
        assert rows or len(self.window), "an empty window has room for any tuple that was accepted"
        batch, code = batch.slice(0, rows), codes.code[:rows]
        numbers = np.arange(self._next_number, self._next_number + rows, dtype=np.int64)
        valid = None if codes.valid is None else codes.valid[:rows]
        unmatchable = unmatchable_numbers = None
        if valid is not None and not valid.all():
            unmatchable, unmatchable_numbers = batch.filter(pa.array(~valid)), numbers[~valid]
            batch, code, numbers = batch.filter(pa.array(valid)), code[valid], numbers[valid]
        self.window.insert(code, batch, numbers)
        self._buffer.consume(rows)
        self._next_number += rows
        return Admitted(batch.num_rows, unmatchable, unmatchable_numbers)

    def resize(self, buffer_bytes: int, window_bytes: int, max_tuples: int | None) -> None:
        """Change the shares while tuples are pending.

        Raises
        ------
        InvalidArgument
            When they do not fit the new shares, or have to be copied and that would take more than the larger of both;
            nothing is changed.
        """
        if self._buffer.nbytes > buffer_bytes:
            raise InvalidArgument(
                f"{self._buffer.num_rows} tuples wait in the stream buffer, more than {buffer_bytes} bytes hold: "
                "step before"
            )
        if self._window is not None:
            self._resize_window(window_bytes, max_tuples)
        self._buffer.capacity_bytes = buffer_bytes
        self._window_bytes = window_bytes
        self._max_tuples = max_tuples

    def _resize_window(self, window_bytes: int, max_tuples: int | None) -> None:
        tuples, text_bytes = len(self.window), self.window.store.live_ring_bytes
        shape = self._shape_for(self._varlen, window_bytes, max_tuples, tuples, text_bytes)
        refusal = InvalidArgument(
            f"{tuples} tuples are pending and the window would hold {shape.capacity}: "
            "step or drain before, or raise memory="
        )
        if shape.capacity < max(1, tuples):
            raise refusal
        if self.window.can_resize(shape):
            self.window.resize(shape)
            return
        live = self.window.live_tuples()
        if self.window.store.nbytes + live.nbytes > max(window_bytes, self._window_bytes):
            raise refusal
        self._window = None
        self._window = self._make_window(shape)
        self._window.put_back(live)

    def state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return all pending tuples, for a snapshot."""
        tables = {"buffer": pa.Table.from_batches(self._buffer.unread_pieces(), self._spec.stream_schema)}
        if self._window is not None:
            tables["window"] = self._window.live_tuples().to_table()
        return {"next_number": self._next_number, "varlen": [self._varlen.mean, self._varlen.largest]}, tables

    def set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        """Take over what `state` returned."""
        self._next_number = header["next_number"]
        if "window" in tables:
            live = LiveTuples.from_table(tables["window"], self._spec.stream_schema)
            self._shape_window(VarlenSizes(*header["varlen"]), live)
            if self.window.fitting_rows(live.batch) < live.batch.num_rows:
                raise _too_small_for_snapshot(live.batch.num_rows)
            self.window.put_back(live)
        for piece in tables["buffer"].to_batches():
            if not self._buffer.put_back(piece, self._matching.stream_codes):
                raise _too_small_for_snapshot(tables["buffer"].num_rows)


def _too_small_for_snapshot(tuples: int) -> BudgetTooSmall:
    return BudgetTooSmall(
        f"memory= leaves no room for the {tuples} tuples that are pending in the snapshot: "
        "give at least the memory it was taken with"
    )
