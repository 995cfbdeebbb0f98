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

    stream ─► stream buffer ─ w tuples ─┬─ cached keys ─► hot rows ───────────────────────────┬─► results
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
``b``       the buffer of ``_sweep``    bytes of pages searched together; in S2 rows read from the oldest key on
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
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.core.arguments import require_count, require_number
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.operators.cache.hot_blocks import PrivateBlocks, SharedBlocks
from semistream.operators.cache.hot_rows import HotRows
from semistream.operators.driver import StepOperator
from semistream.operators.phases.sweep_memory import SweepMemory
from semistream.operators.phases.sweep_phase import Found, SweepPhase
from semistream.operators.phases.sweep_results import SweepResults
from semistream.operators.registry import register
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.operators.window.stream_buffer import Arrivals, StreamBuffer
from semistream.storage import Io, MasterTable

__all__ = [
    "Sweepjoin",
    "SweepjoinConfig",
    "next_w",
    "row_bytes_of",
    "sweep_delivery",
    "sweep_results_bytes",
]

_DELIVERY_SHARE = 1 / 4  # batches that leave are as large as a budget of so much of ours would make them
_SMALLEST_WINDOW_SHARE = 1 / 8  # of the largest window, to which windows may shrink

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SweepjoinConfig:
    """Settings of SWEEPJOIN beyond the budget.

    Attributes
    ----------
    w
        Stream tuples per window at most; as many as the budget allows by default.
    cache_share
        The share of the memory that all else leaves which the cache of hot rows takes.
    cache_folder
        A folder for the cache, which other processes with the same table version, join and budget may share; in memory
        of its own by default.
    cache_processes
        How many processes share it: each gives its share, and the cache is as large as all shares together.
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    w: int | None = None
    cache_share: float = 1.0
    cache_folder: str | None = None
    cache_processes: int = 1
    order: Order = "any"
    io: Io = "buffered"

    def __post_init__(self) -> None:
        require_count("w", self.w, optional=True)
        require_count("cache_processes", self.cache_processes)
        require_number("cache_share", self.cache_share)
        if not 0 <= self.cache_share <= 1:
            raise InvalidArgument(f"cache_share={self.cache_share} must be at least 0 and at most 1")
        require_order(self.order)


@register("sweepjoin", SweepjoinConfig, ("clustered",))
class Sweepjoin(StepOperator):
    """Exact join of a stream with a clustered table, a window of tuples at a time."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: SweepjoinConfig | None = None
    ) -> None:
        self.config = config or SweepjoinConfig()
        super().__init__(table, spec, budget_bytes)

    def _open(self) -> None:
        table, spec, config = self.table, self.spec, self.config
        StreamBuffer.require_supported(spec.stream_schema)
        self._filter = PairFilter(spec)
        columns = list(spec.needed_master_columns)
        self._sweep = SweepPhase("sweepjoin", table, spec, columns, self.metrics, config.io)
        self._delivery = sweep_delivery(spec, self.budget_bytes, ordered=config.order == "stream")
        self._results_bytes = sweep_results_bytes(self._delivery)
        self._memory = SweepMemory.of(
            self.budget_bytes,
            f"sweepjoin on {table.path}",
            index_bytes=self._sweep.index_bytes,
            least_disk_bytes=self._sweep.least_disk_bytes,
            results_bytes=self._results_bytes,
            files_per_bucket=self._sweep.files_per_bucket,
            cache_share=config.cache_share,
            w=config.w,
        )
        self.cache = self._make_cache(columns, self._memory.cache_bytes)
        self._sweep.use(self.budget_bytes, self._memory.disk_bytes, self._memory.found_bytes)
        self._buffer = StreamBuffer(self._memory.stream_buffer_bytes, self._sweep.matching.stream_codes)
        self._results = SweepResults(spec, self._filter, self._delivery)
        self.w = self._memory.most_w

    def _make_cache(self, columns: list[str], share_bytes: int) -> HotRows:
        """Return a cache that takes ``share_bytes`` for each process, with all that it does beside its blocks."""
        processes = self.config.cache_processes
        self._cache_capacity_bytes, self._cache_bytes_beside = HotRows.capacity_in(share_bytes, processes)
        capacity = self._cache_capacity_bytes
        schema = pa.schema([self.table.schema.field(name) for name in columns])
        row_bytes = row_bytes_of(self.table.schema, self.table.num_bytes / max(1, self.table.num_rows), columns)
        place = (self.table.path, self.table.table_id, self.table.version, schema.to_string())
        owner = xxhash.xxh3_64_intdigest(repr(place).encode()) >> 1
        if self.config.cache_folder is not None:
            try:
                store = SharedBlocks(self.config.cache_folder)
                return HotRows(schema, capacity, row_bytes, store, processes=processes, owner=owner)
            except OSError:
                pass  # the folder cannot be written: this process caches for itself
        return HotRows(schema, capacity // processes, row_bytes, PrivateBlocks(), owner=owner)

    @property
    def pending(self) -> int:
        return self._buffer.num_rows

    @property
    def buffered(self) -> int:
        return self._buffer.num_rows

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._buffer.offer(batch)

    # --- one step: S2's Algorithms 1 and 3 for a whole window (D1); line numbers are theirs --------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        window = self._buffer.peek(self.w)  # Alg. 3, ll. 2-3
        assert window is not None
        self.cache.refresh()
        self.cache.record(window.code if window.valid is None else window.code[window.valid])  # for Alg. 1, l. 16 (D6)
        cached = self.cache.find(window.code, window.valid)  # Alg. 3, l. 4
        is_missing = cached.count < 0  # Alg. 3, ll. 7-9
        if window.valid is not None:
            is_missing &= window.valid  # D4
        distinct, key_of = np.unique(window.code[is_missing], return_inverse=True)  # Alg. 1, l. 7, for all keys
        self._results.begin(window, self.cache, cached, is_missing, key_of)
        portions = 0
        for found in self._sweep.look_up(distinct) if distinct.size else ():  # Alg. 1, l. 12 (D2, D3)
            portions += 1
            if portions == 1 and found.is_last:
                self._offer_to_cache(distinct, found)  # Alg. 1, l. 19 (D6, D7)
            yield from self._results.add(found)  # Alg. 1, ll. 13-15; with the first portion Alg. 3, l. 5
        yield from self._results.end()  # Alg. 1, ll. 8-11: keys without a row
        self._count(window, is_missing)
        self._set_w(portions)
        self._buffer.consume(len(window))  # Alg. 1, ll. 17-18
        yield from self._delivery.release(int(window.number[-1]) + 1)
        self.cache.learn()  # Alg. 1, ll. 20-21 (D6)

    def _offer_to_cache(self, distinct: _Int64s, found: Found) -> None:
        """Let the cache take in the rows of keys that are frequent."""
        worth = self.cache.worth_caching(distinct)
        firsts, ends = np.searchsorted(found.keys, worth), np.searchsorted(found.keys, worth + 1)
        self.cache.offer(distinct[worth], firsts, ends - firsts, found.rows)

    def _count(self, window: Arrivals, is_missing: npt.NDArray[np.bool_]) -> None:
        missing = int(is_missing.sum())
        with_key = len(window) if window.valid is None else int(window.valid.sum())
        self.metrics.tuples_answered += len(window)
        self.metrics.tuples_through_disk += missing
        self.metrics.tuples_through_cache += with_key - missing
        self.metrics.tuples_without_match += self._results.unmatched

    def _set_w(self, portions: int) -> None:
        """Keep windows such that the rows found in a sweep go out in one portion: only then are they learned."""
        self.w = next_w(self.w, self._memory.most_w, fits=portions <= 1)

    # --- contract -----------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {
            "stream buffer": self._buffer.nbytes,
            "index": self._sweep.index_bytes,
            "disk buffer": self._sweep.nbytes,
            "rows found": self._memory.rows_found_bytes,
            "window": self._memory.window_bytes,
            "hot rows": -(-self.cache.nbytes // self.cache.processes),
            "hot rows to come": self._cache_bytes_beside,
            "results": self._results_bytes,
        }

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "order": self.config.order}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {}, {"buffer": self._buffer.to_table(self.spec.stream_schema)}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._buffer.put_back(tables["buffer"])

    def _release(self) -> None:
        self._sweep.close()
        self._delivery.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        assert self.cache.nbytes // self.cache.processes <= self._cache_capacity_bytes // self.config.cache_processes
        assert self.cache.waiting_bytes <= self._cache_bytes_beside
        self.cache._check()


def sweep_delivery(spec: JoinSpec, budget_bytes: int, *, ordered: bool) -> Delivery:
    """Return how results leave: batches are a small part of the budget, for what they take the cache has not."""
    return Delivery(spec, int(budget_bytes * _DELIVERY_SHARE), ordered=ordered)


def sweep_results_bytes(delivery: Delivery) -> int:
    """Return the memory of results being built: those of the cache and those of the sweep."""
    return 2 * delivery.reserved_bytes


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
