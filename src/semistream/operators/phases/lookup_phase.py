"""The disk phase of joins that look up every tuple, through a buffer pool: S3 section 4.1."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from semistream.kernels.arrays import Bools, Int64s
from semistream.kernels.keys.key_codes import NULL_CODE, KeyCodes
from semistream.kernels.pages.page_search import expand_ranges
from semistream.operators.join import JoinInputs, Part
from semistream.operators.phases.buffer_pool import BufferPool, SlotSizes
from semistream.operators.phases.key_search import KeySearch
from semistream.operators.phases.read_counts import ReadCounts
from semistream.operators.window.matching import EqualityMatching, PairFilter, keys_are_valid, require_key_join
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.results import batch_bytes_for, byte_portions
from semistream.storage import Io, fixed_row_bits, row_bits
from semistream.storage.reading.raw_pages import PageShape, RowGather

__all__ = ["Accesses", "LookupMemory", "LookupPhase", "LookupSplit"]

_PAIR_BYTES = 12
_TEXT_BYTES = 16  # of each text of a row that is being copied: its address and its length
_LEAST_PAIRS = 64
_ACCESS_BYTES = 64  # which tuple asks for which page, sorted, and what was found there
_COPIES_OF_RESULTS = 4  # rows by page, joined, in stream order, beside the stream's columns

_NONE: Int64s = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class LookupSplit:
    """Shares of a budget, beside what is fixed."""

    stream_buffer_bytes: int
    cache_bytes: int
    pages_bytes: int  # for the buffer pool


@dataclass(frozen=True, kw_only=True)
class LookupMemory:
    """Memory needs of looking tuples up one by one, and the pages' share of the rest."""

    budget_bytes: int
    index_bytes: int  # of the directory of where pages lie, and their first keys
    num_pages: int
    slots: SlotSizes  # of the pool
    text_columns: int  # among those that are copied
    least_buffer_bytes: int  # of the stream

    @property
    def _pair_bytes(self) -> int:
        return _PAIR_BYTES + self.text_columns * _TEXT_BYTES

    @property
    def pair_rows(self) -> int:
        """How many pairs of a tuple and a row are found at once."""
        return int(np.clip(self.budget_bytes // 256 // self._pair_bytes, _LEAST_PAIRS, 65536))

    @property
    def max_accesses(self) -> int:
        """For how many pages tuples can ask in a step."""
        return int(np.clip(self.budget_bytes // 64 // _ACCESS_BYTES, 64, 1 << 20))

    @property
    def max_batch_bytes(self) -> int:
        return batch_bytes_for(self.budget_bytes) // 2

    @property
    def building_bytes(self) -> int:
        """What a step takes beside the pages: accesses, pairs, and results being built."""
        access_bytes = self.pair_rows * self._pair_bytes + self.max_accesses * _ACCESS_BYTES
        return access_bytes + self.max_batch_bytes * _COPIES_OF_RESULTS

    @property
    def index_and_slots_bytes(self) -> int:
        """The directory of pages, and where each lies in the pool."""
        return self.index_bytes + self.num_pages * BufferPool.BYTES_PER_PAGE

    @property
    def fixed_bytes(self) -> int:
        """What it takes whatever its share is."""
        return self.index_and_slots_bytes + self.building_bytes

    @property
    def least_pages_bytes(self) -> int:
        """The pool holds the largest page."""
        return self.slots.least_bytes


@dataclass(frozen=True)
class Accesses:
    """Which tuple of a chunk asks for which page, in the order of the tuples."""

    tuples: Int64s
    pages: Int64s

    def first(self, count: int) -> "Accesses":
        return Accesses(self.tuples[:count], self.pages[:count])


@dataclass(frozen=True)
class _Found:
    """Tuples of the chunk, each beside a row of ``master``; tuples before ``decided`` have all theirs."""

    tuples: Int64s
    master: pa.RecordBatch
    decided: int


def _take_column(batch: pa.RecordBatch, rows: pa.Array, name: str) -> pa.Array:
    taken: pa.Array = batch.column(name).take(rows)
    return taken


class LookupPhase(Part):
    """Looks up chunks of stream tuples in a clustered table.

    `memory` tells what it needs; `use` gives it that.
    """

    pool: BufferPool

    def __init__(self, inputs: JoinInputs, io: Io) -> None:
        table, self._spec, self._metrics = inputs.table, inputs.spec, inputs.metrics
        require_key_join(inputs.name, table, self._spec)
        self._reads = ReadCounts(self._metrics)
        self.keys = EqualityMatching(self._spec, key_order=table.key)
        self.filter = PairFilter(self._spec)
        self._reader = inputs.open_reader(io, "lookup")
        self._search = KeySearch(table, self.keys)
        self._shape = PageShape(table.schema, self._spec.needed_master_columns)
        self._fixed_row_bytes = _bytes_of(fixed_row_bits(self._spec.stream_schema))
        self.memory = LookupMemory(
            budget_bytes=inputs.budget_bytes,
            index_bytes=table.pages.nbytes,
            num_pages=table.pages.num_pages,
            slots=SlotSizes.of(self._reader, self._shape),
            text_columns=self._shape.text_columns,
            least_buffer_bytes=StreamBuffer.least_bytes(self._spec.stream_schema),
        )
        self._pair_access = np.empty(self.memory.pair_rows, dtype=np.int32)
        self._pair_row = np.empty(self.memory.pair_rows, dtype=np.int64)

    def use(self, pages_bytes: int) -> None:
        """Begin work with so many bytes for pages, beside the fixed ones."""
        self.pool = BufferPool(self._reader, self._shape, self.memory.slots, pages_bytes)

    def locate(self, codes: KeyCodes) -> tuple[Accesses, int]:
        """Return the pages that can hold each key (D2), for as many tuples as the budget allows, and their number."""
        asking, pages = self._search.pages_of(codes.valid_codes())
        order = np.argsort(asking, kind="stable")
        tuples, pages = codes.valid_rows()[asking[order]], pages[order]
        if tuples.size <= self.memory.max_accesses:
            return Accesses(tuples, pages), codes.code.size
        looked_up = max(1, int(tuples[self.memory.max_accesses]))
        return Accesses(tuples, pages).first(int(np.searchsorted(tuples, looked_up))), looked_up

    def answer(
        self,
        chunk: pa.RecordBatch,
        codes: KeyCodes,
        accesses: Accesses,
        found_rows: Callable[[Int64s, pa.RecordBatch], None] | None = None,
    ) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """Yield what leaves the join for a chunk: the tuple of every row, ascending, and the rows.

        ``found_rows`` is told of master rows with the keys of tuples, before any other condition is looked at.
        """
        matched = np.zeros(chunk.num_rows, dtype=np.bool_)
        answered = at = 0
        while at < accesses.pages.size:
            slots = self.pool.fetch(accesses.pages[at:])
            self._reads.update(self.pool.reads)
            portion = accesses.tuples[at : at + slots.size]
            at += slots.size
            end = int(accesses.tuples[at]) if at < accesses.tuples.size else chunk.num_rows
            for found in self._look_up(chunk, codes.code, portion, slots, end, found_rows):
                matched[found.tuples] = True
                yield self._results(chunk, found, matched, answered)
                answered = found.decided
        if answered < chunk.num_rows:
            nothing = _Found(_NONE, RowGather(self._shape, 0).finish(), chunk.num_rows)
            yield self._results(chunk, nothing, matched, answered)
        self._metrics.tuples_answered += chunk.num_rows
        self._metrics.tuples_through_disk += int(chunk.num_rows if codes.valid is None else codes.valid.sum())
        self._metrics.tuples_without_match += chunk.num_rows - int(matched.sum())

    def _look_up(
        self,
        chunk: pa.RecordBatch,
        codes: Int64s,
        tuples: Int64s,
        slots: Int64s,
        end: int,
        found_rows: Callable[[Int64s, pa.RecordBatch], None] | None,
    ) -> Iterator[_Found]:
        """Find the rows of tuples, each in the page of a slot; ``end`` is the first tuple that asks for later pages."""
        lows, highs = self._search.find(self.pool.pages, self.pool.page_in, slots, codes[tuples])
        at = offset = 0
        while at < lows.size:
            at, offset, filled = expand_ranges(lows, highs, at, offset, self._pair_access, self._pair_row)
            access, row = self._pair_access[:filled], self._pair_row[:filled]
            following = int(tuples[at]) if at < lows.size else end
            asking, slot = tuples[access], slots[access]
            whole = self._rows(slot, row)
            portions = byte_portions(whole.row_bytes() + self._tuple_bytes(chunk, asking), self.memory.max_batch_bytes)
            for portion in portions:
                rows = whole if len(portions) == 1 else self._rows(slot[portion], row[portion])
                asks = asking[portion]
                matching, master = self._matching(chunk, codes[asks], asks, rows.finish(), found_rows)
                yield _Found(matching, master, int(asking[portion.stop]) if portion.stop < filled else following)

    def _rows(self, slots: Int64s, rows: Int64s) -> RowGather:
        gather = RowGather(self._shape, rows.size)
        gather.add(self.pool.pages, slots, rows, np.arange(rows.size))
        return gather

    def _tuple_bytes(self, chunk: pa.RecordBatch, tuples: Int64s) -> int | Int64s:
        return (row_bits(chunk) // 8)[tuples] if self._fixed_row_bytes is None else self._fixed_row_bytes

    def _matching(
        self,
        chunk: pa.RecordBatch,
        codes: Int64s,
        tuples: Int64s,
        master: pa.RecordBatch,
        found_rows: Callable[[Int64s, pa.RecordBatch], None] | None,
    ) -> tuple[Int64s, pa.RecordBatch]:
        """Return the tuples that match the rows beside them, and these rows."""
        if (codes == NULL_CODE).any():
            keep = keys_are_valid(master, self._spec.master_keys, pa.array(np.arange(tuples.size)))
            tuples, master = tuples[keep], master.filter(pa.array(keep))
        if found_rows is not None:
            found_rows(tuples, master)
        if not self.filter.is_trivial:
            every = pa.array(np.arange(tuples.size))
            keep = self.filter.matches(master, every, partial(_take_column, chunk, pa.array(tuples)))
            if not keep.all():
                tuples, master = tuples[keep], master.filter(pa.array(keep))
        return tuples, master

    def _results(
        self, chunk: pa.RecordBatch, found: _Found, matched: Bools, answered: int
    ) -> tuple[Int64s, pa.RecordBatch]:
        """Return what leaves the join for the tuples from ``answered`` to ``found.decided``, in stream order."""
        how = self._spec.how
        if how in ("semi", "anti"):
            wanted = matched if how == "semi" else ~matched
            decided = np.flatnonzero(wanted[answered : found.decided]) + answered
            return decided, chunk.take(pa.array(decided)).cast(self._spec.output_schema)
        tuples, master = found.tuples, found.master.select(list(self._spec.master_columns))
        if how == "left":
            alone = np.flatnonzero(~matched[answered : found.decided]) + answered
            if alone.size:
                rows = pa.concat_arrays([pa.array(np.arange(tuples.size)), pa.nulls(alone.size, pa.int64())])
                tuples = np.concatenate([tuples, alone])
                order = np.argsort(tuples, kind="stable")
                tuples, master = tuples[order], master.take(rows.take(pa.array(order)))
        stream = chunk.take(pa.array(tuples)).columns
        return tuples, pa.RecordBatch.from_arrays([*stream, *master.columns], schema=self._spec.output_schema)

    def components(self) -> dict[str, int]:
        return {
            "index": self.memory.index_and_slots_bytes,
            "buffer pool": self.pool.nbytes,
            "looking up": self.memory.building_bytes,
        }

    def close(self) -> None:
        self._reader.close()

    def check(self) -> None:
        self.pool.check()


def _bytes_of(bits: int | None) -> int | None:
    return None if bits is None else bits // 8
