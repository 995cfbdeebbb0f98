"""INLJ: indexed nested-loop join over a clustered table, the baseline of the papers.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 4.1.

Each stream tuple is examined in turn and its master rows are found through a clustered index, with a buffer pool in
memory. What one look-up costs is not shared with other tuples, except by pages that happen to be in the pool.

::

    stream ─► stream buffer ─ w tuples ─► first keys of pages ─► buffer pool (LRU) ◄─ one page ─ R, clustered by key
                                                                     └─► rows found in the page ─► results

    memory M = index (where pages lie, and their first keys) + buffer pool + pages being searched
               + stream buffer + results being built

Symbols
-------
==========  ==========================  =======================
paper       here                        unit
==========  ==========================  =======================
``M``       ``budget_bytes``            bytes
--          ``w``                       stream tuples per step
==========  ==========================  =======================

Deviations
----------
D1  A step looks up w tuples, not one: pages are fetched in the order in which the tuples ask for them, and a page
    that several tuples of the step ask for is asked for once. A tuple is answered in the step that reads it, and
    results leave in stream order.
D2  A key's rows may cross pages, and lie in several sorted files after an append: each page that can hold the key
    is searched.
D3  A NULL key matches nothing and is answered without a look-up.
D4  The paper's index is a B+-tree on disk whose pages share the pool. Here it is the first key of every page, kept in
    memory, and the pool is what the budget leaves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.kernels.key_codes import KeyCodes, bucket_ids
from semistream.kernels.page_search import expand_ranges, search_pages
from semistream.operators.buffer_pool import BufferPool, PooledPage
from semistream.operators.matching import EqualityMatching, PairFilter, keys_are_valid, require_key_join
from semistream.operators.registry import register
from semistream.operators.results import batch_bytes_for, byte_portions
from semistream.operators.step_operator import StepOperator
from semistream.operators.stream_buffer import StreamBuffer
from semistream.storage import MasterTable, PageReader, row_bits

__all__ = ["Inlj", "InljConfig"]

_STREAM_BUFFER_SHARE = 1 / 16
_W = 1024
_LEAST_STREAM_BUFFER_BYTES = 16 << 10
_SEARCH_SHARE = 1 / 8
_PAIR_BYTES = 12
_ACCESS_BYTES = 64  # which tuple asks for which page, sorted, and what was found there
_COPIES_OF_RESULTS = 4  # rows by page, joined, in stream order, beside the stream's columns

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class InljConfig:
    """Settings of INLJ beyond the budget.

    Attributes
    ----------
    w
        Stream tuples per step.
    order
        Accepted for symmetry: INLJ answers in stream order either way.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    w: int | None = None
    order: Order = "any"
    io: Literal["buffered", "drop_behind"] = "buffered"

    def __post_init__(self) -> None:
        if self.w is not None and self.w < 1:
            raise InvalidArgument(f"w={self.w} must be at least 1")
        require_order(self.order)


@dataclass(frozen=True)
class _Accesses:
    """Which tuple of a chunk asks for which page, in the order of the tuples."""

    tuples: _Int64s
    pages: _Int64s

    def __getitem__(self, portion: slice) -> "_Accesses":
        return _Accesses(self.tuples[portion], self.pages[portion])


def _expand(asking: _Int64s, first_page: _Int64s, count: _Int64s) -> _Accesses:
    """Return an access for each of the ``count`` pages from ``first_page`` on, for every asking tuple."""
    first = np.cumsum(count) - count
    within = np.arange(count.sum()) - np.repeat(first, count)
    return _Accesses(np.repeat(asking, count), np.repeat(first_page, count) + within)


@dataclass(frozen=True)
class _Found:
    """Tuples of the chunk, each beside a row of ``master``; tuples before ``decided`` have all theirs."""

    tuples: _Int64s
    master: pa.RecordBatch
    decided: int


def _gather(pages: list[PooledPage], page_of_pair: _Int64s, row_of_pair: _Int64s) -> pa.RecordBatch:
    """Return one row of a page for every pair, in the order of the pairs."""
    order = np.argsort(page_of_pair, kind="stable")
    rows = row_of_pair[order]
    starts = np.flatnonzero(np.diff(page_of_pair[order], prepend=-1)).tolist()
    parts = [
        pages[page_of_pair[order[start]]].rows.take(pa.array(rows[start:stop]))
        for start, stop in zip(starts, [*starts[1:], rows.size], strict=True)
    ]
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return pa.concat_batches(parts).take(pa.array(place))


@register("inlj", InljConfig, ("clustered",))
class Inlj(StepOperator):
    """Exact join of a stream with a clustered table by looking up every tuple."""

    def __init__(self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: InljConfig | None = None) -> None:
        super().__init__(table, spec, budget_bytes)
        self.config = config or InljConfig()
        require_key_join("inlj", table, spec)
        StreamBuffer.require_supported(spec.stream_schema)
        self._pages = table.pages
        self._bucket_pages = [self._pages.for_bucket(bucket) for bucket in range(table.buckets)]
        self._matching = EqualityMatching(spec, key_order=table.key)
        self._filter = PairFilter(spec)
        self._reader = PageReader(table, columns=spec.needed_master_columns, io=self.config.io, access="lookup")
        self._no_master_rows = pa.RecordBatch.from_pylist([], self._reader.schema)
        self._pooled_bytes = BufferPool.bytes_for(self._reader, slice(None))
        largest_pooled = int(self._pooled_bytes.max())
        pair_rows = int(np.clip(budget_bytes // 256 // _PAIR_BYTES, 256, 65536))
        self._pair_access = np.empty(pair_rows, dtype=np.int32)
        self._pair_row = np.empty(pair_rows, dtype=np.int64)
        self._max_accesses = int(np.clip(budget_bytes // 64 // _ACCESS_BYTES, 64, 1 << 20))
        self._max_batch_bytes = batch_bytes_for(budget_bytes) // 2
        self._building_bytes = (
            pair_rows * _PAIR_BYTES + self._max_accesses * _ACCESS_BYTES + self._max_batch_bytes * _COPIES_OF_RESULTS
        )
        fixed = self._pages.nbytes + self._pooled_bytes.nbytes + self._building_bytes
        # The pool holds the largest page, and so does the space to search pages in.
        least_rest = int(2 * largest_pooled / (1 - _STREAM_BUFFER_SHARE)) + _LEAST_STREAM_BUFFER_BYTES + 1
        require_at_least(budget_bytes, fixed + least_rest, f"inlj on {table.path}")
        rest = budget_bytes - fixed
        buffer_bytes = max(_LEAST_STREAM_BUFFER_BYTES, int(rest * _STREAM_BUFFER_SHARE))
        # Pages that are searched together have to fit the pool together.
        self._search_bytes = min(max(largest_pooled, int(rest * _SEARCH_SHARE)), (rest - buffer_bytes) // 2)
        self._buffer = StreamBuffer(buffer_bytes)
        self._pool = BufferPool(self._reader, rest - buffer_bytes - self._search_bytes, self._page_codes)
        self.w = self.config.w or _W

    def _page_codes(self, rows: pa.RecordBatch) -> _Int64s:
        return self._matching.master_codes(rows).code

    @property
    def pending(self) -> int:
        return self._buffer.num_rows

    @property
    def buffered(self) -> int:
        return self._buffer.num_rows

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._buffer.offer(batch, self._matching.stream_codes)

    # --- one step: w tuples, each looked up -------------------------------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        waiting = self._buffer.peek(self.w)
        assert waiting is not None
        chunk, codes = waiting
        accesses, tuples = self._locate(codes)
        chunk = chunk.slice(0, tuples)
        matched = np.zeros(chunk.num_rows, dtype=np.bool_)
        answered = 0
        for portion in self._portions(accesses.pages):
            following = accesses.tuples[portion.stop : portion.stop + 1]
            end = int(following[0]) if following.size else chunk.num_rows
            for found in self._look_up(chunk, codes.code, accesses[portion], end):
                matched[found.tuples] = True
                yield self._results(chunk, found, matched, answered)
                answered = found.decided
        nothing = _Found(np.empty(0, dtype=np.int64), self._no_master_rows, chunk.num_rows)
        yield self._results(chunk, nothing, matched, answered)
        self._buffer.consume(chunk.num_rows)
        self.metrics.tuples_answered += chunk.num_rows
        self.metrics.tuples_through_disk += int(chunk.num_rows if codes.valid is None else codes.valid[:tuples].sum())
        self.metrics.tuples_without_match += chunk.num_rows - int(matched.sum())
        self.metrics.pages_read = self._pool.pages_read
        self.metrics.bytes_read = self._pool.bytes_read
        self.metrics.seeks = self._pool.seeks

    def _locate(self, codes: KeyCodes) -> tuple[_Accesses, int]:
        """Return the pages that can hold each key (D2), for as many tuples as the budget allows, and their number."""
        valid = np.arange(codes.code.size) if codes.valid is None else np.flatnonzero(codes.valid)
        buckets = bucket_ids(self._matching.coder, codes, self.table.buckets)[valid]
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
        tuples = max(1, int(np.searchsorted(np.cumsum(pages_per_tuple), self._max_accesses, side="right")))
        parts = [_expand(asking, low, np.where(asking < tuples, count, 0)) for asking, low, count in ranges]
        asked = np.concatenate([np.empty(0, dtype=np.int64), *(part.tuples for part in parts)])
        pages = np.concatenate([np.empty(0, dtype=np.int64), *(part.pages for part in parts)])
        order = np.argsort(asked, kind="stable")
        return _Accesses(asked[order], pages[order]), tuples

    def _portions(self, pages: _Int64s) -> Iterator[slice]:
        """Cut accesses so that the different pages of a portion can be searched together."""
        start = 0
        while start < pages.size:
            _, first_seen = np.unique(pages[start:], return_index=True)
            first_seen.sort()
            sizes = np.cumsum(self._pooled_bytes[pages[start:][first_seen]])
            fitting = max(1, int(np.searchsorted(sizes, self._search_bytes, side="right")))
            stop = pages.size if fitting == first_seen.size else start + int(first_seen[fitting])
            yield slice(start, stop)
            start = stop

    def _look_up(self, chunk: pa.RecordBatch, codes: _Int64s, accesses: _Accesses, end: int) -> Iterator["_Found"]:
        distinct, which = np.unique(accesses.pages, return_inverse=True)
        first_asked = np.argsort(np.unique(which, return_index=True)[1])
        pages: dict[int, PooledPage] = dict(
            zip(first_asked.tolist(), self._pool.get(distinct[first_asked].tolist()), strict=True)
        )
        in_order = [pages[position] for position in range(distinct.size)]
        bounds = np.concatenate([[0], np.cumsum([page.codes.size for page in in_order])])
        lows = np.empty(accesses.pages.size, dtype=np.int64)
        highs = np.empty_like(lows)
        search_pages(
            np.concatenate([page.codes for page in in_order]),
            bounds[which],
            bounds[which + 1],
            codes[accesses.tuples],
            lows,
            highs,
        )
        master_bytes = np.concatenate([row_bits(page.rows) // 8 for page in in_order])
        stream_bytes = row_bits(chunk) // 8
        at = offset = 0
        while at < lows.size:
            at, offset, filled = expand_ranges(lows, highs, at, offset, self._pair_access, self._pair_row)
            page_of_pair = which[self._pair_access[:filled]]
            row_of_pair = self._pair_row[:filled] - bounds[page_of_pair]
            tuples = accesses.tuples[self._pair_access[:filled]]
            following = int(accesses.tuples[at]) if at < lows.size else end
            pair_bytes = master_bytes[self._pair_row[:filled]] + stream_bytes[tuples]
            for portion in byte_portions(pair_bytes, self._max_batch_bytes):
                master = _gather(in_order, page_of_pair[portion], row_of_pair[portion])
                asking = tuples[portion]
                keep = self._is_match(chunk, asking, master)
                if not keep.all():
                    asking, master = asking[keep], master.filter(pa.array(keep))
                yield _Found(asking, master, int(tuples[portion.stop]) if portion.stop < filled else following)

    def _is_match(self, chunk: pa.RecordBatch, tuples: _Int64s, master: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        asking, rows = pa.array(tuples), pa.array(np.arange(tuples.size))
        keep = self._filter.matches(master, rows, lambda name: chunk.column(name).take(asking))
        return keep & keys_are_valid(master, self.spec.master_keys, rows)

    def _results(
        self, chunk: pa.RecordBatch, found: _Found, matched: npt.NDArray[np.bool_], answered: int
    ) -> pa.RecordBatch:
        """Return what leaves the join for the tuples from ``answered`` to ``found.decided``, in stream order."""
        how = self.spec.how
        if how in ("semi", "anti"):
            wanted = matched if how == "semi" else ~matched
            decided = np.flatnonzero(wanted[answered : found.decided]) + answered
            return chunk.take(pa.array(decided)).cast(self.spec.output_schema)
        tuples = found.tuples
        rows = pa.array(np.arange(tuples.size))
        if how == "left":
            alone = np.flatnonzero(~matched[answered : found.decided]) + answered
            tuples = np.concatenate([tuples, alone])
            order = np.argsort(tuples, kind="stable")
            tuples = tuples[order]
            rows = pa.concat_arrays([rows, pa.nulls(alone.size, pa.int64())]).take(pa.array(order))
        stream = chunk.take(pa.array(tuples)).columns
        master = found.master.select(list(self.spec.master_columns)).take(rows).columns
        return pa.RecordBatch.from_arrays([*stream, *master], schema=self.spec.output_schema)

    # --- contract -----------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {
            "index": self._pages.nbytes + self._pooled_bytes.nbytes,
            "buffer pool": self._pool.nbytes,
            "stream buffer": self._buffer.nbytes,
            "disk buffer": self._search_bytes,
            "results": self._building_bytes,
        }

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {}, {"buffer": pa.Table.from_batches(self._buffer.unread_pieces(), self.spec.stream_schema)}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        for piece in tables["buffer"].to_batches():
            if not self._buffer.put_back(piece, self._matching.stream_codes):
                raise BudgetTooSmall(
                    f"memory={self.budget_bytes} bytes has no room for the {tables['buffer'].num_rows} tuples that "
                    "wait in the snapshot: give at least the memory it was taken with"
                )

    def _release(self) -> None:
        self._reader.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        assert self._pool.nbytes <= self._pool.capacity_bytes
