"""The stream side of a join with a window: tuples arrive in the stream buffer and move on into the window.

The window is shaped when the first tuples arrive, because only they show how large a tuple is. Its share of memory may
change while tuples wait in it. A window above its share shrinks as tuples leave: until then, newer tuples enter only as
far as they will fit the window of the new size.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, InvalidArgument, TupleTooLarge
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.operators.join import Part
from semistream.operators.window.stream_buffer import Arrivals, StreamBuffer
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import LiveTuples, TupleWindow, VarlenSizes, WindowCodes, WindowShape
from semistream.state.varlen_columns import varlen_bytes

__all__ = ["StreamSide"]

# Resizing rebuilds the hash table: on the way to a smaller window, not for less than this share.
_LEAST_CHANGE = 1 / 16

_EXACT_FIELDS = ("_window_bytes", "_max_tuples", "_spare_bytes", "_is_within_share", "_entered_before")


class StreamSide(Part):
    """Stream buffer and window, each in its share of memory.

    Parameters
    ----------
    ordered
        Whether arrival numbers are kept, for output in stream order.
    buffer_bytes, window_bytes
        The shares.
    max_tuples
        The most tuples that the window need hold, where that is known; None for as many as fit.
    max_window_bytes
        The most that `resize` can make of the window in place; None for a window whose tuples `resize` copies.
    reclaim
        Frees memory for a tuple too large for the empty window, and returns whether it did; None if nothing can be.
    """

    def __init__(
        self,
        spec: JoinSpec,
        matching: WindowCodes,
        *,
        ordered: bool,
        buffer_bytes: int,
        window_bytes: int,
        max_tuples: int | None = None,
        max_window_bytes: int | None = None,
        reclaim: Callable[[], bool] | None = None,
    ) -> None:
        self._spec = spec
        self._matching = matching
        self._ordered = ordered
        self._has_text = TupleStore.num_varlen_columns(spec.stream_schema) > 0
        self._buffer = StreamBuffer(buffer_bytes, matching.stream_codes, spec.stream_schema)
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
        """How many tuples wait in the stream buffer."""
        return self._buffer.num_rows

    @property
    def tuples_in_window(self) -> int:
        return 0 if self._window is None else len(self._window)

    @property
    def capacity_tuples(self) -> int:
        """How many tuples the window can hold; 0 until the first tuples were measured."""
        return 0 if self._window is None else self._window.shape.capacity

    @property
    def free_tuples(self) -> int:
        """How many tuples more the window can hold."""
        return self.capacity_tuples - self.tuples_in_window

    @property
    def has_matched(self) -> bool:
        """Whether any tuple of the window has met a matching row."""
        oldest_first = self.window.codes.oldest(self.tuples_in_window) if self._window is not None else ()
        return bool(len(oldest_first) and self.window.matched[oldest_first].any())

    def components(self) -> dict[str, int]:
        hash_bytes, queue_bytes = (0, 0) if self._window is None else (self.window.hash_bytes, self.window.queue_bytes)
        return {"stream buffer": self._buffer.nbytes, "H_S": hash_bytes, "queue": queue_bytes}

    @property
    def bytes_per_tuple(self) -> float:
        """The memory of a tuple in the window, structures included (vS); 0 until the first tuples were measured."""
        if self._window is None:
            return 0.0
        return (self.window.hash_bytes + self.window.queue_bytes) / self.capacity_tuples

    def oldest_pending(self) -> int:
        """Return the arrival number before which all tuples that left the buffer are answered."""
        if self._out_of_order:
            return self._smallest_number()
        if self.tuples_in_window:
            return int(self.window.number[self.window.codes.oldest(1)[0]])
        waiting = self._buffer.peek(1)
        return self._buffer.next_number if waiting is None else int(waiting.number[0])

    def _smallest_number(self) -> int:
        """Look through all tuples: those that came back from load shedding are older than others before them."""
        numbers = [self._buffer.next_number]
        if self._buffer.oldest_number is not None:
            numbers.append(self._buffer.oldest_number)
        if self.tuples_in_window:
            numbers.append(int(self.window.number[self.window.codes.oldest(self.tuples_in_window)].min()))
        return min(numbers)

    # --- tuples come in ---------------------------------------------------------------------------------------------

    def accept(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64] | None = None) -> int:
        """Take rows from the front of ``batch`` into the stream buffer and return how many.

        Tuples with ``numbers`` come back from load shedding.
        """
        try:
            return self._accept(batch, numbers)
        except TupleTooLarge:
            if self.pending or self._reclaim is None or not self._reclaim():
                raise
            return self._accept(batch, numbers)

    def _accept(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64] | None) -> int:
        self._out_of_order = numbers is not None or (self._out_of_order and self.pending > 0)
        before = None if self._window is None else self._varlen
        try:
            if self._window is None:
                self._shape_window(VarlenSizes.of(batch))
            if self._has_text:
                batch = self._rows_that_fit_the_ring(batch)
            return self._buffer.accept(batch, numbers) if batch.num_rows else 0
        except TupleTooLarge:
            if self.pending == 0:
                # It may have been shaped for the tuple that is refused, and others are to come.
                self._window = None
                if before is not None:
                    self._shape_window(before)
            raise

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

    def _shape_window(self, varlen: VarlenSizes, tuples: int = 1, text_bytes: int = 0) -> None:
        """Make an empty window with room for so many tuples and so much text at once."""
        self._window = None
        shape = self._shape_for(varlen, self._window_bytes, self._max_tuples, tuples, text_bytes)
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
            tuples = WindowShape.fitting(
                self._matching, self._spec.stream_schema, self._ordered, VarlenSizes(0.0, 0), self._max_window_bytes
            )
            max_shape = WindowShape(max(tuples.capacity, shape.capacity), max(self._max_window_bytes, shape.ring_bytes))
        return TupleWindow(self._spec.stream_schema, self._matching, shape, self._ordered, max_shape)

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

    # --- the stream buffer, and the way into the window -------------------------------------------------------------

    def waiting(self, count: int) -> Arrivals | None:
        """Return up to ``count`` of the oldest tuples in the stream buffer, which stay there, or None."""
        return self._buffer.peek(count)

    @property
    def room_tuples(self) -> int:
        """About how many more tuples the stream buffer has room for, going by those that are there."""
        if not self._buffer.num_rows:
            return self._buffer.capacity_bytes
        free_bytes = max(0, self._buffer.capacity_bytes - self._buffer.nbytes)
        return free_bytes * self._buffer.num_rows // self._buffer.nbytes

    def buffered_at(self, positions: npt.NDArray[np.int64]) -> Iterator[Arrivals]:
        """Yield the tuples at these positions of the stream buffer, the oldest being at 0, a few at a time."""
        return self._buffer.at(positions)

    def remove_buffered(self, positions: npt.NDArray[np.int64]) -> None:
        """Remove the tuples at these positions from the stream buffer."""
        self._buffer.remove(positions)

    def consume(self, count: int) -> None:
        """Remove the ``count`` oldest tuples from the stream buffer."""
        self._buffer.consume(count)

    def fitting(self, arrivals: Arrivals) -> int:
        """Return how many of these tuples, from the first on, the window has room for."""
        rows = self.window.fitting_rows(arrivals.batch)
        assert rows or len(self.window), "an empty window has room for any tuple that was accepted"
        return rows

    def insert(self, arrivals: Arrivals, window_code: npt.NDArray[np.int64]) -> None:
        """Put tuples into the window under these codes; the caller asked whether they fit."""
        self.window.insert(window_code, arrivals.batch, arrivals.number)

    # --- changing size ----------------------------------------------------------------------------------------------

    def resize(
        self,
        window_bytes: int,
        *,
        buffer_bytes: int | None = None,
        max_tuples: int | None = None,
        spare_bytes: int = 0,
    ) -> None:
        """Change the shares while tuples are pending.

        Parameters
        ----------
        buffer_bytes
            None leaves the share of the stream buffer as it is.
        spare_bytes
            How much more than the new shares the pending tuples may hold until enough of them have left:
            `shrink_to_share` gives it back.

        Raises
        ------
        InvalidArgument
            When they do not fit the new shares and ``spare_bytes``, or have to be copied and that would take more than
            the larger of both; nothing is changed.
        """
        buffer_bytes = self._buffer.capacity_bytes if buffer_bytes is None else buffer_bytes
        waiting_bytes = max(0, self._buffer.nbytes - buffer_bytes)
        if waiting_bytes > spare_bytes:
            raise InvalidArgument(
                f"{self._buffer.num_rows} tuples wait in the stream buffer, more than {buffer_bytes} bytes hold: "
                "step before"
            )
        if self._window is not None:
            self._varlen = self._varlen_for(self._largest_pending(), window_bytes)
            self._resize_window(window_bytes, max_tuples, spare_bytes - waiting_bytes)
        self._buffer.capacity_bytes = buffer_bytes
        self._window_bytes = window_bytes
        self._max_tuples = max_tuples
        self._spare_bytes = spare_bytes

    def can_resize(self, window_bytes: int) -> bool:
        """Return whether the tuples of the window allow it another share in place."""
        if self._window is None:
            return True
        shape = self._new_shape(window_bytes, self._max_tuples)
        return shape.capacity >= max(1, len(self._window)) and self._window.can_resize(shape)

    def _largest_pending(self) -> int:
        """Return the most text of a tuple that is pending: one with more may have left long ago."""
        if not self._has_text:
            return 0
        in_window = self.window.store.sizes(self.window.codes.oldest(len(self.window)))
        sizes = [*(varlen_bytes(batch) for batch in self._buffer.batches()), in_window]
        return max((int(each.max()) for each in sizes if each is not None and each.size), default=0)

    def _varlen_for(self, largest: int, window_bytes: int) -> VarlenSizes:
        """Return the sizes to shape a window of so many bytes by: as measured, unless it would hold no tuple then."""
        varlen = VarlenSizes(self._varlen.mean, largest)
        if self._shape_for(varlen, window_bytes, None, 1, 0).capacity:
            return varlen
        return VarlenSizes(min(varlen.mean, largest / 2), largest)

    def capacity_for(self, window_bytes: int) -> int:
        """Return how many tuples like those in the window one of this size would hold; 0 when it cannot be."""
        if self._window is None:
            return 0
        shape = self._shape_for(self._varlen, window_bytes, self._max_tuples, 1, 0)
        text_bytes = self._window.store.live_ring_bytes
        return min(shape.capacity, shape.ring_bytes * len(self._window) // text_bytes) if text_bytes else shape.capacity

    def _new_shape(self, window_bytes: int, max_tuples: int | None) -> WindowShape:
        text_bytes = self.window.store.live_ring_bytes
        return self._shape_for(self._varlen, window_bytes, max_tuples, len(self.window), text_bytes)

    def _resize_window(self, window_bytes: int, max_tuples: int | None, spare_bytes: int) -> None:
        tuples = len(self.window)
        shape = self._new_shape(window_bytes, max_tuples)
        if shape.capacity >= max(1, tuples) and self._reshape(shape, window_bytes):
            self._is_within_share = True
            return
        between = self._least_shape()
        held_bytes = self._bytes_of(between if self.window.can_resize(between) else self.window.shape)
        if self._capacity_in(window_bytes, max_tuples) == 0 or held_bytes > window_bytes + spare_bytes:
            raise InvalidArgument(
                f"{tuples} tuples are pending and the window would hold {shape.capacity}: "
                "step or drain before, or raise memory="
            )
        if self.window.can_resize(between) and held_bytes < self._bytes_of(self.window.shape):
            self.window.resize(between)
        self._is_within_share = False
        self._entered_before = self.window.entered

    def _capacity_in(self, window_bytes: int, max_tuples: int | None) -> int:
        """Return how many tuples the window will hold once those that are pending have left it."""
        return self._shape_for(self._varlen, window_bytes, max_tuples, 1, 0).capacity

    def _least_shape(self) -> WindowShape:
        """Return the smallest shape that holds the tuples of the window."""
        return WindowShape(max(1, len(self.window)), max(self._varlen.largest, self.window.store.live_ring_bytes))

    def _bytes_of(self, shape: WindowShape) -> int:
        return sum(shape.nbytes(self._matching, self._spec.stream_schema, self._ordered))

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
        return self._is_within_share and self._buffer.nbytes <= self._buffer.capacity_bytes

    @property
    def most_to_enter(self) -> int:
        """How many tuples may enter a window that shrinks: as many as it will hold then."""
        if self._is_within_share:
            return self.capacity_tuples
        entered = self.window.entered - self._entered_before
        return max(0, self._capacity_in(self._window_bytes, self._max_tuples) - entered)

    def shrink_to_share(self) -> None:
        """Give back the memory of tuples that have left a window above its share."""
        if self._is_within_share:
            return
        shape = self._new_shape(self._window_bytes, self._max_tuples)
        if shape.capacity >= max(1, len(self.window)):
            self._is_within_share = self._reshape(shape, self._window_bytes)
        else:
            least = self._least_shape()
            much = self._bytes_of(least) <= self._bytes_of(self.window.shape) * (1 - _LEAST_CHANGE)
            if much and self.window.can_resize(least):
                self.window.resize(least)
        if len(self.window) == 0:
            self._entered_before = self.window.entered  # a tuple may have come that needs more than the share

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState({"out_of_order": self._out_of_order, "varlen": [self._varlen.mean, self._varlen.largest]})
        saved.put_part("buffer", self._buffer.state(exact=exact))
        if exact:
            saved.header["buffer_bytes"] = self._buffer.capacity_bytes
            saved.header["shares"] = {name.lstrip("_"): getattr(self, name) for name in _EXACT_FIELDS}
            if self._window is not None:
                saved.put_part("window", self._window.state())
        elif self._window is not None:
            saved.put_table("tuples", self._window.live_tuples().to_table())
        return saved

    def set_state(self, saved: SavedState) -> None:
        self._out_of_order = saved.header["out_of_order"]
        self._varlen = VarlenSizes(*saved.header["varlen"])
        if saved.exact:
            for name in _EXACT_FIELDS:
                setattr(self, name, saved.header["shares"][name.lstrip("_")])
            if "window" in saved.header:
                window = saved.part("window")
                self._window = self._make_window(WindowShape(**window.header["shape"]))
                self._window.set_state(window)
            self._buffer.capacity_bytes = saved.header["buffer_bytes"]
            self._buffer.set_state(saved.part("buffer"))
            return
        schema = self._spec.stream_schema
        if "tuples" in saved.arrays:
            self._put_back(LiveTuples.from_table(saved.table("tuples", schema), schema), saved.part("buffer"))
        spare_bytes = self._spare_bytes
        if not self._is_within_share:
            spare_bytes -= self._bytes_of(self.window.shape) - self._window_bytes
        self._buffer.set_state(saved.part("buffer"), spare_bytes)

    def _put_back(self, live: LiveTuples, buffered: SavedState) -> None:
        """Take the tuples of a snapshot into a window that has room for those in the buffer, too."""
        waiting = buffered.table("tuples").to_batches() if "tuples" in buffered.arrays else []
        largest = max((int(varlen_bytes(each).max()) for each in (live.batch, *waiting) if each.num_rows), default=0)
        varlen = self._varlen_for(largest, self._window_bytes)
        tuples, text_bytes = live.batch.num_rows, int(varlen_bytes(live.batch).sum())
        shape = self._shape_for(varlen, self._window_bytes, self._max_tuples, tuples, text_bytes)
        least = WindowShape(max(1, tuples), max(varlen.largest, text_bytes))
        if shape.capacity >= max(1, tuples):
            self._shape_window(varlen, tuples, text_bytes)
        elif (
            self._bytes_of(least) > self._window_bytes + self._spare_bytes
            or self._shape_for(varlen, self._window_bytes, self._max_tuples, 1, 0).capacity == 0
        ):
            raise _too_small_for_snapshot(tuples)
        else:
            self._varlen = varlen
            self._window = self._make_window(least)
            self._is_within_share = False
            self._entered_before = tuples  # those of the snapshot are about to be put back
        if self.window.fitting_rows(live.batch) < tuples:
            raise _too_small_for_snapshot(tuples)
        self.window.put_back(live)


def _too_small_for_snapshot(tuples: int) -> BudgetTooSmall:
    return BudgetTooSmall(
        f"memory= leaves no room for the {tuples} tuples that are pending in the snapshot: "
        "give at least the memory it was taken with"
    )
