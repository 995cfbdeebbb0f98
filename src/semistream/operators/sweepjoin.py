"""SWEEPJOIN: frequent keys from a cache, all other keys of a window in one sweep over the pages that can hold them.

It carries the idea of HYBRIDJOIN to its end: M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data
Warehousing", IJDWM 7(4), 2011 (S1), section 4; behind the front stage of CHYBRIDJOIN: M. A. Naeem, G. Dobbie,
C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?" (S2), section 3.2 and
Algorithm 3.

HYBRIDJOIN amortises the read of a partition, picked by the oldest tuple, over all waiting tuples that match in it. Here
every page that some tuple of a window needs is read, and each at most once: the different keys of the window are
sorted, located through the index of first keys, and the pages are read in that order, neighbours in one go and
the next ones fetched meanwhile. A tuple never waits for longer than its window.

::

    stream ─► stream buffer ─ w tuples ─┬─ pages in memory ─► rows where they lie ────────────┬─► results
                                        ├─ cached keys ─► hot rows ───────────────────────────┤
                                        └─ other keys, sorted ─► pages in order ─► rows found ┘
                                                                                  └─► learned by the cache

    memory M = index (where pages lie, and their first keys) + disk buffer + rows found + window
               + hot rows (and what replaces them) + stream buffer + results being built

Symbols
-------
==========  ==========================  ========================================================================
paper       here                        unit
==========  ==========================  ========================================================================
``M``       ``budget_bytes``            bytes
``w``       ``w``                       stream tuples of a window, which a step reads and answers
``H_R``     ``cache``                   master rows of frequent keys, in blocks
``b``       the buffer of ``disk``      bytes of pages searched together; in S2 rows read from the oldest key on
==========  ==========================  ========================================================================

Deviations
----------
D1  A window is the w oldest tuples of the stream buffer, whatever their keys, and one step answers all of them. Nothing
    waits from step to step, so that there is no H_S and no queue, and no single tuple picks what is read.
D2  Pages are the unit of reading, not partitions of fixed size: the index has the first key of every page. A sweep
    takes as many of its pages as fit the disk buffer, then the next ones: b is room, not a number of rows.
D3  A key's rows may cross pages, and lie in several sorted files after an append: each page that can hold it is read.
D4  A NULL key matches nothing and is answered without a look-up.
D5  The cache may be shared by the processes of a host. What it holds never changes a result.
D6  What is cached goes by a sketch of how often keys were seen lately, hits and misses alike, not by S2's threshold and
    frequency recorder. These go by how many tuples wait for a key when its rows come by; here none wait, and most keys
    that are worth a place stand once in a window or not at all. The sketch counts over many windows, keys
    that are not cached too, in a fixed memory that processes can share.
D7  A key's rows are cached all or none, and a key without rows as empty. So they are taken only from a sweep that found
    everything in one portion, as between several a key's rows may be divided; w shrinks after a sweep that did not. A
    set of rows above a quarter of a block is never cached: it would push out too many keys.
D8  Pages that the operating system's page cache holds are used where they lie, once they were read and verified: their
    rows need no place in the cache of hot rows, and only other keys reach the sweep. While many of the pages wanted
    turn out to be evicted, memory is short: then the cache of hot rows is asked first, as it saves reads from the disk.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from semistream.core.arguments import require_count, require_number
from semistream.core.errors import InvalidArgument
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.kernels.arrays import Bools, Int64s
from semistream.operators.cache.hot_blocks import PrivateBlocks, SharedBlocks
from semistream.operators.cache.hot_rows import HotRows, RowRanges
from semistream.operators.config import JoinConfig
from semistream.operators.join import Join, JoinInputs, Part
from semistream.operators.phases.sweep_phase import Found, SweepMemory, SweepPhase
from semistream.operators.phases.sweep_results import RowsInMemory, SweepResults
from semistream.operators.registry import register
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.operators.window.stream_buffer import Arrivals, StreamBuffer
from semistream.storage.reading.resident_pages import PageRows

__all__ = ["SweepDelivery", "Sweepjoin", "SweepjoinConfig", "next_w", "row_bytes_of"]

_DELIVERY_SHARE = 1 / 4  # batches that leave are as large as a budget of so much of ours would make them
_TIGHT_BYTES, _ENOUGH_DELIVERY_BYTES = 1 << 20, 1 << 24  # of small budgets more: small batches cost much for each row
_SMALLEST_WINDOW_SHARE = 1 / 8  # of the largest window, to which windows may shrink


@dataclass(frozen=True, kw_only=True)
class SweepjoinConfig(JoinConfig):
    """Settings of SWEEPJOIN beyond the budget, and those of `JoinConfig`.

    Attributes
    ----------
    w
        Stream tuples per window at most; as many as the budget allows by default.
    cache_share
        The share of the memory that all else leaves which the cache of hot rows takes.
    cache_folder
        A folder for the cache, which other processes with the same table version, join and budget may share; in memory
        of its own by default, and where the folder cannot be written.
    cache_processes
        How many processes share it: each gives its share, and the cache is as large as all shares together.
    """

    w: int | None = None
    cache_share: float = 1.0
    cache_folder: str | None = None
    cache_processes: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("cache_processes", self.cache_processes)
        require_number("cache_share", self.cache_share)
        if self.cache_folder is not None and (not isinstance(self.cache_folder, str) or "\0" in self.cache_folder):
            raise InvalidArgument(f"cache_folder={self.cache_folder!r} is not the path of a folder: give one as text")
        if not 0 <= self.cache_share <= 1:
            raise InvalidArgument(f"cache_share={self.cache_share} must be at least 0 and at most 1")


@register("sweepjoin", SweepjoinConfig, ("clustered",), plain_stream_columns=True, caches=True)
class Sweepjoin(Join):
    """Exact join of a stream with a clustered table, a window of tuples at a time."""

    stream: StreamBuffer

    def __init__(self, inputs: JoinInputs, config: SweepjoinConfig) -> None:
        spec, self._metrics = inputs.spec, inputs.metrics
        StreamBuffer.require_supported(spec.stream_schema)
        columns = list(spec.needed_master_columns)
        self.disk = SweepPhase(inputs, columns, config.io)
        self._delivery = SweepDelivery(spec, inputs.budget_bytes, ordered=config.order == "stream")
        self._memory = SweepMemory.of(
            inputs.budget_bytes,
            str(inputs),
            index_bytes=self.disk.index_bytes,
            least_disk_bytes=self.disk.least_disk_bytes,
            least_buffer_bytes=StreamBuffer.least_bytes(spec.stream_schema),
            results_bytes_in=self._delivery.results_bytes_in,
            files_per_bucket=self.disk.files_per_bucket,
            cache_share=config.cache_share,
            w=config.w,
        )
        hot_rows = _HotRowsPart(inputs, columns, config, self._memory.cache_bytes)
        self.cache = hot_rows.cache
        self.disk.use(inputs.budget_bytes, self._memory.disk_bytes, self._memory.found_bytes)
        self.stream = StreamBuffer(
            self._memory.stream_buffer_bytes, self.disk.matching.stream_codes, inputs.spec.stream_schema
        )
        self._results = SweepResults(spec, PairFilter(spec), self._delivery)
        self._window_size = _WindowSize(self._memory)
        self.parts = {
            "window": self._window_size,
            "delivery": self._delivery,
            "stream": self.stream,
            "disk": self.disk,
            "cache": hot_rows,
        }

    # --- one step: S2's Algorithms 1 and 3 for a whole window (D1); line numbers are theirs --------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        window = self.stream.peek(self._window_size.w)  # Alg. 3, ll. 2-3
        assert window is not None
        self._results.begin(window)
        asked = np.arange(len(window)) if window.valid is None else np.flatnonzero(window.valid)  # D4
        with_key = asked.size
        hits = None
        if self.disk.memory_is_short:
            hits, asked = self._find_cached(window, asked)
        pages, in_place, left = self.disk.find_in_place(window.code, asked)  # D8
        in_memory = asked.size - left.size
        if hits is None and left.size:
            hits, left = self._find_cached(window, left)
        is_done = hits is None or (not left.size and not hits.has_any)
        for number, found in enumerate(in_place):
            assert pages is not None
            yield from self._results.add(found, pages, is_last=is_done and number == len(in_place) - 1)
        if hits is not None and not is_done:
            yield from self._sweep(window, left, hits)
        yield from self._results.end()  # Alg. 1, ll. 8-11: keys without a row
        self._count(len(window), with_key, in_memory, left.size)
        self.stream.consume(len(window))  # Alg. 1, ll. 17-18
        yield from self._delivery.release(lambda: int(window.number[-1]) + 1)

    def _find_cached(self, window: Arrivals, asked: Int64s) -> tuple["_Hits", Int64s]:
        """Look for hot rows, and return the tuples that have none."""
        codes = window.code[asked]
        self.cache.refresh()
        self.cache.record(codes)  # for Alg. 1, l. 16 (D6)
        cached = self.cache.find(codes, None)  # Alg. 3, l. 4
        is_hit = cached.count >= 0
        return _Hits(asked[is_hit], cached, is_hit), asked[~is_hit]  # Alg. 3, ll. 7-9

    def _sweep(self, window: Arrivals, left: Int64s, hits: "_Hits") -> Iterator[pa.RecordBatch]:
        """Answer tuples with hot rows, and those that are ``left``."""
        distinct, key_of = np.unique(window.code[left], return_inverse=True)  # Alg. 1, l. 7, for all keys
        blocks = self.cache.pages()
        row_counts = self.cache.block_rows()
        rows = hits.of_window(len(window))
        portions = 0
        for found in self.disk.look_up(distinct):  # Alg. 1, l. 12 (D2, D3)
            portions += 1
            if portions == 1 and found.is_last:
                self._offer_to_cache(distinct, found)  # Alg. 1, l. 19 (D6, D7)
            bounds = np.searchsorted(found.keys, np.arange(distinct.size + 1))
            rows.page[left], rows.row[left] = len(blocks), bounds[key_of]
            rows.rows[left] = bounds[key_of + 1] - bounds[key_of]
            source = RowsInMemory(
                self.cache.shape,
                [*blocks, self.cache.shape.serialised(found.rows)],
                [*row_counts, found.rows.num_rows],
            )
            # Alg. 1, ll. 13-15; with the first portion Alg. 3, l. 5
            yield from self._results.add(rows, source, is_last=found.is_last)
            rows.rows[:] = 0  # what was delivered is not delivered again
        self._window_size.adapt(portions)
        self.cache.learn()  # Alg. 1, ll. 20-21 (D6)

    @property
    def w(self) -> int:
        return self._window_size.w

    def _offer_to_cache(self, distinct: Int64s, found: Found) -> None:
        worth = self.cache.worth_caching(distinct)
        worth = worth[found.from_disk[worth]]  # the other pages are used in place from now on (D8)
        firsts, ends = np.searchsorted(found.keys, worth), np.searchsorted(found.keys, worth + 1)
        self.cache.offer(distinct[worth], firsts, ends - firsts, found.rows)

    def _count(self, tuples: int, with_key: int, in_memory: int, from_pages: int) -> None:
        self._metrics.tuples_answered += tuples
        self._metrics.tuples_in_place += in_memory
        self._metrics.tuples_through_disk += from_pages
        self._metrics.tuples_through_cache += with_key - in_memory - from_pages
        self._metrics.tuples_without_match += self._results.unmatched


class _Hits:
    """Tuples of a window whose rows are cached."""

    def __init__(self, tuples: Int64s, cached: RowRanges, is_hit: Bools) -> None:
        self._tuples = tuples
        self._cached = cached
        self._is_hit = is_hit
        self.has_any = tuples.size > 0

    def of_window(self, tuples: int) -> PageRows:
        """Return the rows of every tuple of the window: none for the others."""
        rows = PageRows(*np.zeros((3, tuples), dtype=np.int32))
        rows.page[self._tuples] = self._cached.block[self._is_hit]
        rows.row[self._tuples] = self._cached.first[self._is_hit]
        rows.rows[self._tuples] = self._cached.count[self._is_hit]
        return rows


class _HotRowsPart(Part):
    """The cache of hot rows, in memory of this process or in a folder that processes share."""

    def __init__(self, inputs: JoinInputs, columns: list[str], config: SweepjoinConfig, share_bytes: int) -> None:
        table, processes = inputs.table, config.cache_processes
        self.capacity_bytes, self._bytes_beside = HotRows.capacity_in(share_bytes, processes)
        schema = pa.schema([table.schema.field(name) for name in columns])
        row_bytes = row_bytes_of(table.schema, table.num_bytes / max(1, table.num_rows), columns)
        place = (table.path, table.version_id, schema.to_string())
        owner = xxhash.xxh3_64_intdigest(repr(place).encode()) >> 1
        self._share_bytes = self.capacity_bytes // processes
        shared = None
        if config.cache_folder is not None:
            with suppress(OSError):  # the folder cannot be written or has no room: this process caches for itself
                blocks = SharedBlocks(config.cache_folder)
                shared = HotRows(schema, self.capacity_bytes, row_bytes, blocks, processes=processes, owner=owner)
        self.cache = shared or HotRows(schema, self._share_bytes, row_bytes, PrivateBlocks(), owner=owner)

    def components(self) -> dict[str, int]:
        return {"hot rows": -(-self.cache.nbytes // self.cache.processes), "hot rows to come": self._bytes_beside}

    def state(self, *, exact: bool) -> SavedState:
        return self.cache.state() if exact else SavedState()

    def set_state(self, saved: SavedState) -> None:
        self.cache.set_state(saved)

    def check(self) -> None:
        assert self.cache.nbytes // self.cache.processes <= self._share_bytes
        assert self.cache.waiting_bytes <= self._bytes_beside
        self.cache._check()


class _WindowSize(Part):
    """How many tuples a window has: as many as find their rows in one portion, because only those are learned."""

    def __init__(self, memory: SweepMemory) -> None:
        self._memory = memory
        self.w = memory.most_w

    def adapt(self, portions: int) -> None:
        self.w = next_w(self.w, self._memory.most_w, fits=portions <= 1)

    def components(self) -> dict[str, int]:
        return {"rows found": self._memory.rows_found_bytes, "window": self._memory.window_bytes}

    def state(self, *, exact: bool) -> SavedState:
        return SavedState({"w": self.w}) if exact else SavedState()

    def set_state(self, saved: SavedState) -> None:
        self.w = saved.whole_number("w", 1, self._memory.most_w)


class SweepDelivery(Delivery):
    """Results being built, of cache and sweep at once: a small part of the budget, which the cache lacks."""

    def __init__(self, spec: JoinSpec, budget_bytes: int, *, ordered: bool) -> None:
        super().__init__(spec, _delivery_budget(budget_bytes), ordered=ordered)
        self.results_bytes = self.results_bytes_in(budget_bytes)

    def results_bytes_in(self, budget_bytes: int) -> int:
        """Return the bytes of results of a join with this budget."""
        return 2 * self.reserved_bytes_in(_delivery_budget(budget_bytes))

    def components(self) -> dict[str, int]:
        return {"results": self.results_bytes}


def _delivery_budget(budget_bytes: int) -> int:
    """Return the budget of a join whose results would be as large as those of SWEEPJOIN with ``budget_bytes``."""
    enough_bytes = min(budget_bytes - _TIGHT_BYTES, _ENOUGH_DELIVERY_BYTES)
    return max(int(budget_bytes * _DELIVERY_SHARE), enough_bytes)


def next_w(w: int, most_w: int, *, fits: bool) -> int:
    """Return how many tuples the next window has, going by whether the rows of the last one went out together."""
    if not fits:
        smallest = max(1, int(most_w * _SMALLEST_WINDOW_SHARE))  # one key alone may have too many rows
        return max(smallest, w // 2)
    return min(most_w, w + max(1, w // 8))


def row_bytes_of(schema: pa.Schema, row_bytes: float, columns: list[str]) -> float:
    """Return about how many bytes a row takes with these columns alone: texts are taken to be of one length."""
    widths = {field.name: _width(field.type) for field in schema}
    fixed = sum(width for width in widths.values() if width is not None)
    texts = sum(width is None for width in widths.values())
    text = max(8.0, row_bytes - fixed) / max(1, texts)
    return sum(text if (width := widths[name]) is None else width for name in columns)


def _width(dtype: pa.DataType) -> float | None:
    try:
        return dtype.bit_width / 8
    except ValueError:  # text, lists and the like have none
        return None
