"""Joins that look up one tuple after the other: their pages in a buffer pool, their loop, and the times of tuples."""

from functools import partial

import numpy as np

from semistream.cost.join_case import JoinCase
from semistream.cost.loop import Loop, searches_of
from semistream.cost.model import LoopPlan, Times, loop_of
from semistream.cost.models.cache import NO_CACHE, Cached
from semistream.cost.models.part_rates import PartRates, pool_misses
from semistream.cost.models.scans import page_sizes
from semistream.operators.phases.buffer_pool import SlotSizes
from semistream.operators.phases.lookup_phase import LookupMemory, LookupSplit
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.storage.reading.raw_pages import PageShape

__all__ = ["lookup_memory", "lookup_plan", "times_of_lookups"]

_TUPLES = 20_000  # of a stream that is followed
_SEED = 7


def lookup_memory(name: str, case: JoinCase, memory_bytes: int) -> LookupMemory:
    """Return the memory of the look-up phase of an algorithm on a table of this shape, if it can be looked up."""
    case.require_clustered(name)
    pages = page_sizes(case.table, case.spec.master_schema)
    shape = PageShape(case.spec.master_schema, case.spec.needed_master_columns)
    return LookupMemory(
        budget_bytes=memory_bytes,
        index_bytes=pages.index_bytes,
        num_pages=pages.num_pages,
        slots=SlotSizes(pages.run_bytes(1), SlotSizes.beside(shape.num_buffers), 1),
        text_columns=shape.text_columns,
        least_buffer_bytes=StreamBuffer.least_bytes(case.spec.stream_schema),
    )


def lookup_plan(
    case: JoinCase,
    memory: LookupMemory,
    split: LookupSplit,
    settings: dict[str, float],
    most_w: int,
    cached: Cached = NO_CACHE,
) -> LoopPlan:
    """Return the loop of a join that looks up at most ``most_w`` tuples in a step, behind a cache if there is one."""
    table = case.table
    pool_pages = memory.slots.slots_in(split.pages_bytes)
    rates = PartRates.of(case.stream.keys.missed(cached.share), table.pages)
    miss_share = pool_misses(rates, pool_pages)  # of pages asked for
    more_pages = table.pages / table.keys  # a page that begins with a key: the page before it may hold it too
    pages_asked = table.files_per_key * (1 + more_pages)
    w = min(most_w, max(1, int(memory.max_accesses / pages_asked)) / (1 - cached.share))
    disk_tuples = w * (1 - cached.share)
    pages = disk_tuples * (pages_asked * miss_share)
    # A read begins elsewhere unless it follows the page before, or the last page that was read.
    follows_a_hit, goes_on = more_pages * (1 - miss_share), 1 / table.pages
    seeks = disk_tuples * (table.files_per_key * miss_share * (1 + follows_a_hit) * (1 - goes_on))
    searches = searches_of(pages, memory.slots.bytes_in_all, split.pages_bytes)
    loop = loop_of(case, disk_tuples, w * cached.share, pages=pages, reads=pages, seeks=seeks, searches=searches)
    return LoopPlan(
        settings={"w": int(w), **settings},
        memory={
            "stream buffer": split.stream_buffer_bytes,
            "index": memory.index_and_slots_bytes,
            "buffer pool": memory.slots.bytes_for(min(pool_pages, table.pages)),
            "looking up": memory.building_bytes,
            **cached.memory,
        },
        loop=loop,
        loops_per_cycle=1.0,
        window_tuples=w,
        times=partial(_times, loop, w),
    )


def _times(loop: Loop, w: float, loop_s: float, arrivals_per_s: float) -> Times:
    misses = max(loop.seeks, 1e-9)  # reading takes all of a loop's time
    return times_of_lookups(misses / loop.tuples, loop_s / misses, w, arrivals_per_s)


def times_of_lookups(miss_share: float, miss_s: float, w: float, arrivals_per_s: float) -> Times:
    """Return the mean times of tuples that come at even distances.

    A step takes the tuples that are there, looks them up, and answers them at its end. Which of them miss the pool is
    drawn, always alike. When no step finds more than one tuple, nobody waits. Otherwise some steps take longer than the
    distance of tuples, and the next ones find more. ``miss_s`` is the time of reading for one miss.
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
