"""The window: the stream tuples that are being joined, with their codes, payload and whether they matched.

The multi-map (or ordered window) assigns slots; the payload arrays are indexed by them. The budget and measured tuple
sizes give the number of slots, and `TupleWindow.resize` changes it in place.
"""

from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.elastic import MOST_SLOTS, ElasticArray, Moves
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.state.tuple_store import TupleStore
from semistream.state.varlen_columns import varlen_bytes

__all__ = ["LiveTuples", "SlotWindow", "TupleWindow", "VarlenSizes", "WindowCodes", "WindowShape"]


# Text varies in length: with this room beyond the mean, slots run out before the ring does.
_RING_HEADROOM = 1.25


class SlotWindow(Protocol):
    """A first-in-first-out set of codes in slots: `FifoMultimap` or `OrderIndex`."""

    def __len__(self) -> int: ...
    @property
    def free(self) -> int: ...
    @property
    def hash_bytes(self) -> int: ...
    @property
    def queue_bytes(self) -> int: ...
    def insert(self, codes: Int64s, /) -> Int32s: ...
    def expire(self, count: int) -> Int32s: ...
    def oldest(self, count: int) -> Int32s: ...
    def state(self) -> SavedState: ...
    def set_state(self, saved: SavedState) -> None: ...


class WindowCodes(Protocol):
    """The codes under which a window keeps stream tuples."""

    def stream_codes(self, batch: pa.RecordBatch) -> KeyCodes:
        """Return the codes of stream tuples; a tuple that is not valid matches nothing."""

    def window_codes(self, codes: Int64s) -> KeyCodes:
        """Return the codes in the window of tuples with these stream codes; one that is not valid matches nothing."""

    def make_window(self, capacity: int, max_capacity: int | None = None) -> SlotWindow:
        """Return a window; it can be resized if there is a ``max_capacity``."""

    def window_bytes(self, capacity: int) -> tuple[int, int]:
        """Return (hash bytes, queue bytes) of a window of this capacity."""


@dataclass(frozen=True)
class VarlenSizes:
    """Measured bytes of text and binary values per tuple."""

    mean: float
    largest: int

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "VarlenSizes":
        sizes = varlen_bytes(batch)
        return cls(float(sizes.mean()), int(sizes.max()))

    @classmethod
    def of_state(cls, saved: SavedState) -> "VarlenSizes":
        """Return what the header of a state has as ``varlen``."""
        sizes = SavedState(dict(zip(("mean", "largest"), saved.header["varlen"], strict=True)))
        return cls(sizes.number("mean"), sizes.whole_number("largest"))


@dataclass(frozen=True)
class WindowShape:
    """The most tuples, and bytes of text and binary values, that a window holds."""

    capacity: int
    ring_bytes: int

    @classmethod
    def of_state(cls, saved: SavedState) -> "WindowShape":
        """Return the shape of a saved window: no larger than the arrays that it has."""
        shape, store = SavedState(saved.header["shape"]), saved.part("store")
        ring_bytes = store.array("varlen/ring").size if "varlen" in store.header else 0
        capacity = saved.array("matched").size
        return cls(
            shape.whole_number("capacity", capacity, capacity), shape.whole_number("ring_bytes", ring_bytes, ring_bytes)
        )

    @classmethod
    def fitting(
        cls, matching: WindowCodes, schema: pa.Schema, ordered: bool, varlen: VarlenSizes, window_bytes: int
    ) -> "WindowShape":
        """Return the largest shape that takes at most ``window_bytes``; its capacity may be 0."""
        low, high = 0, min(max(0, window_bytes), MOST_SLOTS)
        while low < high:
            middle = (low + high + 1) // 2
            if sum(cls.with_text(middle, varlen).nbytes(matching, schema, ordered)) <= window_bytes:
                low = middle
            else:
                high = middle - 1
        return cls.with_text(low, varlen)

    @classmethod
    def with_text(cls, capacity: int, varlen: VarlenSizes) -> "WindowShape":
        """Return the shape of a window for ``capacity`` tuples with text of these sizes."""
        return cls(capacity, max(varlen.largest, int(varlen.mean * _RING_HEADROOM * capacity)))

    def nbytes(self, matching: WindowCodes, schema: pa.Schema, ordered: bool) -> tuple[int, int]:
        """Return (H_S with payload, queue) bytes."""
        hash_bytes, queue_bytes = matching.window_bytes(self.capacity)
        per_tuple = TupleStore.fixed_bytes_per_tuple(schema) + 1 + (8 if ordered else 0)
        return hash_bytes + self.capacity * per_tuple + self.ring_bytes, queue_bytes


@dataclass(frozen=True)
class LiveTuples:
    """A copy of tuples of a window, oldest first."""

    batch: pa.RecordBatch
    matched: Bools
    number: Int64s | None

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes) + self.matched.nbytes + (0 if self.number is None else self.number.nbytes)

    def to_table(self) -> pa.Table:
        # Behind the stream's own columns and found by position: the stream may use any name.
        table = pa.Table.from_batches([self.batch]).append_column("matched", pa.array(self.matched))
        return table if self.number is None else table.append_column("number", pa.array(self.number))

    @classmethod
    def of_state(cls, saved: SavedState, name: str, schema: pa.Schema) -> "LiveTuples":
        """Return what a state has under the name that `to_table` was put as."""
        table, columns = saved.table(name, schema), len(schema)
        tuples = table.select(range(columns)).combine_chunks().to_batches()
        types = [pa.bool_(), pa.int64()][: table.num_columns - columns]
        saved.require(
            table.schema.types[columns:] == types and not any(column.null_count for column in table.columns[columns:]),
            f"columns of types {table.schema.types[columns:]} in {name!r} behind those of the stream",
        )
        return cls(
            batch=tuples[0] if tuples else pa.RecordBatch.from_pylist([], schema),
            matched=table.column(columns).to_numpy(),
            number=table.column(columns + 1).to_numpy() if table.num_columns > columns + 1 else None,
        )


class TupleWindow:
    """Tuples in slots with their codes, first in, first out."""

    def __init__(
        self,
        schema: pa.Schema,
        matching: WindowCodes,
        shape: WindowShape,
        ordered: bool,  # whether arrival numbers are kept, for output in stream order
        max_shape: WindowShape | None = None,  # the largest for `resize`; None for a window that is never resized
    ) -> None:
        self.shape = shape
        self._max_shape = max_shape
        max_capacity, max_ring_bytes = (max_shape.capacity, max_shape.ring_bytes) if max_shape else (None, None)
        self._schema = schema
        self._matching = matching
        self.codes = matching.make_window(shape.capacity, max_capacity)
        self.store = TupleStore(schema, shape.capacity, shape.ring_bytes, max_capacity, max_ring_bytes)
        self._matched = ElasticArray(shape.capacity, np.bool_, max_capacity=max_capacity)
        self._number = ElasticArray(
            shape.capacity if ordered else 0, np.int64, max_capacity=max_capacity if ordered else None
        )
        self.entered = 0  # how many tuples were inserted so far
        self._ordered = ordered

    @property
    def matched(self) -> Bools:
        """Per slot, whether the tuple has matched a master row."""
        return self._matched.values

    @property
    def number(self) -> Int64s:
        """Per slot, the tuple's arrival number; empty unless output follows stream order."""
        return self._number.values

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def hash_bytes(self) -> int:
        return self.codes.hash_bytes + self.store.nbytes + self.matched.nbytes + self.number.nbytes

    @property
    def queue_bytes(self) -> int:
        return self.codes.queue_bytes

    @property
    def ring_bytes(self) -> int:
        return self.store.ring_bytes

    def fitting_rows(self, batch: pa.RecordBatch) -> int:
        """Return how many of the next rows fit; `insert` closes gaps in the text for them."""
        return min(self.codes.free, self.store.fitting_rows(batch.slice(0, self.codes.free)))

    def insert(self, codes: Int64s, batch: pa.RecordBatch, numbers: Int64s | None) -> Int32s:
        """Insert tuples; ``numbers`` are their arrival numbers when output follows stream order."""
        if self.store.needs_compaction(batch):
            self.store.compact(self.codes.oldest(len(self)))
        slots = self.codes.insert(codes)
        self.store.put(slots, batch)
        self.matched[slots] = False
        self.entered += slots.size
        if self._ordered:
            assert numbers is not None
            self.number[slots] = numbers
        return slots

    def expire(self, count: int) -> Int32s:
        """Remove the oldest tuples; return their slots, whose payload stays readable until the next insert."""
        slots = self.codes.expire(count)
        self._free(slots)
        return slots

    def remove(self, codes: Int64s) -> Int32s:
        """Remove all tuples with these codes; return their slots, readable until the next insert."""
        assert isinstance(self.codes, FifoMultimap)
        slots = self.codes.delete(codes)
        if slots.size:
            self._free(slots)
        return slots

    def waiting_keys(self) -> tuple[Int64s, Int32s]:
        """Return every code in the window once, and how many tuples have it."""
        assert isinstance(self.codes, FifoMultimap)
        return self.codes.keys_with_at_least(1)

    def _free(self, slots: Int32s) -> None:
        self.store.free(slots)
        self.store.reclaim(int(self.codes.oldest(1)[0]) if len(self.codes) else None)

    def can_resize(self, shape: WindowShape) -> bool:
        """Return whether this window can ever take ``shape``; its tuples must fit it, too."""
        most = self._max_shape
        return (
            isinstance(self.codes, FifoMultimap)
            and most is not None
            and shape.capacity <= most.capacity
            and shape.ring_bytes <= most.ring_bytes
        )

    def resize(self, shape: WindowShape) -> None:
        """Take another shape in place; tuples may change slots, but keep their order."""
        assert self.can_resize(shape)
        assert len(self) <= shape.capacity
        assert self.store.live_ring_bytes <= shape.ring_bytes
        assert isinstance(self.codes, FifoMultimap)
        # Shrink first, then grow. Slots added to the store take no memory until they are used.
        moves = Moves.of(0)
        if shape.capacity < self.shape.capacity:
            moves = self.codes.resize(shape.capacity)
        text_slots = self.codes.oldest(len(self) if self.store.ring_bytes != shape.ring_bytes else 0)
        self.store.resize(shape.capacity, shape.ring_bytes, moves, text_slots)
        moves.apply(self.matched)
        self._matched.resize(shape.capacity)
        if self._ordered:
            moves.apply(self.number)
            self._number.resize(shape.capacity)
        if shape.capacity > self.shape.capacity:
            self.codes.resize(shape.capacity)
        self.shape = shape

    def state(self) -> SavedState:
        """Return everything as it lies; ``WindowShape(**state.header["shape"])`` is the shape to make a window for."""
        saved = SavedState({"shape": asdict(self.shape), "entered": self.entered})
        saved.put("matched", self.matched)
        saved.put("number", self.number)
        saved.put_part("codes", self.codes.state())
        saved.put_part("store", self.store.state())
        return saved

    def set_state(self, saved: SavedState) -> None:
        """Go on as the saved window would; this one is new and has its shape."""
        saved.fill("matched", self.matched)
        saved.fill("number", self.number)
        self.codes.set_state(saved.part("codes"))
        self.store.set_state(saved.part("store"), self.codes.oldest(len(self)))
        self.entered = saved.whole_number("entered", len(self))

    def live_tuples(self) -> LiveTuples:
        """Return a copy of all tuples, oldest first."""
        return self.tuples(self.codes.oldest(len(self)))

    def tuples(self, slots: Int32s) -> LiveTuples:
        batch = pa.RecordBatch.from_arrays(self.store.take(slots), schema=self._schema)
        return LiveTuples(batch, self.matched[slots], self.number[slots] if self._ordered else None)

    def put_back(self, tuples: LiveTuples) -> None:
        """Insert what `live_tuples` returned, into an empty window."""
        assert len(self) == 0
        codes = self._matching.window_codes(self._matching.stream_codes(tuples.batch).code).code
        slots = self.insert(codes, tuples.batch, tuples.number)
        self.matched[slots] = tuples.matched
