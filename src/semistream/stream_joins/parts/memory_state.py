"""The states Sa and Sb in memory, and the in-memory stage of a join (S4, section 5.2).

::

    memory of the state   │ Sa: by key, in arrival order │ Sb │ free │

Both share one piece of memory. A state grows while there is some, doubling; when there is none, the other gives up
what it does not use.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import Array, LazyArrays, SavedState, table_array
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.state.tuple_window import LiveTuples, TupleWindow, VarlenSizes, WindowShape
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, JoinKey, Side, other
from semistream.stream_joins.parts.joined_rows import JoinedRows
from semistream.stream_joins.parts.part import Part

__all__ = ["LogicalTime", "MemoryState", "Tuples"]

_FIRST_CAPACITY = 256
_LEAST_CAPACITY = 8
_SPARE = 1.25  # of what a state holds, when it gives memory up
_PORTION_BYTES = 512 << 10  # of the tuples that are saved together
_SPAN_RUNS = 64  # whose tuples are saved together: a portion of old runs stays as it is until one of its tuples leaves


@dataclass(frozen=True)
class Tuples:
    """Tuples of a run, with the codes of their keys, and whether they have met a match."""

    rows: pa.RecordBatch
    codes: KeyCodes
    matched: Bools

    @classmethod
    def of(cls, rows: pa.RecordBatch, codes: KeyCodes) -> "Tuples":
        return cls(rows, codes, np.zeros(rows.num_rows, dtype=np.bool_))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def is_null(self) -> Bools:
        return np.zeros(len(self), dtype=np.bool_) if self.codes.valid is None else ~self.codes.valid

    def chosen(self, which: Bools) -> "Tuples":
        places = np.flatnonzero(which)
        if places.size == len(self):
            return self
        valid = None if self.codes.valid is None else self.codes.valid[places]
        codes = KeyCodes(self.codes.code[places], valid)
        return Tuples(self.rows.take(pa.array(places)), codes, self.matched[places])

    def after(self, count: int) -> "Tuples":
        return Tuples(self.rows.slice(count), self.codes.slice(count, len(self)), self.matched[count:])


@dataclass
class LogicalTime:
    """Counts what a join does, to order events."""

    now: int = 0
    last_run: int = 0  # when the last run began

    def tick(self) -> int:
        self.now += 1
        return self.now

    def begin_run(self) -> int:
        self.last_run = self.tick()
        return self.last_run


class MemoryState(Part):
    """The tuples of both streams in memory: a window each, in which a tuple's number is the time when it arrived.

    A saved state that does not fit calls ``make_space``, which takes tuples out of the memory, or raises.
    """

    def __init__(self, results: JoinedRows, state_bytes: int, make_space: Callable[[], None]) -> None:
        self.results = results
        self.key, self.how, self.metrics = results.key, results.how, results.metrics
        self.state_bytes = state_bytes
        self.time = LogicalTime()
        self._make_space = make_space
        self._codes = tuple(_Codes(self.key, side) for side in SIDES)
        self._text = [VarlenSizes(0.0, 0), VarlenSizes(0.0, 0)]
        self._seen = [0, 0]
        first = min(_FIRST_CAPACITY, *(self._largest(side, state_bytes // 2).capacity for side in SIDES))
        largest = [WindowShape(self._largest(side, state_bytes).capacity, state_bytes) for side in SIDES]
        self.windows = [
            TupleWindow(self.key.schemas[side], self._codes[side], WindowShape(first, 0), True, largest[side])
            for side in SIDES
        ]

    @staticmethod
    def least_bytes(key: JoinKey) -> int:
        shape = WindowShape(_LEAST_CAPACITY, 0)
        return sum(sum(shape.nbytes(_Codes(key, side), key.schemas[side], True)) for side in SIDES)

    @property
    def held(self) -> int:
        return len(self.windows[LEFT]) + len(self.windows[RIGHT])

    def by_key(self, side: Side) -> FifoMultimap:
        codes = self.windows[side].codes
        assert isinstance(codes, FifoMultimap)
        return codes

    def keys(self, side: Side) -> Int64s:
        """Return the codes of all keys of a stream, ascending."""
        return self.by_key(side).keys_with_at_least(1)[0]

    def row_bytes(self, side: Side, slots: Int32s) -> float:
        store = self.windows[side].store
        sizes = store.sizes(slots)
        return store.fixed_bytes + (0.0 if sizes is None or not slots.size else float(sizes.mean()))

    def probe(self, side: Side, tuples: Tuples) -> Iterator[PunctuatedBatch]:
        """Deliver the pairs of tuples that come with the state of the other stream, and note who has matched."""
        opposite, codes = other(side), tuples.codes
        window = self.windows[opposite]
        valid = None if codes.valid is None else np.flatnonzero(codes.valid).astype(np.int32)
        for found, slots, is_each_once in self.results.pairs(self.by_key(opposite), codes.valid_codes()):
            own: Int32s | None = found if valid is None else valid[found]
            if is_each_once and valid is None:
                own = None
                tuples.matched.fill(True)
            else:
                tuples.matched[own] = True
            if self.how == "left" and side == RIGHT:  # only left tuples leave without a match
                window.matched[slots] = True
            row_bytes = self.row_bytes(opposite, slots)
            yield from self.results.joined(side, tuples.rows, own, slots, window.store.take, row_bytes)

    def drop(self, side: Side, tuples: Tuples, which: Bools) -> Iterator[PunctuatedBatch]:
        """Let tuples go that can match nothing that comes: left ones without a match leave by themselves."""
        count = int(np.count_nonzero(which))
        self.metrics.dropped += count
        if count and side == LEFT and self.how == "left":
            alone = np.flatnonzero(which & ~tuples.matched)
            yield from self.results.left_alone(tuples.rows.take(pa.array(alone)).columns)

    def insert(self, side: Side, tuples: Tuples, arrived: int | Int64s) -> int:
        """Put tuples from the front into the state of their stream, and return how many; fewer than all: it is full."""
        window = self.windows[side]
        numbers = np.full(len(tuples), arrived, dtype=np.int64)
        taken = 0
        while taken < len(tuples):
            batch = tuples.rows.slice(taken)
            fitting = self._make_room(side, batch)
            if fitting == 0:
                break
            some = slice(taken, taken + fitting)
            slots = window.insert(tuples.codes.code[some], batch.slice(0, fitting), numbers[some])
            window.matched[slots] = tuples.matched[some]
            taken += fitting
        return taken

    def remove(self, side: Side, codes: Int64s) -> Iterator[PunctuatedBatch]:
        """Take all tuples with these keys out of a state; left ones without a match leave by themselves."""
        window = self.windows[side]
        slots = window.remove(codes)
        self.metrics.purged += slots.size
        if side == LEFT and self.how == "left":
            alone = slots[~window.matched[slots]]
            yield from self.results.left_alone(window.store.take(alone))

    def _make_room(self, side: Side, batch: pa.RecordBatch) -> int:
        """Return how many of the first rows fit, once the memory has been shared out for them."""
        window = self.windows[side]
        fitting = window.fitting_rows(batch)
        if fitting == batch.num_rows:
            return fitting
        self._measure(side, batch)
        if not self._grow(side, batch):
            self._shrink(other(side))
            self._grow(side, batch)
            if window.fitting_rows(batch) == 0:
                self._reshape(side, batch)
        return window.fitting_rows(batch)

    def side_bytes(self, side: Side) -> int:
        return self.windows[side].hash_bytes + self.windows[side].queue_bytes

    def _left_bytes(self, side: Side) -> int:
        return self.state_bytes - self.side_bytes(other(side))

    def _measure(self, side: Side, batch: pa.RecordBatch) -> None:
        new, old, seen = VarlenSizes.of(batch), self._text[side], self._seen[side]
        total = seen + batch.num_rows
        mean = (old.mean * seen + new.mean * batch.num_rows) / total
        self._text[side], self._seen[side] = VarlenSizes(mean, max(old.largest, new.largest)), total

    def _grow(self, side: Side, batch: pa.RecordBatch) -> bool:
        """Let a state grow, and return whether all rows fit then."""
        window, most_bytes = self.windows[side], self._left_bytes(side)
        wanted = max(2 * window.shape.capacity, len(window) + batch.num_rows)
        largest = self._largest(side, most_bytes)
        shape = WindowShape.with_text(min(wanted, largest.capacity), self._text[side])
        if shape.capacity <= window.shape.capacity or self._bytes(side, shape) > most_bytes:
            shape = largest
        larger = WindowShape(max(shape.capacity, window.shape.capacity), max(shape.ring_bytes, window.shape.ring_bytes))
        if larger != window.shape and self._bytes(side, larger) <= most_bytes:
            window.resize(larger)
        return window.fitting_rows(batch) == batch.num_rows

    def _reshape(self, side: Side, batch: pa.RecordBatch) -> None:
        """Turn slots into room for text, or the other way round: what comes is not like what has come."""
        window, sizes, most_bytes = self.windows[side], VarlenSizes.of(batch), self._left_bytes(side)

        def shape_for(rows: int) -> WindowShape:
            text_bytes = int(window.store.live_ring_bytes * _SPARE) + WindowShape.with_text(rows, sizes).ring_bytes
            return WindowShape(len(window) + rows, text_bytes)

        counts = range(1, batch.num_rows + 1)
        rows = bisect_right(counts, most_bytes, key=lambda rows: self._bytes(side, shape_for(rows)))
        if rows:
            window.resize(shape_for(rows))

    def _shrink(self, side: Side) -> None:
        """Let a state give up what it does not use."""
        window = self.windows[side]
        capacity = max(_LEAST_CAPACITY, int(len(window) * _SPARE))
        text_bytes = int(window.store.live_ring_bytes * _SPARE)
        smaller = WindowShape(min(window.shape.capacity, capacity), min(window.shape.ring_bytes, text_bytes))
        if smaller != window.shape:
            window.resize(smaller)

    def _largest(self, side: Side, most_bytes: int) -> WindowShape:
        return WindowShape.fitting(self._codes[side], self.key.schemas[side], True, self._text[side], most_bytes)

    def _bytes(self, side: Side, shape: WindowShape) -> int:
        return sum(shape.nbytes(self._codes[side], self.key.schemas[side], True))

    def components(self) -> dict[str, int]:
        return {"Sa": self.side_bytes(LEFT), "Sb": self.side_bytes(RIGHT)}

    def state(self) -> SavedState:
        """Return the tuples in portions, each made when it is asked for; unchanged tuples are in the same portions."""
        portions = [self._portions(side) for side in SIDES]
        arrays = {
            f"{side} {number}": partial(self._portion, side, slots)
            for side in SIDES
            for number, slots in enumerate(portions[side])
        }
        return SavedState({**asdict(self.time), "portions": [len(some) for some in portions]}, LazyArrays(arrays))

    def _portions(self, side: Side) -> list[Int32s]:
        """Return the slots of the tuples of a stream, oldest first, cut where a span of runs ends."""
        window = self.windows[side]
        slots = window.codes.oldest(len(window))
        span_ends = np.flatnonzero(np.diff(window.number[slots] // _SPAN_RUNS)) + 1
        portions = []
        for span in np.split(slots, span_ends):
            step = max(1, int(_PORTION_BYTES / max(1.0, self.row_bytes(side, span))))
            portions += [span[at : at + step] for at in range(0, span.size, step)]
        return portions

    def _portion(self, side: Side, slots: Int32s) -> Array:
        return table_array(self.windows[side].tuples(slots).to_table())

    def set_state(self, saved: SavedState) -> None:
        self.time.now = saved.whole_number("now")
        self.time.last_run = saved.whole_number("last_run", 0, self.time.now)
        portions = saved.whole_numbers("portions", len(SIDES))
        for side in SIDES:
            schema = self.key.schemas[side]
            for number in range(portions[side]):
                live = LiveTuples.of_state(saved, f"{side} {number}", schema)
                assert live.number is not None
                tuples = Tuples(live.batch, self.key.codes(side, live.batch), live.matched)
                at = 0
                while (at := at + self.insert(side, tuples.after(at), live.number[at:])) < len(tuples):
                    self._make_space()

    def check(self) -> None:
        for side in SIDES:
            self.by_key(side)._check()
        assert sum(self.components().values()) <= self.state_bytes


class _Codes:
    """Tuples lie in a state under the codes of their keys."""

    def __init__(self, key: JoinKey, side: Side) -> None:
        self._key = key
        self._side = side

    def stream_codes(self, batch: pa.RecordBatch) -> KeyCodes:
        return self._key.codes(self._side, batch)

    def window_codes(self, codes: Int64s) -> KeyCodes:
        return KeyCodes(codes, None)

    def make_window(self, capacity: int, max_capacity: int | None = None) -> FifoMultimap:
        return FifoMultimap(capacity, max_capacity)

    def window_bytes(self, capacity: int) -> tuple[int, int]:
        return FifoMultimap.hash_bytes_for(capacity), FifoMultimap.queue_bytes_for(capacity)
