"""The disk phase of joins that read R where a tuple asks: S1 Fig. 5.

One partition of a clustered table is read and joined with every tuple that waits for it. All of them leave.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes, bucket_ids
from semistream.kernels.pages.page_search import expand_ranges, search_pages
from semistream.operators.cache.front_stage import Collecting, FrontStage
from semistream.operators.join import JoinInputs, Part
from semistream.operators.phases.memory_plan import MemoryPlanner
from semistream.operators.phases.partitions import Partitions
from semistream.operators.phases.read_counts import ReadCounts
from semistream.operators.shedding.load_shedding import LoadShedding
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching, PairFilter, keys_are_valid, require_key_join
from semistream.state.tuple_window import TupleWindow
from semistream.storage import Io, MasterTable, ReadAhead

__all__ = ["PartitionCodes", "PartitionPhase"]

_PICKS = 64  # tuples, and the part of the queue that may have entered since they were looked up
_LARGEST_READ_BYTES = 512 << 10  # a partition is read for one tuple at least: larger ones waste more of it

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class PartitionCodes(EqualityMatching):
    """Equal keys, in a window that keeps its tuples under the partitions that answer them."""

    def __init__(self, spec: JoinSpec, table: MasterTable, partitions: Partitions) -> None:
        super().__init__(spec, key_order=table.key)
        self._partitions = partitions
        self._buckets = table.buckets

    def window_codes(self, codes: _Int64s) -> KeyCodes:
        """Return partitions; a key below all keys of R has none."""
        partition = self._partitions.of(codes, bucket_ids(self.coder, KeyCodes(codes, None), self._buckets))
        return KeyCodes(partition, partition >= 0)


class PartitionPhase(Part):
    """Fixed partitions of R, read one at a time."""

    # How many tuples of a key wait on average, as a share of those that wait when its partition is read: they gather
    # evenly from one reading to the next.
    OCCUPANCY: ClassVar[float] = 0.5

    def __init__(
        self,
        inputs: JoinInputs,
        delivery: Delivery,
        *,
        io: Io,
        b: int | None,  # pages of a partition; None for a good choice
        cache_share: float = 0.0,
        shedding: LoadShedding | None = None,  # tells which tuple picks a partition: one that will not be shed itself
    ) -> None:
        table, self._spec, self._metrics = inputs.table, inputs.spec, inputs.metrics
        require_key_join(inputs.name, table, self._spec)
        self.filter = PairFilter(self._spec)
        self._reader = inputs.open_reader(io, "lookup")
        self._delivery = delivery
        self._shedding = shedding
        self._reads = ReadCounts(self._metrics)
        self._found_tuple = np.empty(delivery.pair_rows.size, dtype=np.int32)
        self._found_row = np.empty(delivery.pair_rows.size, dtype=np.int64)
        # A window by partition takes as much as one by key.
        window_codes = EqualityMatching(self._spec)
        scanning = MemoryPlanner.of(inputs, self._reader, window_codes, delivery, shedding, cache_share)
        self.plan = self.planner(scanning, table.buckets, delivery).plan(b)
        self._partitions = Partitions(self._reader.pages, table.buckets, self.plan.b)
        self.codes = PartitionCodes(self._spec, table, self._partitions)
        self._disk_buffer = ReadAhead(self._reader, self.plan.read_bytes)
        self.partitions_read = 0
        self._picks: deque[int] = deque()
        self._picked_at = 0
        self._begun: int | None = None

    @staticmethod
    def planner(scanning: MemoryPlanner, buckets: int, delivery: Delivery) -> MemoryPlanner:
        """Return the planner for partitions of a table that a join with the planner ``scanning`` would scan."""
        pages = scanning.pages
        most_partitions_bytes = Partitions.bytes_for(pages.num_pages, buckets, len(pages.pages_per_file))
        return replace(
            scanning,
            other_bytes=scanning.other_bytes + PartitionPhase.found_bytes(delivery) + most_partitions_bytes,
            largest_read_bytes=_LARGEST_READ_BYTES,
            wants_page_beside=True,  # the first key of a partition may begin on the page before
        )

    @staticmethod
    def found_bytes(delivery: Delivery) -> int:
        """Return the memory for rows found: which tuple, and which row."""
        return int(delivery.pair_rows.size) * (4 + 8)

    def _oldest_partition(self, window: TupleWindow) -> int:
        codes = _multimap(window)
        return int(codes.codes_at(codes.oldest(1))[0])

    def pick(self, window: TupleWindow) -> int:
        """Return the partition being read ahead if tuples still wait for it, else that of the picking tuple."""
        begun, self._begun = self._begun, None
        if begun is not None and _waits(window, begun):
            return begun
        place = 0 if self._shedding is None else self._shedding.lookup_index(len(window))
        return self._partition_near(window, place)

    def _partition_near(self, window: TupleWindow, from_oldest: int) -> int:
        """Return the partition that a tuple near this place of the queue waits for, counted from the oldest."""
        # The way to a place in the middle is long: the tuples behind it serve the next calls, until the queue moved on.
        if from_oldest == 0:
            self._picks.clear()
            return self._oldest_partition(window)
        codes = _multimap(window)
        if window.entered - self._picked_at > len(window) // _PICKS:
            self._picks.clear()
        while True:
            if not self._picks:
                slots = codes.newest(len(window) - 1 - from_oldest, _PICKS)
                self._picks.extend(codes.codes_at(slots).tolist())
                self._picked_at = window.entered
            partition = self._picks.popleft()
            if _waits(window, partition):  # others may have had it read since
                return partition

    def join(
        self, window: TupleWindow, partition: int, front_stage: FrontStage | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Deliver the pairs of a partition's rows and its tuples, and let a front stage take in frequent keys."""
        self.partitions_read += 1
        runs = self._runs(partition)
        collecting = None
        for position, (first, count) in enumerate(runs):
            following = runs[position + 1] if position + 1 < len(runs) else None
            run = self._disk_buffer.read(first, count, then=following)
            run_codes = self.codes.master_codes(run).code
            for portion, (slots, codes) in enumerate(self._tuples_of(window, partition)):
                if front_stage is not None and position == portion == 0:
                    front_stage.measure(run)
                    distinct, waiting = np.unique(codes, return_counts=True)
                    collecting = front_stage.consider(distinct, waiting.astype(np.int32))
                yield from self._search(window, run, run_codes, slots, codes)
            if front_stage is not None and collecting is not None:
                self._collect(front_stage, collecting, run, run_codes)
        if front_stage is not None and collecting is not None:
            front_stage.take_in(collecting)
        self._reads.update(self._disk_buffer)

    def _runs(self, partition: int) -> list[tuple[int, int]]:
        """Return the reads that bring in a partition: several where one key fills more pages than a read takes."""
        runs = []
        for first, end in self._partitions.page_ranges(partition):
            page = first
            while page < end:
                runs.append((page, self._reader.pages.run_length(page, min(self.plan.read_pages, end - page))))
                page += runs[-1][1]
        return runs

    def _tuples_of(self, window: TupleWindow, partition: int) -> Iterator[tuple[_Int32s, _Int64s]]:
        """Yield slots and keys of a partition's tuples in portions that are small enough to copy their keys."""
        waiting = _multimap(window)
        rows, cursors = waiting.probe(np.array([partition], dtype=np.int64))
        pair_rows, pair_slots = self._delivery.pair_rows, self._delivery.pair_slots
        names = list(self._spec.stream_keys)
        at = 0
        while at < rows.size:
            at, filled = waiting.pairs(rows, cursors, at, pair_rows, pair_slots)
            slots = pair_slots[:filled]
            for portion in self._delivery.portions(window.store, slots, 0, slots):
                columns = [window.store.take_column(name, slots[portion]) for name in names]
                keys = pa.RecordBatch.from_arrays(columns, names=names)
                yield slots[portion], self.codes.stream_codes(keys).code

    def _search(
        self, window: TupleWindow, run: pa.RecordBatch, run_codes: _Int64s, slots: _Int32s, codes: _Int64s
    ) -> Iterator[pa.RecordBatch]:
        """Find the tuples' keys among the rows of a run, which are sorted by key."""
        lows, highs = _ranges(run_codes, codes)
        row_bytes = self._delivery.row_bytes(run)
        at = offset = 0
        while at < lows.size:
            at, offset, filled = expand_ranges(lows, highs, at, offset, self._found_tuple, self._found_row)
            all_found, all_rows = slots[self._found_tuple[:filled]], self._found_row[:filled]
            for portion in self._delivery.portions(window.store, all_found, row_bytes, all_rows):
                found, rows = all_found[portion], all_rows[portion]
                keep = keys_are_valid(run, self._spec.master_keys, pa.array(rows))
                if not self.filter.is_trivial:
                    column = partial(window.store.take_column, slots=found)
                    keep &= self.filter.matches(run, pa.array(rows), column)
                yield from self._delivery.matched(window, found[keep], run, rows[keep])

    def _collect(
        self, front_stage: FrontStage, collecting: Collecting, run: pa.RecordBatch, run_codes: _Int64s
    ) -> None:
        lows, highs = _ranges(run_codes, collecting.sets.codes)
        count = highs - lows
        front_stage.give_up(collecting, count)
        count[collecting.sets.given_up] = 0
        owners = np.repeat(np.arange(count.size), count)
        rows = np.repeat(lows - (np.cumsum(count) - count), count) + np.arange(owners.size)
        valid = keys_are_valid(run, self._spec.master_keys, pa.array(rows))
        collecting.sets.add(owners[valid], run, rows[valid])

    def remove(self, window: TupleWindow, partition: int) -> Iterator[pa.RecordBatch]:
        """Let all tuples of the partition leave, matched or not, and begin to read the next if it is known."""
        yield from self._delivery.leave(window, window.remove(np.array([partition])), self._metrics)
        place = 0 if self._shedding is None else self._shedding.lookup_index_after(len(window))
        if len(window) and place is not None:
            self._begun = self._partition_near(window, place)
            self._disk_buffer.begin(*self._runs(self._begun)[0])

    def components(self) -> dict[str, int]:
        return {
            "disk buffer": self.plan.disk_bytes,
            "index": self._reader.pages.nbytes + self._partitions.nbytes,
            "found": self.found_bytes(self._delivery),
        }

    def state(self, *, exact: bool) -> SavedState:
        if not exact:
            return SavedState()
        return SavedState({"picks": list(self._picks), "picked_at": self._picked_at, "begun": self._begun})

    def set_state(self, saved: SavedState) -> None:
        picks = saved.header["picks"]
        saved.require(isinstance(picks, list) and all(type(pick) is int for pick in picks), f"picks={picks!r}")
        self._picks = deque(np.array(picks, dtype=np.int64).tolist())
        # A partition for which no tuple waits is passed over.
        self._picked_at, self._begun = saved.whole_number("picked_at"), saved.whole_number_or_none("begun")

    def close(self) -> None:
        self._disk_buffer.close()
        self._reader.close()


def _multimap(window: TupleWindow) -> FifoMultimap:
    assert isinstance(window.codes, FifoMultimap)
    return window.codes


def _waits(window: TupleWindow, partition: int) -> bool:
    return bool(_multimap(window).count(np.array([partition], dtype=np.int64))[0])


def _ranges(run_codes: _Int64s, codes: _Int64s) -> tuple[_Int64s, _Int64s]:
    """Return where the rows of each code begin and end in a run."""
    lows, highs = np.empty_like(codes), np.empty_like(codes)
    starts = np.zeros_like(codes)
    search_pages(run_codes, starts, starts + run_codes.size, codes, lows, highs)
    return lows, highs
