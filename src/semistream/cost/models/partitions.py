"""Joins that read partitions of R: their memory (S1, Eq. 1), how often they read, and the times of tuples.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1), section 4.4.

Time is counted in tuples that enter the window. A tuple asks for partition p with probability λ_p. After a read of p
nobody waits for it. Its next tuple comes 1/λ_p later on average, grows old, and at the age T it is the oldest of the
window and has p read, for itself and for all that came meanwhile::

    read ──── 1/λ_p ────► first tuple ──────────── T ────────────► it is the oldest: read
                              └ others of p gather, λ_p T of them ┘

So a turn of p takes 1/λ_p + T. Per tuple that enters there are Σ λ_p / (1 + λ_p T) reads, and
Σ λ_p (T + λ_p T² / 2) / (1 + λ_p T) tuples wait. T follows from the tuples that the window holds, or from the speed of
the disk.

Memory is planned by the operators' own planning, with the sizes of a shape in place of those of a staged table.
"""

from dataclasses import dataclass
from functools import partial

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import LoopPlan, Times, loop_of
from semistream.cost.models.cache import NO_CACHE, Cached
from semistream.cost.models.part_rates import PartRates, increasing_root
from semistream.cost.models.scans import page_sizes, window_shape
from semistream.operators.phases.memory_plan import MemoryPlan, MemoryPlanner
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.phases.partitions import Partitions
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching
from semistream.state.tuple_window import WindowShape

__all__ = ["PartitionLoads", "PartitionMemory", "partitions_of", "times_between_loads"]


def partitions_of(table: TableShape, b: int) -> int:
    """Return how many partitions of ``b`` pages the buckets of a table have."""
    pages_of_bucket = -(-table.pages // table.buckets)
    return table.buckets * -(-pages_of_bucket // b)


@dataclass(frozen=True)
class PartitionLoads:
    """Reads of partitions.

    A window for 100 tuples gathers 40 for each read of one of four partitions: 30, 20 and 10 wait for the others then.
    """

    rates: PartRates  # λ_p
    oldest_tuples: float  # T

    @staticmethod
    def of_window(rates: PartRates, window_tuples: float) -> "PartitionLoads":
        """Return the reads of a join whose window of so many tuples is full at each read."""

        def excess(oldest_tuples: float) -> float:
            loads = PartitionLoads(rates, oldest_tuples)
            # A read frees the places of its tuples, and they fill again: the window lacks half of them on average.
            return loads.waiting + 0.5 / loads.per_tuple - window_tuples

        if excess(0.0) >= 0:
            return PartitionLoads(rates, 0.0)
        return PartitionLoads(rates, increasing_root(excess, max(1.0, window_tuples)))

    @staticmethod
    def of_speed(rates: PartRates, loads_per_tuple: float) -> "PartitionLoads":
        """Return the reads of a join that reads all the time, so often for each tuple that arrives."""
        if loads_per_tuple >= 1:
            return PartitionLoads(rates, 0.0)
        return PartitionLoads(
            rates, increasing_root(lambda oldest: loads_per_tuple - PartitionLoads(rates, oldest).per_tuple, 1.0)
        )

    @property
    def per_tuple(self) -> float:
        """Reads for each tuple that enters the window: the inverse of the papers' w."""
        rate = self.rates.rate
        return self.rates.total(rate / (1 + rate * self.oldest_tuples))

    @property
    def waiting(self) -> float:
        """How many tuples wait on average."""
        own = self.rates.rate * self.oldest_tuples
        return self.rates.total(own * (1 + own / 2) / (1 + own))


def times_between_loads(rates: PartRates, loop_s: float, arrivals_per_s: float, cached_share: float = 0.0) -> Times:
    """Return the times of tuples when a partition is read every ``loop_s``.

    ``rates`` are λ_p of the tuples that no cache answers. A cache answers at the end of the loop that a tuple enters.
    """
    to_disk_per_s = arrivals_per_s * (1 - cached_share)
    if not to_disk_per_s:
        return Times(0.0, 0.0)
    loads = PartitionLoads.of_speed(rates, 1 / (to_disk_per_s * loop_s))
    # Little's law. A tuple that comes in mid-loop waits outside for its end, and is answered at the end of another.
    in_window_s = loads.waiting / to_disk_per_s + loop_s / 2
    busy_share = min(1.0, to_disk_per_s * loop_s)
    return Times(
        waiting_s=busy_share * loop_s / 2,
        processing_s=cached_share * loop_s + (1 - cached_share) * max(loop_s, in_window_s),
    )


@dataclass(frozen=True)
class PartitionMemory:
    """The budget of a join that reads partitions, split as the operator splits it, and H_S with Q in its share."""

    case: JoinCase
    plan: MemoryPlan
    window: WindowShape
    memory: dict[str, int]  # bytes by component, without H_S, Q and a cache

    @staticmethod
    def of(
        name: str,
        case: JoinCase,
        memory_bytes: int,
        b: int | None,
        *,
        cache_share: float = 0.0,
        shedding_bytes: int | None = None,
    ) -> "PartitionMemory":
        """Plan as the operator ``name`` does; raise `BudgetTooSmall`, naming the least that would do.

        ``shedding_bytes`` are those of the store for shed tuples; None for a join that sheds none.
        """
        case.require_clustered(name)
        table, spec = case.table, case.spec
        pages = page_sizes(table, spec.master_schema)
        codes = EqualityMatching(spec)  # a window by partition takes as much
        delivery = Delivery(spec, memory_bytes, ordered=False)
        scanning = MemoryPlanner(
            what=f"{name} on {table.pages} pages",
            pages=pages,
            spec=spec,
            codes=codes,
            ordered=False,
            budget_bytes=memory_bytes,
            other_bytes=delivery.reserved_bytes + (shedding_bytes or 0),
            cache_share=cache_share,
            sheds=shedding_bytes is not None,
        )
        plan = PartitionPhase.planner(scanning, table.buckets, delivery).plan(b)
        window = window_shape(case, codes, plan.window_bytes)
        partitions_bytes = Partitions.bytes_for(partitions_of(table, plan.b), table.buckets, table.files)
        memory = {
            "disk buffer": plan.disk_bytes,
            "index": pages.index_bytes + partitions_bytes,
            "found": PartitionPhase.found_bytes(delivery),
            "stream buffer": plan.stream_buffer_bytes,
            "results": delivery.reserved_bytes,
        }
        if shedding_bytes is not None:
            memory["shedding"] = shedding_bytes
        return PartitionMemory(case, plan, window, memory)

    @property
    def partitions(self) -> int:
        return partitions_of(self.case.table, self.plan.b)

    def loads(self, missed: KeyDistribution, window: WindowShape) -> PartitionLoads:
        """Return the reads for tuples with the keys ``missed``, with this window."""
        return PartitionLoads.of_window(PartRates.of(missed, self.partitions), window.capacity)

    def loop_plan(
        self,
        settings: dict[str, float],
        window: WindowShape,
        loads: PartitionLoads,
        cached: Cached = NO_CACHE,
        factors: str | None = None,
    ) -> LoopPlan:
        """Return the loop with this window and these reads: an iteration reads one partition."""
        hash_bytes, queue_bytes = window.nbytes(EqualityMatching(self.case.spec), self.case.spec.stream_schema, False)
        disk_tuples, table = 1 / loads.per_tuple, self.case.table
        # Unless a partition is the first of its bucket, in every file the page before is read too, on which its first
        # key may begin. It takes a read of its own where a read has no room for it.
        with_page_before = self.partitions - table.buckets
        one_more = self.plan.b / table.files_per_key + 1 > self.plan.read_pages
        loop = loop_of(
            self.case,
            disk_tuples,
            disk_tuples * cached.share / (1 - cached.share),
            pages=(table.pages + table.files_per_key * with_page_before) / self.partitions,
            reads=table.files_per_key * (1 + one_more * with_page_before / self.partitions),
            seeks=table.files_per_key,
        )
        return LoopPlan(
            settings={"b": self.plan.b, **settings},
            memory={**self.memory, "H_S": hash_bytes, "queue": queue_bytes, **cached.memory},
            loop=loop,
            loops_per_cycle=max(1.0, loads.oldest_tuples * loads.per_tuple),
            window_tuples=window.capacity,
            times=partial(_times, self.case.stream.keys, loop.cache_share, self.partitions),
            factors=factors,
        )


def _times(keys: KeyDistribution, cached: float, partitions: int, loop_s: float, arrivals_per_s: float) -> Times:
    return times_between_loads(PartRates.of(keys.missed(cached), partitions), loop_s, arrivals_per_s, cached)
