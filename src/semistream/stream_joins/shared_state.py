"""The states of both streams, Sa and Sb, in one piece of memory whose shares follow what comes and what is purged.

::

    memory of the state   │ Sa: by key, in arrival order │ Sb │ free │

A state grows while there is memory, doubling; when there is none, the other gives up what it does not use.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.state.tuple_window import TupleWindow, VarlenSizes, WindowShape
from semistream.stream_joins.join_key import SIDES, JoinKey, Side, other

__all__ = ["SharedState"]

_FIRST_CAPACITY = 256
_LEAST_CAPACITY = 8
_SPAN_RUNS = 64  # whose tuples are saved together
_SPARE = 1.25  # of what a state holds, when it gives memory up

_Int64s = npt.NDArray[np.int64]


class _Codes:
    """Tuples lie in a state under the codes of their keys."""

    def __init__(self, key: JoinKey, side: Side) -> None:
        self._key = key
        self._side = side

    def stream_codes(self, batch: pa.RecordBatch) -> KeyCodes:
        return self._key.codes(self._side, batch)

    def window_codes(self, codes: _Int64s) -> KeyCodes:
        return KeyCodes(codes, None)

    def make_window(self, capacity: int, max_capacity: int | None = None) -> FifoMultimap:
        return FifoMultimap(capacity, max_capacity)

    def window_bytes(self, capacity: int) -> tuple[int, int]:
        return FifoMultimap.hash_bytes_for(capacity), FifoMultimap.queue_bytes_for(capacity)


class SharedState:
    """Sa and Sb.

    Parameters
    ----------
    state_bytes
        What both take together at most.

    Attributes
    ----------
    windows
        The tuples of the left and of the right stream.
    """

    def __init__(self, key: JoinKey, schemas: tuple[pa.Schema, pa.Schema], state_bytes: int) -> None:
        self._schemas = schemas
        self._codes = tuple(_Codes(key, side) for side in SIDES)
        self._state_bytes = state_bytes
        self._text = [VarlenSizes(0.0, 0), VarlenSizes(0.0, 0)]
        self._seen = [0, 0]
        first = min(
            _FIRST_CAPACITY, self._largest(SIDES[0], state_bytes // 2), self._largest(SIDES[1], state_bytes // 2)
        )
        self.windows = [
            TupleWindow(
                schemas[side],
                self._codes[side],
                WindowShape(first, 0),
                True,
                WindowShape(self._largest(side, state_bytes), state_bytes),
            )
            for side in SIDES
        ]

    @staticmethod
    def least_bytes(schemas: tuple[pa.Schema, pa.Schema], key: JoinKey) -> int:
        """Return what a state of some tuples of each stream takes."""
        return sum(
            sum(WindowShape(_LEAST_CAPACITY, 0).nbytes(_Codes(key, side), schemas[side], True)) for side in SIDES
        )

    def by_key(self, side: Side) -> FifoMultimap:
        """Return where the tuples of a stream lie, by key."""
        codes = self.windows[side].codes
        assert isinstance(codes, FifoMultimap)
        return codes

    def side_bytes(self, side: Side) -> int:
        """What one of them takes."""
        return self.windows[side].hash_bytes + self.windows[side].queue_bytes

    def make_room(self, side: Side, batch: pa.RecordBatch) -> int:
        """Return how many of the first rows fit, once the memory has been shared out for them."""
        window = self.windows[side]
        fitting = window.fitting_rows(batch)
        if fitting == batch.num_rows:
            return fitting
        self._measure(side, batch)
        if not self._grow(side, batch, self._state_bytes - self.side_bytes(other(side))):
            self._shrink(other(side))
            self._grow(side, batch, self._state_bytes - self.side_bytes(other(side)))
            if window.fitting_rows(batch) == 0:
                self._reshape(side, batch, self._state_bytes - self.side_bytes(other(side)))
        return window.fitting_rows(batch)

    def portions(self, side: Side, most_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of a stream, oldest first, each portion from one span of time, for a snapshot."""
        window = self.windows[side]
        slots = window.codes.oldest(len(window))
        spans = window.number[slots] // _SPAN_RUNS
        ends = [*(np.flatnonzero(np.diff(spans)) + 1).tolist(), slots.size]
        start = 0
        for end in ends if slots.size else ():
            sizes = window.store.sizes(slots[start:end])
            per_row = window.store.fixed_bytes + (0.0 if sizes is None else float(sizes.mean()))
            step = max(1, int(most_bytes / max(1.0, per_row)))
            for at in range(start, end, step):
                tuples = window.tuples(slots[at : min(at + step, end)])
                yield from tuples.to_table().to_batches()
            start = end

    def _measure(self, side: Side, batch: pa.RecordBatch) -> None:
        new, old, seen = VarlenSizes.of(batch), self._text[side], self._seen[side]
        total = seen + batch.num_rows
        mean = (old.mean * seen + new.mean * batch.num_rows) / total
        self._text[side], self._seen[side] = VarlenSizes(mean, max(old.largest, new.largest)), total

    def _grow(self, side: Side, batch: pa.RecordBatch, most_bytes: int) -> bool:
        """Let a state grow within its bytes, and return whether all rows fit then."""
        window = self.windows[side]
        wanted = max(2 * window.shape.capacity, len(window) + batch.num_rows)
        shape = self._shape(side, min(wanted, self._largest(side, most_bytes)))
        if shape.capacity <= window.shape.capacity or self._bytes(side, shape) > most_bytes:
            shape = self._shape(side, self._largest(side, most_bytes))
        larger = WindowShape(max(shape.capacity, window.shape.capacity), max(shape.ring_bytes, window.shape.ring_bytes))
        if larger != window.shape and self._bytes(side, larger) <= most_bytes:
            window.resize(larger)
        return window.fitting_rows(batch) == batch.num_rows

    def _reshape(self, side: Side, batch: pa.RecordBatch, most_bytes: int) -> None:
        """Let places become room for text, or the other way round: what comes is not like what has come."""
        window, sizes = self.windows[side], VarlenSizes.of(batch)
        low, high = 0, batch.num_rows
        while low < high:
            rows = (low + high + 1) // 2
            if self._bytes(side, self._shape_for(window, sizes, rows)) <= most_bytes:
                low = rows
            else:
                high = rows - 1
        if low:
            window.resize(self._shape_for(window, sizes, low))

    @staticmethod
    def _shape_for(window: TupleWindow, sizes: VarlenSizes, rows: int) -> WindowShape:
        """Return a shape for the tuples that a window has, and some more with text of these sizes."""
        more = WindowShape.with_text(rows, sizes)
        return WindowShape(len(window) + rows, int(window.store.live_ring_bytes * _SPARE) + more.ring_bytes)

    def _shrink(self, side: Side) -> None:
        """Let a state give up what it does not use."""
        window = self.windows[side]
        capacity = max(_LEAST_CAPACITY, int(len(window) * _SPARE))
        text_bytes = int(window.store.live_ring_bytes * _SPARE)
        smaller = WindowShape(min(window.shape.capacity, capacity), min(window.shape.ring_bytes, text_bytes))
        if smaller != window.shape:
            window.resize(smaller)

    def _shape(self, side: Side, capacity: int) -> WindowShape:
        return WindowShape.with_text(capacity, self._text[side])

    def _largest(self, side: Side, most_bytes: int) -> int:
        fitting = WindowShape.fitting(self._codes[side], self._schemas[side], True, self._text[side], most_bytes)
        return fitting.capacity

    def _bytes(self, side: Side, shape: WindowShape) -> int:
        return sum(shape.nbytes(self._codes[side], self._schemas[side], True))
