"""HYBRIDJOIN.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1).

R is clustered by key. The oldest stream tuple decides which partition of R is read, and the partition is joined with
every tuple that waits, not with that one alone. What is answered leaves, wherever it stands in the queue, and its place
is taken by new tuples. Frequent keys share partitions and leave early; a key that nobody else asks for is read for
when it has become the oldest.

::

    stream ─► stream buffer ─ w tuples ─► H_S (by partition) ◄─ search ─ disk buffer ◄─ a partition ─ R, clustered
                                          Q  (oldest first)                                ▲
                                          └─ the oldest tuple picks ───────────────────────┘

    memory M = disk buffer + index (where pages lie, their first keys, partitions) + stream buffer + H_S + Q
               + results being built (+ results that wait, for stream order)

Symbols
-------
==========  ============================  ==============================================
paper       here                          unit
==========  ============================  ==============================================
``M``       ``budget_bytes``              bytes
``vP``      ``_plan.read_bytes``          bytes of a partition, read b pages at a time
``w``       free places in ``_stream``    stream tuples read per iteration
``hS``      ``window_capacity_tuples``    stream tuples in H
==========  ============================  ==============================================

Deviations
----------
D1  A partition is a fixed range of keys, not "the rows from the oldest key on": Theorem 1 needs partitions that do not
    depend on who asks. It holds all rows of its keys, so that keys may have many rows, across pages and files.
D2  H is hashed by partition, not by key, and the tuples of a partition are searched in its sorted pages. Probing H with
    every row of the partition would find the tuples that match; this finds all that the partition answers, those
    without a match included, which must leave the queue too (the paper assumes that every tuple matches).
D3  A NULL key, and a key below all keys of R, match nothing and are answered when they are read.
D4  A partition larger than the disk buffer, which one key with many rows can make, is read in several parts.
D5  Stream tuples are read whenever there is room, whether or not w of them are there, and with nothing to read the
    work goes on until every tuple is answered (as the paper's text has it).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.kernels.key_codes import KeyCodes, bucket_ids
from semistream.kernels.multimap import FifoMultimap
from semistream.kernels.page_search import expand_ranges, search_pages
from semistream.operators.delivery import Delivery
from semistream.operators.matching import EqualityMatching, PairFilter, keys_are_valid, require_key_join
from semistream.operators.partitions import Partitions
from semistream.operators.registry import register
from semistream.operators.scan_plan import ScanPlan, ScanPlanner
from semistream.operators.step_operator import StepOperator
from semistream.operators.windowed_stream import WindowedStream
from semistream.storage import MasterTable, PageReader, ReadAhead

__all__ = ["Hybridjoin", "HybridjoinConfig"]

_LARGEST_READ_BYTES = 512 << 10  # a partition is read for one tuple at least: larger ones waste more of it

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class HybridjoinConfig:
    """Settings of HYBRIDJOIN beyond the budget.

    Attributes
    ----------
    b
        Pages of a partition; worked out from the budget by default.
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    b: int | None = None
    order: Order = "any"
    io: Literal["buffered", "drop_behind"] = "buffered"

    def __post_init__(self) -> None:
        if self.b is not None and self.b < 1:
            raise InvalidArgument(f"b={self.b} must be at least 1")
        require_order(self.order)


class _ByPartition:
    """Keeps stream tuples under the number of the partition that answers them (D2)."""

    def __init__(self, keys: EqualityMatching, partitions: Partitions, buckets: int) -> None:
        self._keys = keys
        self._partitions = partitions
        self._buckets = buckets

    def stream_codes(self, batch: pa.RecordBatch) -> KeyCodes:
        keys = self._keys.stream_codes(batch)
        partition = self._partitions.of(keys.code, bucket_ids(self._keys.coder, keys, self._buckets))
        valid = partition >= 0
        if keys.valid is not None:
            valid &= keys.valid
        return KeyCodes(partition, valid)

    def make_window(self, capacity: int, max_capacity: int | None = None) -> FifoMultimap:
        return FifoMultimap(capacity, max_capacity)

    def window_bytes(self, capacity: int) -> tuple[int, int]:
        return FifoMultimap.hash_bytes_for(capacity), FifoMultimap.queue_bytes_for(capacity)


@register("hybridjoin", HybridjoinConfig, ("clustered",))
class Hybridjoin(StepOperator):
    """Exact join of a stream with a clustered table, one partition for the oldest tuple at a time."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: HybridjoinConfig | None = None
    ) -> None:
        super().__init__(table, spec, budget_bytes)
        self.config = config or HybridjoinConfig()
        require_key_join("hybridjoin", table, spec)
        self._keys = EqualityMatching(spec, key_order=table.key)
        self._filter = PairFilter(spec)
        self._delivery = Delivery(spec, budget_bytes, ordered=self.config.order == "stream")
        self._reader = PageReader(table, columns=spec.needed_master_columns, io=self.config.io)
        self._found_tuple = np.empty(self._delivery.pair_rows.size, dtype=np.int32)
        self._found_row = np.empty(self._delivery.pair_rows.size, dtype=np.int64)
        self._plan, self._partitions = self._split(table, spec, budget_bytes)
        self._disk_buffer = ReadAhead(self._reader, self._plan.read_bytes)
        self._stream = WindowedStream(
            spec,
            _ByPartition(self._keys, self._partitions, table.buckets),
            ordered=self._delivery.ordered,
            buffer_bytes=self._plan.stream_buffer_bytes,
            window_bytes=self._plan.window_bytes,
            max_tuples=None,
        )
        self.partitions_read = 0

    def _split(self, table: MasterTable, spec: JoinSpec, budget_bytes: int) -> tuple[ScanPlan, Partitions]:
        pages = self._reader.pages
        planner = ScanPlanner(
            self._reader,
            spec,
            self._keys,
            budget_bytes=budget_bytes,
            other_bytes=self._delivery.reserved_bytes
            + self._found_tuple.nbytes
            + self._found_row.nbytes
            + Partitions.most_bytes(pages, table.buckets),
            ordered=self._delivery.ordered,
            what=f"hybridjoin on {table.path}",
            largest_read_bytes=_LARGEST_READ_BYTES,
        )
        plan = planner.plan(self.config.b)
        return plan, Partitions(pages, table.buckets, plan.b)

    @property
    def b(self) -> int:
        return self._plan.b

    @property
    def window_capacity_tuples(self) -> int:
        """How many tuples H_S can hold; 0 until the first tuples were measured."""
        return self._stream.capacity_tuples

    @property
    def pending(self) -> int:
        return self._stream.pending

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._stream.accept(batch)

    # --- the loop: Fig. 5 -----------------------------------------------------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        yield from self._read_stream()  # ll. 3-6
        if self._stream.tuples_in_window:
            partition = self._oldest_partition()  # l. 7
            yield from self._join_partition(partition)  # ll. 8-12
            yield from self._remove(partition)  # ll. 13-14
        if self._delivery.ordered:
            yield from self._delivery.release(self._stream.oldest_pending_number)

    def _read_stream(self) -> Iterator[pa.RecordBatch]:
        """Fill the places that came free, which is the paper's w."""
        admitted = self._stream.admit(self._stream.capacity_tuples - self._stream.tuples_in_window)
        if admitted.unmatchable is not None:  # D3
            self.metrics.tuples_answered += admitted.unmatchable.num_rows
            self.metrics.tuples_without_match += admitted.unmatchable.num_rows
            yield from self._delivery.outside(admitted.unmatchable, admitted.unmatchable_numbers)

    def _oldest_partition(self) -> int:
        codes = self._stream.window.codes
        assert isinstance(codes, FifoMultimap)
        return int(codes.codes_at(codes.oldest(1))[0])

    def _join_partition(self, partition: int) -> Iterator[pa.RecordBatch]:
        self.partitions_read += 1
        runs = self._runs(partition)
        for position, (first, count) in enumerate(runs):
            following = runs[position + 1] if position + 1 < len(runs) else None
            run = self._disk_buffer.read(first, count, then=following)
            run_codes = self._keys.master_codes(run).code
            for slots in self._tuples_of(partition):
                yield from self._search(run, run_codes, slots)
        self.metrics.pages_read = self._disk_buffer.pages_read
        self.metrics.bytes_read = self._disk_buffer.bytes_read

    def _runs(self, partition: int) -> list[tuple[int, int]]:
        """Return the reads that bring in a partition (D4)."""
        runs = []
        for first, end in self._partitions.page_ranges(partition):
            page = first
            while page < end:
                runs.append((page, self._reader.pages.run_length(page, min(self.b, end - page))))
                page += runs[-1][1]
        return runs

    def _tuples_of(self, partition: int) -> Iterator[_Int32s]:
        """Yield the slots of a partition's tuples in portions that are small enough to copy their keys."""
        window = self._stream.window
        assert isinstance(window.codes, FifoMultimap)
        rows, cursors = window.codes.probe(np.array([partition], dtype=np.int64))
        pair_rows, pair_slots = self._delivery.pair_rows, self._delivery.pair_slots
        at = 0
        while at < rows.size:
            at, filled = window.codes.pairs(rows, cursors, at, pair_rows, pair_slots)
            slots = pair_slots[:filled]
            for portion in self._delivery.portions(window, slots, 0, slots):
                yield slots[portion]

    def _search(self, run: pa.RecordBatch, run_codes: _Int64s, slots: _Int32s) -> Iterator[pa.RecordBatch]:
        """Find the tuples' keys among the rows of a run, which are sorted by key."""
        store = self._stream.window.store
        names = list(self.spec.stream_keys)
        keys = pa.RecordBatch.from_arrays([store.take_column(name, slots) for name in names], names=names)
        codes = self._keys.stream_codes(keys).code
        lows, highs = np.empty_like(codes), np.empty_like(codes)
        starts = np.zeros_like(codes)
        search_pages(run_codes, starts, starts + run_codes.size, codes, lows, highs)
        row_bytes = self._delivery.row_bytes(run)
        at = offset = 0
        while at < lows.size:
            at, offset, filled = expand_ranges(lows, highs, at, offset, self._found_tuple, self._found_row)
            found, rows = slots[self._found_tuple[:filled]], self._found_row[:filled]
            for portion in self._delivery.portions(self._stream.window, found, row_bytes, rows):
                yield from self._join_pairs(run, rows[portion], found[portion])

    def _join_pairs(self, run: pa.RecordBatch, rows: _Int64s, slots: _Int32s) -> Iterator[pa.RecordBatch]:
        store = self._stream.window.store
        positions = pa.array(rows)
        keep = keys_are_valid(run, self.spec.master_keys, positions)
        if not self._filter.is_trivial:
            keep &= self._filter.matches(run, positions, lambda name: store.take_column(name, slots))
        yield from self._delivery.matched(self._stream.window, slots[keep], run, rows[keep])

    def _remove(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Let all tuples of the partition leave, matched or not (D2), and begin to read for the next oldest."""
        window = self._stream.window
        slots = window.remove(partition)
        unmatched = slots[~window.matched[slots]]
        self.metrics.tuples_answered += slots.size
        self.metrics.tuples_through_disk += slots.size
        self.metrics.tuples_without_match += unmatched.size
        yield from self._delivery.unmatched(window, unmatched)
        if self._stream.tuples_in_window:
            self._disk_buffer.begin(*self._runs(self._oldest_partition())[0])

    # --- contract ---------------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {
            "disk buffer": self._plan.disk_bytes,
            "index": self._reader.pages.nbytes + self._partitions.nbytes,
            "stream buffer": self._stream.buffer_bytes,
            "H_S": self._stream.hash_bytes,
            "queue": self._stream.queue_bytes,
            "found": self._found_tuple.nbytes + self._found_row.nbytes,
            **self._delivery.components(),
        }

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "order": self.config.order}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header, tables = self._stream.state()
        return header, {**tables, **self._delivery.state()}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._stream.set_state(header, tables)
        self._delivery.set_state(tables)

    def _release(self) -> None:
        self._disk_buffer.close()
        self._reader.close()
        self._delivery.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        if self._stream.tuples_in_window:
            # A tuple leaves in the step that reads its partition, so none that waits has met a row.
            window = self._stream.window
            assert not window.matched[window.codes.oldest(len(window))].any()
