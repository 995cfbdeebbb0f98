"""How often partitions of R are read for the stream tuples that wait for them: what models of HYBRIDJOIN share.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1), ll. 727-815.

Time is counted in tuples that enter the window. Partition p is asked for by a tuple with probability λ_p. When it has
been read, nobody waits for it. Its next tuple comes 1/λ_p later on average, grows old, and at the age T it is the
oldest of the window and has p read, for itself and for all that came meanwhile::

    read ──── 1/λ_p ────► first tuple ──────────── T ────────────► it is the oldest: read
                              └ others of p gather, λ_p T of them ┘

So a turn of p takes 1/λ_p + T. Per tuple that enters there are Σ λ_p / (1 + λ_p T) reads, and
Σ λ_p (T + λ_p T² / 2) / (1 + λ_p T) tuples wait. T is the one for which as many wait as the window holds, or for
which the disk reads as fast as it can.

How a join that reads partitions would split its memory, and what it reads for one of them: S1 Eq. 1.

The operators' own planning is asked, with the sizes of a table's shape. Nothing is worked out twice.
"""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument
from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.loop import Loop
from semistream.cost.model import Times
from semistream.cost.models.part_rates import PartRates, increasing_root
from semistream.cost.models.scans import page_sizes, window_shape
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.phases.partitions import Partitions
from semistream.operators.phases.scan_plan import ScanPlan
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES, LoadShedding, SheddingConfig
from semistream.operators.shedding.overload import shed_message_bytes
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching
from semistream.state.tuple_window import WindowShape

__all__ = ["PartitionLoads", "PartitionMemory", "partitions_of", "require_clustered", "times_between_loads"]


@dataclass(frozen=True)
class PartitionLoads:
    """Reads of partitions whose oldest waiting tuple is ``oldest_tuples`` old when it has its partition read.

    Attributes
    ----------
    rates
        λ_p: how often a tuple asks for each partition.
    oldest_tuples
        T: how many tuples enter the window while its oldest tuple waits.

    Examples
    --------
    >>> import numpy as np

    Of four partitions one is read for every tuple that enters, when none may wait:

    >>> rates = PartRates(np.array([0.25]), np.array([4.0]))
    >>> PartitionLoads(rates, 0.0).per_tuple
    1.0

    A window for 100 tuples gathers 40 for each read: 30, 20 and 10 wait for the others then:

    >>> round(1 / PartitionLoads.of_window(rates, 100).per_tuple)
    40
    """

    rates: PartRates
    oldest_tuples: float

    @staticmethod
    def of_window(rates: PartRates, window_tuples: float) -> "PartitionLoads":
        """Return the reads of a join whose window of so many tuples is always full when it reads."""

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
        """Reads for each tuple that enters the window; the papers' w is one divided by it."""
        rate = self.rates.rate
        return self.rates.total(rate / (1 + rate * self.oldest_tuples))

    @property
    def waiting(self) -> float:
        """How many tuples wait on average."""
        own = self.rates.rate * self.oldest_tuples
        return self.rates.total(own * (1 + own / 2) / (1 + own))


def times_between_loads(rates: PartRates, loop_s: float, arrivals_per_s: float, cached_share: float = 0.0) -> Times:
    """Return the times of tuples when one partition after the other is read, in ``loop_s`` each.

    Parameters
    ----------
    rates
        λ_p of the tuples that no cache answers.
    cached_share
        Of the tuples that arrive; they are answered at the end of the loop that they enter.
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


def require_clustered(name: str, case: JoinCase) -> None:
    """Raise `InvalidArgument` unless keys can be looked up in the table."""
    if case.table.layout != "clustered":
        raise InvalidArgument(
            f"{name} looks keys up and the table has layout {case.table.layout!r}: ask for layout='clustered', "
            "or for 'meshjoin'"
        )
    if not case.spec.stream_keys:
        raise InvalidArgument(f"{name} finds rows by the table's key and the join compares none: ask for 'meshjoin'")


def partitions_of(table: TableShape, b: int) -> int:
    """Return into how many partitions of ``b`` pages the buckets of a table are divided."""
    pages_of_bucket = -(-table.pages // table.buckets)
    return table.buckets * -(-pages_of_bucket // b)


@dataclass(frozen=True)
class PartitionMemory:
    """The budget of HYBRIDJOIN or CHYBRIDJOIN, planned.

    Attributes
    ----------
    plan
        The split, as the operator makes it.
    window
        H_S and Q.
    memory
        Bytes by component, named as `Operator.memory` names them; those of a cache are not among them.
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
        shedding: SheddingConfig | None = None,
    ) -> "PartitionMemory":
        """Plan as the operator ``name`` does; raises `BudgetTooSmall`, naming the least that would do."""
        require_clustered(name, case)
        table, spec = case.table, case.spec
        pages = page_sizes(table, spec.master_schema)
        codes = EqualityMatching(spec)  # a window by partition takes as much
        delivery = Delivery(spec, memory_bytes, ordered=False)
        shedding_bytes = 0
        if shedding is not None:
            message_bytes = shed_message_bytes(memory_bytes)
            with LoadShedding(
                shedding, spec.stream_schema, algorithm=name, strategies=ALL_STRATEGIES, message_bytes=message_bytes
            ) as store:
                shedding_bytes = store.memory_bytes
        planner = PartitionPhase.planner(
            f"{name} on {table.pages} pages",
            pages,
            table.buckets,
            spec,
            codes,
            delivery,
            budget_bytes=memory_bytes,
            reserved_bytes=delivery.reserved_bytes + shedding_bytes,
            cache_share=cache_share,
            sheds=shedding is not None,
        )
        plan = planner.plan(b)
        window = window_shape(case, codes, plan.window_bytes)
        hash_bytes, queue_bytes = window.nbytes(codes, spec.stream_schema, False)
        partitions_bytes = Partitions.bytes_for(partitions_of(table, plan.b), table.buckets, table.files)
        memory = {
            "disk buffer": plan.disk_bytes,
            "index": pages.index_bytes + partitions_bytes,
            "found": PartitionPhase.found_bytes(delivery),
            "stream buffer": plan.stream_buffer_bytes,
            "H_S": hash_bytes,
            "queue": queue_bytes,
            "results": delivery.reserved_bytes,
        }
        return PartitionMemory(case, plan, window, {**memory, "shedding": shedding_bytes} if shedding else memory)

    @property
    def partitions(self) -> int:
        """Into how many partitions R is divided."""
        return partitions_of(self.case.table, self.plan.b)

    @property
    def pages_per_load(self) -> float:
        """Pages of a partition, and in every file the one before it, on which its first key may begin."""
        table = self.case.table
        with_page_before = self.partitions - table.buckets
        return (table.pages + self.seeks_per_load * with_page_before) / self.partitions

    @property
    def seeks_per_load(self) -> float:
        """Reads of a partition that begin elsewhere: one for each sorted file that may hold its keys."""
        return max(1.0, self.case.table.files / self.case.table.buckets)

    @property
    def reads_per_load(self) -> float:
        """Reads of a partition; in each file the page before takes one of its own where a read has no room for it."""
        with_page_before = 1 - self.case.table.buckets / self.partitions
        pages_of_file = self.plan.b / self.seeks_per_load + 1
        one_more = with_page_before if pages_of_file > self.plan.read_pages else 0.0
        return self.seeks_per_load * (1 + one_more)

    def loop(self, disk_tuples: float, cached_tuples: float = 0.0) -> Loop:
        """Return the counts of one iteration, which reads one partition for so many tuples."""
        table = self.case.table
        return Loop(
            cached_tuples=cached_tuples,
            disk_tuples=disk_tuples,
            master_rows=self.pages_per_load * table.rows_per_page,
            results=(cached_tuples + disk_tuples) * self.case.results_per_tuple,
            reads=self.reads_per_load,
            seeks=self.seeks_per_load,
            pages=self.pages_per_load,
            bytes_read=self.pages_per_load * table.page_bytes,
        )
