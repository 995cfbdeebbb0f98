"""The stream side of a join with a window: tuples arrive in the stream buffer and move on into the window.

The window is shaped when the first tuples arrive, because only they show how large a tuple is. Its share of memory may
change while tuples wait in it. A window above its share shrinks as tuples leave: until then, newer tuples enter only as
far as they will fit the window of the new size.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument, TupleTooLarge
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.operators.join import Part
from semistream.operators.window.stream_buffer import StreamBuffer, too_small_for_snapshot
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import LiveTuples, TupleWindow, VarlenSizes, WindowCodes, WindowShape
from semistream.state.varlen_columns import varlen_bytes

__all__ = ["StreamSide"]

# Resizing rebuilds the hash table: on the way to a smaller window, not for less than this share.
_LEAST_CHANGE = 1 / 16

_EXACT_FIELDS = ("_window_bytes", "_max_tuples", "_spare_bytes", "_is_within_share", "_entered_before")


class StreamSide(Part):
    """Stream buffer and window, each in its share of memory."""

    def __init__(
        self,
        spec: JoinSpec,
        matching: WindowCodes,
        ordered: bool,  # whether arrival numbers are kept, for output in stream order
        buffer_bytes: int,
        window_bytes: int,
        *,
        max_tuples: int | None = None,  # the most that the window need hold; None for as many as fit
        max_window_bytes: int | None = None,  # `resize` works in place up to this size; None: it copies
        reclaim: Callable[[], bool] | None = None,  # frees memory for a tuple too large, and returns whether it did
    ) -> None:
        self._spec = spec
        self._matching = matching
        self._ordered = ordered
        self._has_text = TupleStore.num_varlen_columns(spec.stream_schema) > 0
        self.buffer = StreamBuffer(buffer_bytes, matching.stream_codes, spec.stream_schema)
        self._window_bytes = window_bytes
        self._max_tuples = max_tuples
        self._max_window_bytes = max_window_bytes
        self._reclaim = reclaim
        self._window: TupleWindow | None = None
        self._varlen = VarlenSizes(0.0, 0)
        self._out_of_order = False
        self._spare_bytes = 0
        self._is_within_share = True
        self._entered_before = 0

    @property
    def window(self) -> TupleWindow:
        """The tuples that are being joined; there is one once a tuple was accepted."""
        assert self._window is not None
        return self._window

    @property
    def pending(self) -> int:
        return self.buffered + self.tuples_in_window

    @property
    def buffered(self) -> int:
        return self.buffer.pending

    @property
    def tuples_in_window(self) -> int:
        return 0 if self._window is None else len(self._window)

    @property
    def capacity_tuples(self) -> int:
        """How many tuples the window can hold; 0 until the first tuples were measured."""
        return 0 if self._window is None else self._window.shape.capacity

    @property
    def free_tuples(self) -> int:
        return self.capacity_tuples - self.tuples_in_window

    @property
    def has_matched(self) -> bool:
        """Whether any tuple of the window has met a matching row."""
        return self._window is not None and bool(self.window.matched[self.window.codes.oldest(len(self.window))].any())

    def components(self) -> dict[str, int]:
        window = self._window
        held = {"H_S": 0, "queue": 0} if window is None else {"H_S": window.hash_bytes, "queue": window.queue_bytes}
        return {**self.buffer.components(), **held}

    @property
    def bytes_per_tuple(self) -> float:
        """The memory of a tuple in the window, structures included (vS); 0 until the first tuples were measured."""
        if self._window is None:
            return 0.0
        return (self.window.hash_bytes + self.window.queue_bytes) / self.capacity_tuples

    def oldest_pending(self) -> int:
        """Return the arrival number before which all tuples that left the buffer are answered."""
        if not self.tuples_in_window:
            return self.buffer.oldest_number
        if not self._out_of_order:
            return int(self.window.number[self.window.codes.oldest(1)[0]])
        # Tuples that came back from load shedding are older than others before them.
        in_window = self.window.number[self.window.codes.oldest(self.tuples_in_window)]
        return min(self.buffer.oldest_number, int(in_window.min()))

    # --- tuples come in ---------------------------------------------------------------------------------------------

    def accept(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64] | None = None) -> int:
        """Take rows from the front of ``batch`` into the stream buffer and return how many.

        Tuples with ``numbers`` come back from load shedding.
        """
        self._out_of_order = numbers is not None or (self._out_of_order and self.pending > 0)
        before = None if self._window is None else self._varlen
        try:
            if self._window is None:
                self._shape_window(VarlenSizes.of(batch))
            fitting = self._rows_that_fit_the_ring(batch) if self._has_text else batch
            return self.buffer.accept(fitting, numbers) if fitting.num_rows else 0
        except TupleTooLarge:
            if self.pending:
                raise
            # The window may have been shaped for the tuple that is refused, and others are to come.
            self._window = None
            if before is not None:
                self._shape_window(before)
            if self._reclaim is None or not self._reclaim():
                raise
            return self.accept(batch, numbers)

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

    def _shape_window(self, varlen: VarlenSizes) -> None:
        """Make an empty window for tuples with text of these sizes."""
        self._window = None
        shape = self._shape_for(varlen, self._window_bytes, self._max_tuples)
        if shape.capacity == 0:
            raise TupleTooLarge(
                f"a stream tuple with {varlen.largest} bytes of text does not fit the {self._window_bytes} bytes "
                "that the budget leaves for stream tuples: raise memory="
            )
        self._varlen = varlen
        self._window = self._make_window(shape)
        self._is_within_share = True

    def _make_window(self, shape: WindowShape) -> TupleWindow:
        max_shape = None
        if self._max_window_bytes is not None:
            # Text may grow and shrink: all tuples and no text, or one tuple and all text.
            tuples = self._largest_shape(VarlenSizes(0.0, 0), self._max_window_bytes)
            max_shape = WindowShape(max(tuples.capacity, shape.capacity), max(self._max_window_bytes, shape.ring_bytes))
        return TupleWindow(self._spec.stream_schema, self._matching, shape, self._ordered, max_shape)

    @property
    def room_tuples(self) -> int:
        """About how many more tuples the stream buffer has room for, going by those that are there."""
        if not self.buffer.pending:
            return self.buffer.capacity_bytes
        free_bytes = max(0, self.buffer.capacity_bytes - self.buffer.nbytes)
        return free_bytes * self.buffer.pending // self.buffer.nbytes

    # --- shapes -----------------------------------------------------------------------------------------------------

    def _largest_shape(self, varlen: VarlenSizes, window_bytes: int) -> WindowShape:
        return WindowShape.fitting(self._matching, self._spec.stream_schema, self._ordered, varlen, window_bytes)

    def _shape_for(
        self, varlen: VarlenSizes, window_bytes: int, max_tuples: int | None, live: WindowShape | None = None
    ) -> WindowShape:
        """Return the shape of a window for ``live``, or one tuple; its capacity is less if the shares do not do."""
        live = live or WindowShape(1, varlen.largest)
        shape = self._largest_shape(VarlenSizes(varlen.mean, live.ring_bytes), window_bytes)
        most = shape.capacity if max_tuples is None else max(max_tuples, live.capacity)
        if shape.capacity <= most:
            return shape
        return WindowShape(most, max(live.ring_bytes, shape.ring_bytes * most // shape.capacity))

    def _live_shape(self) -> WindowShape:
        """Return the smallest shape that holds the tuples of the window."""
        return WindowShape(max(1, len(self.window)), max(self._varlen.largest, self.window.store.live_ring_bytes))

    def _bytes_of(self, shape: WindowShape) -> int:
        return sum(shape.nbytes(self._matching, self._spec.stream_schema, self._ordered))

    def _varlen_for(self, largest: int, window_bytes: int) -> VarlenSizes:
        """Return the sizes to shape a window of so many bytes by: as measured, unless it would hold no tuple then."""
        varlen = VarlenSizes(self._varlen.mean, largest)
        if self._shape_for(varlen, window_bytes, None).capacity:
            return varlen
        return VarlenSizes(min(varlen.mean, largest / 2), largest)

    def capacity_for(self, window_bytes: int) -> int:
        """Return how many tuples like those in the window one of this size would hold; 0 when it cannot be."""
        if self._window is None:
            return 0
        shape = self._shape_for(self._varlen, window_bytes, self._max_tuples)
        text_bytes = self._window.store.live_ring_bytes
        return min(shape.capacity, shape.ring_bytes * len(self._window) // text_bytes) if text_bytes else shape.capacity

    # --- changing size ----------------------------------------------------------------------------------------------

    def resize(
        self,
        window_bytes: int,
        *,
        buffer_bytes: int | None = None,
        max_tuples: int | None = None,
        spare_bytes: int = 0,
    ) -> None:
        """Change the shares while tuples are pending; without ``buffer_bytes`` only that of the window.

        Pending tuples may hold ``spare_bytes`` more than the new shares until enough of them have left:
        `shrink_to_share` gives it back. If that is not enough, or they have to be copied and there is no room for both
        copies, `InvalidArgument` is raised and nothing is changed.
        """
        buffer_bytes = self.buffer.capacity_bytes if buffer_bytes is None else buffer_bytes
        waiting_bytes = max(0, self.buffer.nbytes - buffer_bytes)
        if waiting_bytes > spare_bytes:
            raise InvalidArgument(
                f"{self.buffer.pending} tuples wait in the stream buffer, more than {buffer_bytes} bytes hold: "
                "step before"
            )
        if self._window is not None:
            self._varlen = self._varlen_for(self._largest_pending(), window_bytes)
            self._resize_window(window_bytes, max_tuples, spare_bytes - waiting_bytes)
        self.buffer.capacity_bytes = buffer_bytes
        self._window_bytes = window_bytes
        self._max_tuples = max_tuples
        self._spare_bytes = spare_bytes

    def can_resize(self, window_bytes: int) -> bool:
        """Return whether the tuples of the window allow it another share in place."""
        if self._window is None:
            return True
        live = self._live_shape()
        shape = self._shape_for(self._varlen, window_bytes, self._max_tuples, live)
        return shape.capacity >= live.capacity and self._window.can_resize(shape)

    def _largest_pending(self) -> int:
        """Return the most text of a tuple that is pending: one with more may have left long ago."""
        if not self._has_text:
            return 0
        in_window = self.window.store.sizes(self.window.codes.oldest(len(self.window)))
        sizes = [*(varlen_bytes(batch) for batch in self.buffer.batches()), in_window]
        return max((int(each.max()) for each in sizes if each is not None and each.size), default=0)

    def _resize_window(self, window_bytes: int, max_tuples: int | None, spare_bytes: int) -> None:
        live = self._live_shape()
        shape = self._shape_for(self._varlen, window_bytes, max_tuples, live)
        if shape.capacity >= live.capacity and self._reshape(shape, window_bytes):
            self._is_within_share = True
            return
        held = live if self.window.can_resize(live) else self.window.shape
        can_shrink = self._shape_for(self._varlen, window_bytes, max_tuples).capacity > 0
        if not can_shrink or self._bytes_of(held) > window_bytes + spare_bytes:
            raise InvalidArgument(
                f"{len(self.window)} tuples are pending and the window would hold {shape.capacity}: "
                "step or drain before, or raise memory="
            )
        if self._bytes_of(held) < self._bytes_of(self.window.shape):
            self.window.resize(held)
        self._is_within_share = False
        self._entered_before = self.window.entered

    def _reshape(self, shape: WindowShape, window_bytes: int) -> bool:
        """Bring the window into a shape that its tuples fit, in place or by copying, and return whether that can be."""
        if shape == self.window.shape:
            return True
        if self.window.can_resize(shape):
            self.window.resize(shape)
            return True
        live = self.window.live_tuples()
        if self.window.store.nbytes + live.nbytes > max(window_bytes, self._bytes_of(self.window.shape)):
            return False
        self._window = None
        self._window = self._make_window(shape)
        self._window.put_back(live)
        return True

    @property
    def is_within_share(self) -> bool:
        """Whether window and stream buffer hold no more than their shares."""
        return self._is_within_share and self.buffer.nbytes <= self.buffer.capacity_bytes

    @property
    def most_to_enter(self) -> int:
        """How many tuples may enter a window that shrinks: as many as it will hold then."""
        if self._is_within_share:
            return self.capacity_tuples
        entered = self.window.entered - self._entered_before
        return max(0, self._shape_for(self._varlen, self._window_bytes, self._max_tuples).capacity - entered)

    def shrink_to_share(self) -> None:
        """Give back the memory of tuples that have left a window above its share."""
        if self._is_within_share:
            return
        live, held = self._live_shape(), self.window.shape
        shape = self._shape_for(self._varlen, self._window_bytes, self._max_tuples, live)
        if shape.capacity >= live.capacity:
            self._is_within_share = self._reshape(shape, self._window_bytes)
        elif self._bytes_of(live) <= self._bytes_of(held) * (1 - _LEAST_CHANGE) and self.window.can_resize(live):
            self.window.resize(live)
        if len(self.window) == 0:
            self._entered_before = self.window.entered  # a tuple may have come that needs more than the share

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState({"out_of_order": self._out_of_order, "varlen": [self._varlen.mean, self._varlen.largest]})
        saved.put_part("buffer", self.buffer.state(exact=exact))
        if exact:
            saved.header["buffer_bytes"] = self.buffer.capacity_bytes
            saved.header["shares"] = {name.lstrip("_"): getattr(self, name) for name in _EXACT_FIELDS}
            if self._window is not None:
                saved.put_part("window", self._window.state())
        elif self._window is not None:
            saved.put_table("tuples", self._window.live_tuples().to_table())
        return saved

    def set_state(self, saved: SavedState) -> None:
        self._out_of_order = saved.flag("out_of_order")
        self._varlen = VarlenSizes.of_state(saved)
        if saved.exact:
            shares = saved.part("shares")
            self._window_bytes = shares.whole_number("window_bytes")
            self._max_tuples = shares.whole_number_or_none("max_tuples")
            self._spare_bytes = shares.whole_number("spare_bytes")
            self._entered_before = shares.whole_number("entered_before")
            self._is_within_share = shares.flag("is_within_share")
            if "window" in saved.header:
                window = saved.part("window")
                self._window = self._make_window(WindowShape.of_state(window))
                self._window.set_state(window)
            self.buffer.capacity_bytes = saved.whole_number("buffer_bytes")
            self.buffer.set_state(saved.part("buffer"))
            return
        schema = self._spec.stream_schema
        if "tuples" in saved.arrays:
            self._put_back(LiveTuples.of_state(saved, "tuples", schema), saved.part("buffer"))
        spare_bytes = self._spare_bytes
        if not self._is_within_share:
            spare_bytes -= self._bytes_of(self.window.shape) - self._window_bytes
        self.buffer.set_state(saved.part("buffer"), spare_bytes)

    def _put_back(self, live: LiveTuples, buffered: SavedState) -> None:
        """Take the tuples of a snapshot into a window that has room for those in the buffer, too."""
        waiting = buffered.table("tuples").to_batches() if "tuples" in buffered.arrays else []
        largest = max((int(varlen_bytes(each).max()) for each in (live.batch, *waiting) if each.num_rows), default=0)
        varlen = self._varlen_for(largest, self._window_bytes)
        tuples = live.batch.num_rows
        least = WindowShape(max(1, tuples), max(largest, int(varlen_bytes(live.batch).sum())))
        shape = self._shape_for(varlen, self._window_bytes, self._max_tuples, least)
        self._is_within_share = shape.capacity >= least.capacity
        if not self._is_within_share:
            can_shrink = self._shape_for(varlen, self._window_bytes, self._max_tuples).capacity > 0
            if not can_shrink or self._bytes_of(least) > self._window_bytes + self._spare_bytes:
                raise too_small_for_snapshot(tuples)
            shape = least
            self._entered_before = tuples  # those of the snapshot are about to be put back
        self._varlen = varlen
        self._window = self._make_window(shape)
        if self._window.fitting_rows(live.batch) < tuples:
            raise too_small_for_snapshot(tuples)
        self._window.put_back(live)
