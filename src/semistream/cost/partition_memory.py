"""How a join that reads partitions would split its memory, and what it reads for one of them: S1 Eq. 1.

The operators' own planning is asked, with the sizes of a table's shape. Nothing is worked out twice.
"""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument
from semistream.cost.loop import Loop
from semistream.cost.model import JoinCase
from semistream.cost.result_rows import results_per_tuple
from semistream.cost.scan_memory import page_sizes, window_shape
from semistream.cost.table_shape import TableShape
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.phases.partitions import Partitions
from semistream.operators.phases.scan_plan import ScanPlan
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES, LoadShedding, SheddingConfig
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching
from semistream.operators.windowed_operator import WindowedOperator
from semistream.state.tuple_window import WindowShape

__all__ = ["PartitionMemory", "partitions_of", "require_clustered"]


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
            message_bytes = WindowedOperator.shed_message_bytes(memory_bytes)
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
            results=(cached_tuples + disk_tuples) * results_per_tuple(self.case),
            reads=self.reads_per_load,
            seeks=self.seeks_per_load,
            pages=self.pages_per_load,
            bytes_read=self.pages_per_load * table.page_bytes,
        )
