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

from collections.abc import Mapping
from dataclasses import dataclass

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Times
from semistream.cost.models.part_rates import PartRates, increasing_root
from semistream.cost.models.scans import page_sizes, window_shape
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.phases.partitions import Partitions
from semistream.operators.phases.scan_plan import ScanPlan
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching
from semistream.state.tuple_window import WindowShape

__all__ = ["PartitionLoads", "PartitionMemory", "partition_times", "partitions_of", "times_between_loads"]


def partitions_of(table: TableShape, b: int) -> int:
    """Return how many partitions of ``b`` pages the buckets of a table have."""
    pages_of_bucket = -(-table.pages // table.buckets)
    return table.buckets * -(-pages_of_bucket // b)


@dataclass(frozen=True)
class PartitionLoads:
    """Reads of partitions.

    Attributes
    ----------
    rates
        λ_p: how often a tuple asks for each partition.
    oldest_tuples
        T: how many tuples enter the window while its oldest tuple waits.

    Examples
    --------
    >>> import numpy as np

    When no tuple may wait, each has its partition read:

    >>> rates = PartRates(np.array([0.25]), np.array([4.0]))
    >>> PartitionLoads(rates, 0.0).per_tuple
    1.0

    A window for 100 tuples gathers 40 for each read of one of four partitions: 30, 20 and 10 wait for the others then:

    >>> round(1 / PartitionLoads.of_window(rates, 100).per_tuple)
    40
    """

    rates: PartRates
    oldest_tuples: float

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


def partition_times(case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
    """Return the times of tuples when one partition after the other is read."""
    cached_share = plan.loop.cache_share
    rates = PartRates.of(case.stream.keys.missed(cached_share), partitions_of(case.table, int(plan.settings["b"])))
    return times_between_loads(rates, loop_s, arrivals_per_s, cached_share)


def times_between_loads(rates: PartRates, loop_s: float, arrivals_per_s: float, cached_share: float = 0.0) -> Times:
    """Return the times of tuples when a partition is read every ``loop_s``.

    Parameters
    ----------
    rates
        λ_p of the tuples that no cache answers.
    cached_share
        The share of tuples that a cache answers, at the end of the loop that they enter.
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
    """The budget of a join that reads partitions, planned.

    Attributes
    ----------
    plan
        The split, as the operator makes it.
    window
        H_S and Q.
    memory
        Bytes by component, named as `Operator.memory` names them, without those of a cache.
    """

    case: JoinCase
    plan: ScanPlan
    window: WindowShape
    memory: dict[str, int]

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

        Parameters
        ----------
        shedding_bytes
            Memory of the store for shed tuples; None for a join that sheds none.
        """
        case.require_clustered(name)
        table, spec = case.table, case.spec
        pages = page_sizes(table, spec.master_schema)
        codes = EqualityMatching(spec)  # a window by partition takes as much
        delivery = Delivery(spec, memory_bytes, ordered=False)
        planner = PartitionPhase.planner(
            f"{name} on {table.pages} pages",
            pages,
            table.buckets,
            spec,
            codes,
            delivery,
            budget_bytes=memory_bytes,
            reserved_bytes=delivery.reserved_bytes + (shedding_bytes or 0),
            cache_share=cache_share,
            sheds=shedding_bytes is not None,
        )
        plan = planner.plan(b)
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
        """The number of partitions of R."""
        return partitions_of(self.case.table, self.plan.b)

    @property
    def pages_per_load(self) -> float:
        """Pages of a partition, and in every file the page before it, on which its first key may begin."""
        table = self.case.table
        with_page_before = self.partitions - table.buckets
        return (table.pages + table.files_per_key * with_page_before) / self.partitions

    @property
    def reads_per_load(self) -> float:
        """Reads of a partition; in each file the page before takes one of its own where a read has no room for it."""
        with_page_before = 1 - self.case.table.buckets / self.partitions
        pages_of_file = self.plan.b / self.case.table.files_per_key + 1
        one_more = with_page_before if pages_of_file > self.plan.read_pages else 0.0
        return self.case.table.files_per_key * (1 + one_more)

    def loads(self, missed: KeyDistribution, window: WindowShape) -> PartitionLoads:
        """Return the reads for tuples with the keys ``missed``, with this window."""
        return PartitionLoads.of_window(PartRates.of(missed, self.partitions), window.capacity)

    def loop_plan(
        self,
        settings: dict[str, float],
        window: WindowShape,
        loads: PartitionLoads,
        cached_share: float = 0.0,
        cache_components: Mapping[str, int] | None = None,
        factors: str | None = None,
    ) -> LoopPlan:
        """Return the loop with this window and these reads, behind a cache that answers a share of the tuples."""
        hash_bytes, queue_bytes = window.nbytes(EqualityMatching(self.case.spec), self.case.spec.stream_schema, False)
        disk_tuples = 1 / loads.per_tuple
        return LoopPlan(
            settings={"b": self.plan.b, **settings},
            memory={**self.memory, "H_S": hash_bytes, "queue": queue_bytes, **(cache_components or {})},
            loop=self.loop(disk_tuples, disk_tuples * cached_share / (1 - cached_share)),
            loops_per_cycle=max(1.0, loads.oldest_tuples * loads.per_tuple),
            window_tuples=window.capacity,
            factors=factors,
        )

    def loop(self, disk_tuples: float, cached_tuples: float = 0.0) -> Loop:
        """Return the counts of one iteration, which reads one partition for so many tuples."""
        table = self.case.table
        return Loop(
            cached_tuples=cached_tuples,
            disk_tuples=disk_tuples,
            master_rows=self.pages_per_load * table.rows_per_page,
            results=(cached_tuples + disk_tuples) * self.case.results_per_tuple,
            reads=self.reads_per_load,
            seeks=table.files_per_key,
            pages=self.pages_per_load,
            bytes_read=self.pages_per_load * table.page_bytes,
        )
