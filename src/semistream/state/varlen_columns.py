"""Text and binary values of tuples in slots: all columns share one ring of bytes.

::

    ring    ░░░░│ a │ b ││ d │░░░░░     │  │ gaps: values that were freed between live ones
                ▲ head       ▲ tail

Values are appended at the tail, those of a tuple together. Where tuples leave in order, the ring is reclaimed up to the
oldest live one; where they leave in any order, by closing the gaps.
"""

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.saved_state import Array, SavedState
from semistream.kernels.arrays import Int32s, Int64s, UInt8s
from semistream.kernels.arrow_views import is_varlen, valid_mask, varlen_parts
from semistream.kernels.byte_ring import (
    close_gaps,
    copy_into_ring,
    copy_out_of_ring,
    rotate,
    shift_starts,
    sort_by_start,
)
from semistream.kernels.elastic import ElasticArray, Moves

__all__ = ["VarlenColumns", "varlen_bytes"]

# Closing gaps moves all live values, so it has to free a fair share of the ring.
_WORTHWHILE_SHARE = 1 / 4


def _lengths(column: pa.Array) -> tuple[Int64s, UInt8s, Int32s]:
    offsets, data = varlen_parts(column)
    lengths = np.diff(offsets).astype(np.int32)
    mask = valid_mask(column)
    if mask is not None:
        lengths[~mask] = 0
    return offsets, data, lengths


def varlen_bytes(batch: pa.RecordBatch) -> Int64s:
    """Return the bytes of the text and binary values of every row."""
    total = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if is_varlen(column.type):
            total += _lengths(column)[2]
    return total


class VarlenColumns:
    """All text and binary columns: one start per tuple, one length per tuple and column, one ring of bytes."""

    def __init__(
        self,
        types: list[pa.DataType],
        capacity: int,
        ring_bytes: int,
        max_capacity: int | None,
        max_ring_bytes: int | None,
    ) -> None:
        self.types = types
        self._starts = ElasticArray(capacity, np.int64, max_capacity=max_capacity)
        self._lengths = ElasticArray(capacity, np.int32, columns=len(types), max_capacity=max_capacity)
        self._ring = ElasticArray(ring_bytes, np.uint8, max_capacity=max_ring_bytes)
        self._head = 0
        self._tail = 0
        self.live_bytes = 0

    @property
    def nbytes(self) -> int:
        return self._starts.values.nbytes + self._lengths.values.nbytes + self._ring.values.nbytes

    @property
    def ring_bytes(self) -> int:
        return self._ring.values.size

    @property
    def free_bytes(self) -> int:
        return self.ring_bytes - (self._tail - self._head)

    @property
    def room_bytes(self) -> int:
        """The bytes that can be written now, or after `compact` if that is worthwhile."""
        gaps = self._tail - self._head - self.live_bytes
        return self.free_bytes + (gaps if gaps >= self.ring_bytes * _WORTHWHILE_SHARE else 0)

    def put(self, slots: Int32s, columns: list[pa.Array]) -> None:
        parts = [_lengths(column) for column in columns]
        sizes = np.sum([lengths for _, _, lengths in parts], axis=0, dtype=np.int64)
        ends = self._tail + np.cumsum(sizes)
        # The kernel below checks no bounds.
        assert not slots.size or ends[-1] - self._head <= self.ring_bytes, "the caller checks that the values fit"
        at = ends - sizes
        self._starts.values[slots] = at
        for index, (offsets, data, lengths) in enumerate(parts):
            self._lengths.values[slots, index] = lengths
            copy_into_ring(data, offsets, lengths, self._ring.values, at)
            at = at + lengths
        if slots.size:
            self.live_bytes += int(ends[-1]) - self._tail
            self._tail = int(ends[-1])

    def take(self, index: int, slots: Int32s, validity: pa.Buffer | None) -> pa.Array:
        starts = self._starts.values.take(slots)
        for earlier in range(index):
            starts += self._lengths.values[slots, earlier]
        lengths = self._lengths.values[slots, index]
        dtype = self.types[index]
        wide = pt.is_large_string(dtype) or pt.is_large_binary(dtype)
        offsets = np.zeros(slots.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        copy_out_of_ring(self._ring.values, starts, lengths, data)
        narrow = offsets if wide else offsets.astype(np.int32)
        return pa.Array.from_buffers(dtype, slots.size, [validity, pa.py_buffer(narrow), pa.py_buffer(data)])

    def sizes(self, slots: Int32s) -> Int64s:
        return np.asarray(self._lengths.values[slots].sum(axis=1), dtype=np.int64)

    def free(self, slots: Int32s) -> None:
        self.live_bytes -= int(self.sizes(slots).sum())
        if self.live_bytes == 0:
            self._head = self._tail

    def reclaim(self, oldest_slot: int | None) -> None:
        # The start of a tuple without text may lie before the head.
        self._head = self._tail if oldest_slot is None else max(self._head, int(self._starts.values[oldest_slot]))

    def compact(self, live_slots: Int32s) -> None:
        starts, lengths = self._starts.values, self._lengths.values
        sort_by_start(live_slots, starts)
        self._tail = int(close_gaps(self._ring.values, live_slots, starts, lengths, np.int64(self._head)))
        assert self._tail - self._head == self.live_bytes, "every slot is live that was put and not freed"

    def resize(self, capacity: int, ring_bytes: int, moves: Moves, live_slots: Int32s) -> None:
        for values in (self._starts.values, self._lengths.values):
            moves.apply(values)
        if ring_bytes != self.ring_bytes:
            assert self.live_bytes <= ring_bytes, "the caller checks that the values fit"
            self._bring_to_the_front(live_slots)
            self._ring.resize(ring_bytes)
        self._starts.resize(capacity)
        self._lengths.resize(capacity)

    def state(self) -> SavedState:
        header = {"head": self._head, "tail": self._tail, "live_bytes": self.live_bytes}
        return SavedState(header, self._saved_arrays())

    def set_state(self, saved: SavedState, live_slots: Int32s) -> None:
        for name, values in self._saved_arrays().items():
            saved.fill(name, values)
        self._head = saved.whole_number("head")
        self._tail = saved.whole_number("tail", self._head, self._head + self.ring_bytes)
        lengths = self._lengths.values[live_slots]
        saved.require((lengths >= 0).all(), "texts of negative length")
        starts, sizes = self._starts.values[live_slots], lengths.sum(axis=1, dtype=np.int64)
        # The start of a tuple without text may lie before the head.
        least = np.where(sizes > 0, self._head, 0)
        saved.require(((starts >= least) & (starts <= self._tail - sizes)).all(), "texts outside of their ring")
        total = int(sizes.sum())
        self.live_bytes = saved.whole_number("live_bytes", total, min(total, self._tail - self._head))

    def _saved_arrays(self) -> dict[str, Array]:
        return {"starts": self._starts.values, "lengths": self._lengths.values, "ring": self._ring.values}

    def _bring_to_the_front(self, live_slots: Int32s) -> None:
        """Move live values to the first byte: there a place is the same modulo any size."""
        self.compact(live_slots)
        if self.live_bytes:
            rotate(self._ring.values, self._head % self.ring_bytes)
        shift_starts(live_slots, self._starts.values, -self._head)
        self._head, self._tail = 0, self.live_bytes
