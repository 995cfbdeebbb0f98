"""The disk phase of joins that look up every tuple, through a buffer pool: S3 section 4.1."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.kernels.keys.key_codes import KeyCodes, bucket_ids
from semistream.kernels.pages.page_search import expand_ranges, rows_of_ranges, search_pages
from semistream.operators.join import JoinInputs, Part
from semistream.operators.phases.buffer_pool import BufferPool, PooledPage
from semistream.operators.phases.read_counts import ReadCounts
from semistream.operators.window.matching import EqualityMatching, PairFilter, keys_are_valid, require_key_join
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.results import batch_bytes_for, byte_portions
from semistream.storage import Io, fixed_row_bits, row_bits

__all__ = ["Accesses", "LookupMemory", "LookupPhase", "LookupSplit"]

_SEARCH_SHARE = 1 / 8
_PAIR_BYTES = 12
_ACCESS_BYTES = 64  # which tuple asks for which page, sorted, and what was found there
_COPIES_OF_RESULTS = 4  # rows by page, joined, in stream order, beside the stream's columns
_PAGE_SIZE_BYTES = 8  # of the list of what each page takes in the pool
_SLICE_COLUMN_BYTES = 256  # of each column of a slice, however few rows it has

_Int64s = npt.NDArray[np.int64]
_NONE: _Int64s = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class LookupSplit:
    """Shares of a budget, beside what is fixed."""

    stream_buffer_bytes: int
    cache_bytes: int
    pages_bytes: int  # for the buffer pool and the space to search pages in


@dataclass(frozen=True, kw_only=True)
class LookupMemory:
    """Memory needs of looking tuples up one by one, and the pages' share of the rest."""

    budget_bytes: int
    index_bytes: int  # of the directory of where pages lie, and their first keys
    num_pages: int
    largest_page_bytes: int  # in the pool
    least_buffer_bytes: int  # of the stream

    @property
    def pair_rows(self) -> int:
        """How many pairs of a tuple and a row are found at once."""
        return int(np.clip(self.budget_bytes // 256 // _PAIR_BYTES, 256, 65536))

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
        access_bytes = self.pair_rows * _PAIR_BYTES + self.max_accesses * _ACCESS_BYTES
        return access_bytes + self.max_batch_bytes * _COPIES_OF_RESULTS

    @property
    def index_and_sizes_bytes(self) -> int:
        """The directory of pages, and what each takes in the pool."""
        return self.index_bytes + self.num_pages * _PAGE_SIZE_BYTES

    @property
    def fixed_bytes(self) -> int:
        """What it takes whatever its share is."""
        return self.index_and_sizes_bytes + self.building_bytes

    @property
    def least_pages_bytes(self) -> int:
        """The pool holds the largest page, and so does the space to search pages in."""
        return 2 * self.largest_page_bytes

    def search_bytes(self, pages_bytes: int) -> int:
        """Return how much of the memory for pages is for those that are searched together; they also fit the pool."""
        return min(max(self.largest_page_bytes, int(pages_bytes * _SEARCH_SHARE)), pages_bytes // 2)


@dataclass(frozen=True)
class Accesses:
    """Which tuple of a chunk asks for which page, in the order of the tuples."""

    tuples: _Int64s
    pages: _Int64s

    def __getitem__(self, portion: slice) -> "Accesses":
        return Accesses(self.tuples[portion], self.pages[portion])


@dataclass(frozen=True)
class _Found:
    """Tuples of the chunk, each beside a row of ``master``; tuples before ``decided`` have all theirs."""

    tuples: _Int64s
    master: pa.RecordBatch
    decided: int


def _gather(
    pages: list[PooledPage], page_of_pair: _Int64s, row_of_pair: _Int64s, max_slice_bytes: int
) -> pa.RecordBatch:
    """Return one row of a page for every pair, in the order of the pairs."""
    # Mostly each pair is of another page: slices cost a tenth of what taking from each page would.
    follows = (np.diff(page_of_pair) == 0) & (np.diff(row_of_pair) == 1)
    starts = np.flatnonzero(np.concatenate([[True], ~follows]))
    runs = page_of_pair[starts], row_of_pair[starts], np.diff(starts, append=row_of_pair.size)
    cuts = np.stack(runs, 1).tolist()
    # Slices of wide rows take more memory than the rows: they are copied together as soon as they fill their share.
    at_once = max(1, max_slice_bytes // (_SLICE_COLUMN_BYTES * pages[0].rows.num_columns))
    gathered = [
        pa.concat_batches([pages[page].rows.slice(row, count) for page, row, count in cuts[at : at + at_once]])
        for at in range(0, len(cuts), at_once)
    ]
    return gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered)


def _take_column(batch: pa.RecordBatch, rows: pa.Array, name: str) -> pa.Array:
    taken: pa.Array = batch.column(name).take(rows)
    return taken


class LookupPhase(Part):
    """Looks up chunks of stream tuples in a clustered table.

    `memory` tells what it needs; `use` gives it that.
    """

    def __init__(self, inputs: JoinInputs, io: Io) -> None:
        table, self._spec, self._metrics = inputs.table, inputs.spec, inputs.metrics
        require_key_join(inputs.name, table, self._spec)
        self._reads = ReadCounts(self._metrics)
        self._pages = table.pages
        self._bucket_pages = [self._pages.for_bucket(bucket) for bucket in range(table.buckets)]
        self.keys = keys = EqualityMatching(self._spec, key_order=table.key)
        self.filter = PairFilter(self._spec)
        self._reader = inputs.open_reader(io, "lookup")
        self._no_master_rows = pa.RecordBatch.from_pylist([], self._reader.schema)
        self._fixed_row_bits = fixed_row_bits(self._reader.schema)
        self.pool = BufferPool(self._reader, 0, lambda rows: keys.master_codes(rows).code)
        self.memory = LookupMemory(
            budget_bytes=inputs.budget_bytes,
            index_bytes=self._pages.nbytes,
            num_pages=self._pages.num_pages,
            largest_page_bytes=int(self.pool.page_bytes.max()),
            least_buffer_bytes=StreamBuffer.least_bytes(self._spec.stream_schema),
        )
        self._pair_access = np.empty(self.memory.pair_rows, dtype=np.int32)
        self._pair_row = np.empty(self.memory.pair_rows, dtype=np.int64)
        self._search_bytes = 0

    def use(self, pages_bytes: int) -> None:
        """Begin work with so many bytes for pages, beside the fixed ones."""
        self._search_bytes = self.memory.search_bytes(pages_bytes)
        self.pool.capacity_bytes = pages_bytes - self._search_bytes

    def answer(
        self,
        chunk: pa.RecordBatch,
        codes: KeyCodes,
        accesses: Accesses,
        found_rows: Callable[[_Int64s, pa.RecordBatch], None] | None = None,
    ) -> Iterator[tuple[_Int64s, pa.RecordBatch]]:
        """Yield what leaves the join for a chunk: the tuple of every row, ascending, and the rows.

        ``found_rows`` is told of master rows with the keys of tuples, before any other condition is looked at.
        """
        matched = np.zeros(chunk.num_rows, dtype=np.bool_)
        answered = 0
        for portion in self._portions(accesses.pages):
            following = accesses.tuples[portion.stop : portion.stop + 1]
            end = int(following[0]) if following.size else chunk.num_rows
            for found in self._look_up(chunk, codes.code, accesses[portion], end, found_rows):
                matched[found.tuples] = True
                yield self._results(chunk, found, matched, answered)
                answered = found.decided
        nothing = _Found(_NONE, self._no_master_rows, chunk.num_rows)
        yield self._results(chunk, nothing, matched, answered)
        self._metrics.tuples_answered += chunk.num_rows
        self._metrics.tuples_through_disk += int(chunk.num_rows if codes.valid is None else codes.valid.sum())
        self._metrics.tuples_without_match += chunk.num_rows - int(matched.sum())
        self._reads.update(self.pool.reads)

    def locate(self, codes: KeyCodes) -> tuple[Accesses, int]:
        """Return the pages that can hold each key (D2), for as many tuples as the budget allows, and their number."""
        valid = np.arange(codes.code.size) if codes.valid is None else np.flatnonzero(codes.valid)
        buckets = bucket_ids(self.keys.coder, codes, len(self._bucket_pages))[valid]
        ranges = []
        pages_per_tuple = np.zeros(codes.code.size, dtype=np.int64)
        for bucket in np.unique(buckets):
            asking = valid[buckets == bucket]
            found = self._bucket_pages[bucket].locate(codes.code[asking])
            first_page = self._pages.bucket_bounds[bucket]
            for low, high in zip(found.lo, found.hi, strict=True):
                count = np.maximum(high - low, 0)
                ranges.append((asking, low + first_page, count))
                pages_per_tuple[asking] += count
        tuples = max(1, int(np.searchsorted(np.cumsum(pages_per_tuple), self.memory.max_accesses, side="right")))
        ranges = [(asking, low, np.where(asking < tuples, count, 0)) for asking, low, count in ranges]
        asked = np.concatenate([_NONE, *(np.repeat(asking, count) for asking, _, count in ranges)])
        pages = np.concatenate([_NONE, *(rows_of_ranges(low, count) for _, low, count in ranges)])
        order = np.argsort(asked, kind="stable")
        return Accesses(asked[order], pages[order]), tuples

    def _portions(self, pages: _Int64s) -> Iterator[slice]:
        """Cut accesses so that the different pages of a portion can be searched together."""
        start = 0
        while start < pages.size:
            _, first_seen = np.unique(pages[start:], return_index=True)
            first_seen.sort()
            sizes = np.cumsum(self.pool.page_bytes[pages[start:][first_seen]])
            fitting = max(1, int(np.searchsorted(sizes, self._search_bytes, side="right")))
            stop = pages.size if fitting == first_seen.size else start + int(first_seen[fitting])
            yield slice(start, stop)
            start = stop

    def _look_up(
        self,
        chunk: pa.RecordBatch,
        codes: _Int64s,
        accesses: Accesses,
        end: int,
        found_rows: Callable[[_Int64s, pa.RecordBatch], None] | None,
    ) -> Iterator[_Found]:
        distinct, which = np.unique(accesses.pages, return_inverse=True)
        first_asked = np.argsort(np.unique(which, return_index=True)[1])
        pages = dict(zip(first_asked.tolist(), self.pool.get(distinct[first_asked].tolist()), strict=True))
        in_order = [pages[position] for position in range(distinct.size)]
        bounds = np.concatenate([[0], np.cumsum([page.codes.size for page in in_order])])
        lows = np.empty(accesses.pages.size, dtype=np.int64)
        highs = np.empty_like(lows)
        all_codes = np.concatenate([page.codes for page in in_order])
        search_pages(all_codes, bounds[which], bounds[which + 1], codes[accesses.tuples], lows, highs)
        master_bytes = self._row_bytes(in_order)
        stream_bytes = row_bits(chunk) // 8
        at = offset = 0
        while at < lows.size:
            at, offset, filled = expand_ranges(lows, highs, at, offset, self._pair_access, self._pair_row)
            page_of_pair = which[self._pair_access[:filled]]
            row_of_pair = self._pair_row[:filled] - bounds[page_of_pair]
            tuples = accesses.tuples[self._pair_access[:filled]]
            following = int(accesses.tuples[at]) if at < lows.size else end
            pair_bytes = master_bytes[self._pair_row[:filled]] + stream_bytes[tuples]
            for portion in byte_portions(pair_bytes, self.memory.max_batch_bytes):
                master = _gather(in_order, page_of_pair[portion], row_of_pair[portion], self.memory.max_batch_bytes)
                asking = tuples[portion]
                every = pa.array(np.arange(asking.size))
                keep = keys_are_valid(master, self._spec.master_keys, every)
                if found_rows is not None:
                    found_rows(asking[keep], master.filter(pa.array(keep)))
                keep &= self.filter.matches(master, every, partial(_take_column, chunk, pa.array(asking)))
                if not keep.all():
                    asking, master = asking[keep], master.filter(pa.array(keep))
                yield _Found(asking, master, int(tuples[portion.stop]) if portion.stop < filled else following)

    def _row_bytes(self, pages: list[PooledPage]) -> _Int64s:
        """Return the bytes of every row of the pages, one page after the other."""
        if self._fixed_row_bits is None:
            return np.concatenate([row_bits(page.rows) // 8 for page in pages])
        return np.full(sum(page.codes.size for page in pages), self._fixed_row_bits // 8)

    def _results(
        self, chunk: pa.RecordBatch, found: _Found, matched: npt.NDArray[np.bool_], answered: int
    ) -> tuple[_Int64s, pa.RecordBatch]:
        """Return what leaves the join for the tuples from ``answered`` to ``found.decided``, in stream order."""
        how = self._spec.how
        if how in ("semi", "anti"):
            wanted = matched if how == "semi" else ~matched
            decided = np.flatnonzero(wanted[answered : found.decided]) + answered
            return decided, chunk.take(pa.array(decided)).cast(self._spec.output_schema)
        tuples = found.tuples
        rows = pa.array(np.arange(tuples.size))
        if how == "left":
            alone = np.flatnonzero(~matched[answered : found.decided]) + answered
            tuples = np.concatenate([tuples, alone])
            order = np.argsort(tuples, kind="stable")
            tuples = tuples[order]
            rows = pa.concat_arrays([rows, pa.nulls(alone.size, pa.int64())]).take(pa.array(order))
        stream = chunk.take(pa.array(tuples)).columns
        master = found.master.select(list(self._spec.master_columns)).take(rows).columns
        return tuples, pa.RecordBatch.from_arrays([*stream, *master], schema=self._spec.output_schema)

    def components(self) -> dict[str, int]:
        return {
            "index": self.memory.index_and_sizes_bytes,
            "buffer pool": self.pool.nbytes,
            "disk buffer": self._search_bytes,
            "looking up": self.memory.building_bytes,
        }

    def close(self) -> None:
        self._reader.close()

    def check(self) -> None:
        assert self.pool.nbytes <= self.pool.capacity_bytes
