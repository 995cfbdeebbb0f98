"""The cost of SWEEPJOIN.

The operator is our own (`semistream.operators.sweepjoin`); no paper has a model of it. This one has the form of S1's
Eq. 1-4 (M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", section 4.4)::

    M      = index + disk buffer + rows found + window + hot rows + stream buffer + results
    c_loop = seeks c_seek + pages c_page + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_O)
    mu     = w / c_loop, where wN = h w and wS = (1 - h) w

A window of w tuples has wS misses. One of them asks for page p, which is then read, with probability
t_p = 1 - exp(-q_p wS). It begins a read of its own when the page before it is not read: seeks = sum of t_p (1 - t_p-1).

``w`` is the mean of the windows; ``settings["w"]`` is the most that one can have.

Deviations
----------
D1  The cached keys follow from a sketch of their counts and from chance (`counted_share`). Counts are halved after
    every sample, rounded down, and a key has to be clearly better to take another's place. So they tell keys apart as
    well as 0.4 of a sample would: a constant fitted to shares from 12% to 79%, which it meets within 1.5%. The share is
    that of the long run, after about 50 tuples for each key of the cache.
D2  When the rows of a window do not fit the space for rows found, the operator halves w, and lets it grow by an eighth
    from window to window until that happens again. A loop is the mean over such a round.
D3  Frequent keys lie anywhere in R, and so do keys without a row, unless `KeyDistribution.in_order` says that R is
    sorted by demand.
D4  The cache is that of one process alone.
D5  When tuples arrive more slowly than they could be answered, windows shrink until a sweep takes as long as its tuples
    take to arrive. The cost of a smaller sweep follows from c_loop as on a disk where a seek costs as much as 2 MB of
    reading: the 7200 rpm profile. On others the times are rough.
D6  Reads are those of a table that is not in the page cache, as with ``io="drop_behind"``, which calibration uses too.
    Pages that are there cost the operator no read. The memory is that of ``io="buffered"``, where the index has the
    addresses of such pages.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop, searches_of
from semistream.cost.model import LoopPlan, Times, fitting_settings, loop_of
from semistream.cost.models.cache import MOST_CACHED, counted_share
from semistream.cost.models.part_rates import PartRates, increasing_root
from semistream.cost.models.scans import page_sizes
from semistream.operators.cache.hot_rows import HotRows
from semistream.operators.phases.sweep_phase import SweepMemory, SweepPhase
from semistream.operators.sweepjoin import SweepDelivery, next_w, row_bytes_of
from semistream.operators.window.stream_buffer import StreamBuffer

__all__ = ["plan", "settings_to_try"]

_SAMPLE_WORTH = 0.4
_ALIGNMENT = 8
_ROUND_WINDOWS = 64  # several rounds of halving and growing
_CACHE_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_SEEK_BYTES = 2_000_000.0


@dataclass(frozen=True)
class _Sweep:
    """Sweeps over the pages of a table behind a cache that answers the share ``cached`` of the tuples."""

    case: JoinCase
    cached: float
    missed: KeyDistribution  # of the other tuples
    rates: PartRates  # q_p

    @staticmethod
    def of(case: JoinCase, cached: float) -> "_Sweep":
        missed = case.stream.keys.missed(cached)
        return _Sweep(case, cached, missed, PartRates.of(missed, case.table.pages))

    def rows_found(self, window_tuples: float) -> float:
        """Return how many rows the different keys have that a window looks up."""
        misses = window_tuples * (1 - self.cached)
        distinct = float(np.dot(self.missed.keys, -np.expm1(-self.missed.probability * misses)))
        return distinct * (1 - self.case.stream.missing_share) * self.case.table.rows_per_key

    def loop(self, window_tuples: float) -> Loop:
        """Return the counts of a window of so many tuples."""
        table = self.case.table
        pages_asked = table.files_per_key * (1 + table.pages / table.keys)  # a key may begin on the page before
        misses = window_tuples * (1 - self.cached)
        touched = -np.expm1(-self.rates.rate * pages_asked * misses)
        pages = self.rates.total(touched)
        before = touched if self.rates.neighbours_alike else pages / self.rates.num_parts
        seeks = max(self.rates.total(touched * (1 - before)), min(pages, float(table.files)))
        return loop_of(self.case, misses, window_tuples * self.cached, pages=pages, reads=seeks, seeks=seeks)

    def mean_loop(self, most_w: int, fits: Callable[[float], bool]) -> Loop:
        """Return the mean over windows that shrink when their rows do not fit, and grow again (D2)."""
        w = most_w
        if fits(w):
            return self.loop(w)
        windows = []
        for _ in range(_ROUND_WINDOWS):
            windows.append(w)
            w = next_w(w, most_w, fits=fits(w))
        # From one halving to another: whole rounds.
        halvings = [at for at in range(1, len(windows)) if windows[at] < windows[at - 1]]
        if len(halvings) < 2:
            return self.loop(windows[-1])  # they stay at the smallest
        loops = [self.loop(w) for w in windows[halvings[0] : halvings[-1]]]
        total = {each.name: sum(getattr(loop, each.name) for loop in loops) for each in fields(Loop)}
        return Loop(**total).times(1 / len(loops))


def plan(case: JoinCase, memory_bytes: int, w: int | None = None, cache_share: float = 1.0) -> LoopPlan:
    case.require_clustered("sweepjoin")
    if not 0 <= cache_share <= 1:
        raise InvalidArgument(f"cache_share={cache_share} must be at least 0 and at most 1")
    table, spec = case.table, case.spec
    pages = page_sizes(table, spec.master_schema)
    index_bytes = pages.index_bytes + SweepPhase.bytes_in_place(spec, table.pages)
    delivery = SweepDelivery(spec, memory_bytes, ordered=False)
    memory = SweepMemory.of(
        memory_bytes,
        f"sweepjoin on {table.pages} pages",
        index_bytes=index_bytes,
        least_disk_bytes=pages.run_bytes(1) + _ALIGNMENT,
        least_buffer_bytes=StreamBuffer.least_bytes(spec.stream_schema),
        results_bytes_in=delivery.results_bytes_in,
        files_per_bucket=-(-table.files // table.buckets),
        cache_share=cache_share,
        w=w,
    )
    row_bytes = row_bytes_of(spec.master_schema, table.row_bytes, list(spec.needed_master_columns))
    cache_bytes, beside_bytes = HotRows.capacity_in(memory.cache_bytes)
    cached_rows = table.rows_per_key * (1 - case.stream.missing_share)
    cached = counted_share(
        case.stream.keys,
        HotRows.keys_in(cache_bytes, row_bytes, cached_rows),
        _SAMPLE_WORTH * HotRows.sample_tuples(cache_bytes, row_bytes),
    )
    sweep = _Sweep.of(case, min(cached, MOST_CACHED))
    loop = sweep.mean_loop(memory.most_w, lambda w: sweep.rows_found(w) * row_bytes <= memory.found_bytes)
    disk_bytes = memory.disk_bytes + SweepPhase.bytes_beside(memory_bytes)
    searches = searches_of(loop.pages, table.page_bytes, disk_bytes)
    # Pages that are searched together begin with a read of their own, whether or not the page before was read.
    loop = replace(loop, searches=searches, reads=loop.seeks + searches * min(1.0, loop.pages / table.pages))
    return LoopPlan(
        settings={"w": memory.most_w, "cache_share": cache_share},
        memory={
            "stream buffer": memory.stream_buffer_bytes,
            "index": index_bytes,
            "disk buffer": disk_bytes,
            "rows found": memory.rows_found_bytes,
            "window": memory.window_bytes,
            "hot rows": cache_bytes,
            "hot rows to come": beside_bytes,
            "results": delivery.results_bytes,
        },
        loop=loop,
        loops_per_cycle=1.0,
        window_tuples=loop.tuples,
        times=partial(_times, case, loop),
    )


def _times(case: JoinCase, loop: Loop, loop_s: float, arrivals_per_s: float) -> Times:
    """Return the time of the sweep that a tuple waits for, and of its own (D5)."""
    sweep = _Sweep.of(case, loop.cache_share)
    unit_s = loop_s / max(_disk_work(loop), 1e-9)

    def sweep_s(window_tuples: float) -> float:
        return _disk_work(sweep.loop(window_tuples)) * unit_s

    # As many tuples arrive in a sweep as it answers.
    window = increasing_root(lambda tuples: tuples - arrivals_per_s * sweep_s(tuples), loop.tuples)
    processing_s = sweep_s(min(max(window, 1.0), loop.tuples))
    return Times(min(1.0, window) * processing_s / 2, processing_s)


def _disk_work(loop: Loop) -> float:
    """Return the bytes that are read, and those that could be read instead of seeking."""
    return loop.bytes_read + loop.seeks * _SEEK_BYTES


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    """Return several shares of the cache, with the largest windows."""
    return fitting_settings(partial(plan, case, memory_bytes), cache_shares=_CACHE_SHARES)
