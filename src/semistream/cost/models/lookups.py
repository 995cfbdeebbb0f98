"""Joins that look up one tuple after the other: their pages in a buffer pool, their loop, and the times of tuples."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop, searches_of
from semistream.cost.model import LoopPlan, Times
from semistream.cost.models.part_rates import PartRates, pool_misses
from semistream.cost.models.scans import page_sizes
from semistream.operators.phases.buffer_pool import BufferPool
from semistream.operators.phases.lookup_memory import LookupMemory, LookupSplit

__all__ = ["lookup_memory", "lookup_plan", "lookup_times", "times_of_lookups"]

_TUPLES = 20_000  # of a stream that is followed
_SEED = 7


def lookup_memory(case: JoinCase, memory_bytes: int) -> LookupMemory:
    """Return the memory of the look-up phase on a table of this shape."""
    pages = page_sizes(case.table, case.spec.master_schema)
    return LookupMemory(
        budget_bytes=memory_bytes,
        index_bytes=pages.index_bytes,
        num_pages=pages.num_pages,
        largest_page_bytes=int(BufferPool.bytes_for(float(pages.run_bytes(1)), float(pages.rows_per_page))),
    )


@dataclass(frozen=True)
class _PageLookups:
    """Look-ups of tuples in a table.

    Attributes
    ----------
    miss_share
        The share of pages asked for that are not in the pool.
    """

    table: TableShape
    miss_share: float

    @staticmethod
    def of(table: TableShape, keys: KeyDistribution, pool_bytes: int) -> "_PageLookups":
        pool_pages = pool_bytes // BufferPool.bytes_for(table.page_bytes, table.rows_per_page)
        return _PageLookups(table, pool_misses(PartRates.of(keys, table.pages), pool_pages))

    @property
    def _more_pages(self) -> float:
        """Pages that begin with a key: the page before them may hold it too."""
        return self.table.pages / self.table.keys

    @property
    def pages_asked(self) -> float:
        """Pages that a tuple asks for."""
        return self.table.files_per_key * (1 + self._more_pages)

    @property
    def seeks(self) -> float:
        """Reads for a tuple that do not begin where the one before ended."""
        follows_a_hit = self._more_pages * (1 - self.miss_share)
        goes_on = 1 / self.table.pages  # the page after the last one that was read
        return self.table.files_per_key * self.miss_share * (1 + follows_a_hit) * (1 - goes_on)

    def loop(self, case: JoinCase, search_bytes: int, disk_tuples: float, cached_tuples: float) -> Loop:
        """Return the counts of a step that looks up so many tuples; a search takes as many pages as its memory."""
        pages = disk_tuples * (self.pages_asked * self.miss_share)
        return Loop(
            cached_tuples=cached_tuples,
            disk_tuples=disk_tuples,
            master_rows=pages * self.table.rows_per_page,
            results=(cached_tuples + disk_tuples) * case.results_per_tuple,
            reads=pages,
            seeks=disk_tuples * self.seeks,
            pages=pages,
            bytes_read=pages * self.table.page_bytes,
            searches=searches_of(pages, self.table.page_bytes, search_bytes),
        )


def lookup_plan(
    case: JoinCase,
    memory: LookupMemory,
    split: LookupSplit,
    settings: dict[str, float],
    most_w: int,
    cached_share: float = 0.0,
    other_components: Mapping[str, int] | None = None,
) -> LoopPlan:
    """Return the loop of a join that looks up at most ``most_w`` tuples in a step, behind a cache if there is one."""
    search_bytes = memory.search_bytes(split.pages_bytes)
    pool_bytes = split.pages_bytes - search_bytes
    lookups = _PageLookups.of(case.table, case.stream.keys.missed(cached_share), pool_bytes)
    most_misses = max(1, int(memory.max_accesses / lookups.pages_asked))
    w = min(most_w, most_misses / (1 - cached_share))
    return LoopPlan(
        settings={"w": int(w), **settings},
        memory={
            "stream buffer": split.stream_buffer_bytes,
            "index": memory.index_and_sizes_bytes,
            "buffer pool": pool_bytes,
            "disk buffer": search_bytes,
            "looking up": memory.building_bytes,
            **(other_components or {}),
        },
        loop=lookups.loop(case, search_bytes, w * (1 - cached_share), cached_tuples=w * cached_share),
        loops_per_cycle=1.0,
        window_tuples=w,
    )


def lookup_times(plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
    """Return the times of tuples that are looked up once they have arrived; reading takes all of a loop's time."""
    misses = max(plan.loop.seeks, 1e-9)
    return times_of_lookups(misses / plan.loop.tuples, loop_s / misses, plan.window_tuples, arrivals_per_s)


def times_of_lookups(miss_share: float, miss_s: float, w: float, arrivals_per_s: float) -> Times:
    """Return the mean times of tuples that come at even distances.

    A step takes the tuples that are there, looks them up, and answers them at its end. Which of them miss the pool is
    drawn, always alike. When no step finds more than one tuple, nobody waits. Otherwise some steps take longer than the
    distance of tuples, and the next ones find more.

    Parameters
    ----------
    miss_share, miss_s
        The share of tuples that have pages read, and how long that takes for one of them.
    w
        The most tuples of a step.

    Examples
    --------
    When every tuple has a page read before the next one comes, it waits for nothing:

    >>> waiting_s, processing_s = times_of_lookups(miss_share=1.0, miss_s=0.01, w=100, arrivals_per_s=50)
    >>> round(waiting_s, 6), round(processing_s, 6)
    (0.0, 0.01)
    """
    rng = np.random.default_rng(_SEED)
    distance_s = 1 / arrivals_per_s
    now_s = waiting_s = processing_s = 0.0
    taken = 0
    while taken < _TUPLES:
        now_s = max(now_s, taken * distance_s)
        arrived = int(now_s / distance_s + 1e-9) + 1 - taken
        tuples = max(1, min(arrived, int(w)))
        step_s = int(rng.binomial(tuples, min(1.0, miss_share))) * miss_s
        waiting_s += tuples * now_s - distance_s * (tuples * taken + tuples * (tuples - 1) / 2)
        processing_s += tuples * step_s
        taken += tuples
        now_s += step_s
    return Times(max(0.0, waiting_s) / taken, processing_s / taken)
