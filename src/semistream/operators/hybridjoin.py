"""HYBRIDJOIN.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1).

R is clustered by key. The oldest stream tuple decides which partition of R is read, and the partition is joined with
every tuple that waits, not with that one alone. What is answered leaves, wherever it stands in the queue, and its place
is taken by new tuples. Frequent keys share partitions and leave early; a key that nobody else asks for is read for
when it has become the oldest.

::

    stream ─► stream buffer ─ w tuples ─► H_S (by partition) ◄─ search ─ disk buffer ◄─ a partition ─ R, clustered
                                          Q  (oldest first)                                ▲
                                          └─ the oldest tuple picks ───────────────────────┘

    memory M = disk buffer + index (where pages lie, their first keys, partitions) + stream buffer + H_S + Q
               + results being built (+ results that wait, for stream order) (+ tuples being shed)

Symbols
-------
==========  ============================  ==============================================
paper       here                          unit
==========  ============================  ==============================================
``M``       ``budget_bytes``              bytes
``vP``      ``_lookup.plan.read_bytes``   bytes of a partition, read b pages at a time
``w``       ``_room_for_new``             stream tuples read per iteration: free places in H
``hS``      ``window_capacity_tuples``    stream tuples in H
==========  ============================  ==============================================

Deviations
----------
D1  A partition is a fixed range of keys, not "the rows from the oldest key on": Theorem 1 needs partitions that do not
    depend on who asks. It holds all rows of its keys, so that keys may have many rows, across pages and files.
D2  H is hashed by partition, not by key, and the tuples of a partition are searched in its sorted pages. Probing H with
    every row of the partition would find the tuples that match; this finds all that the partition answers, those
    without a match included, which must leave the queue too (the paper assumes that every tuple matches).
D3  A NULL key, and a key below all keys of R, match nothing and are answered when they are read.
D4  A partition larger than the disk buffer, which one key with many rows can make, is read in several parts.
D5  Stream tuples are read whenever there is room, whether or not w of them are there, and with nothing to read the
    work goes on until every tuple is answered (as the paper's text has it).
D6  Without a given b, it is as large as pays: at most 30% of the budget and 512 KB a read, not the optimum of the cost
    model. The page before a partition, on which its first key may begin, comes in the same read where that takes 3% of
    the budget at most. The partition that will be picked next is read ahead, so that the disk buffer is held three
    times.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.core.arguments import require_count
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.registry import register
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES, SheddingConfig, Strategy
from semistream.operators.window.admission import Admission
from semistream.operators.windowed_operator import WindowedOperator
from semistream.storage import Access, Io, MasterTable

__all__ = ["Hybridjoin", "HybridjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class HybridjoinConfig:
    """Settings of HYBRIDJOIN beyond the budget.

    Attributes
    ----------
    b
        Pages of a partition; worked out from the budget by default.
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    shedding
        What to do with tuples that arrive faster than they are joined: a strategy or a `SheddingConfig`. None lets them
        wait outside: `offer` refuses them.
    """

    b: int | None = None
    order: Order = "any"
    io: Io = "buffered"
    shedding: SheddingConfig | Strategy | None = None

    def __post_init__(self) -> None:
        require_count("b", self.b, optional=True)
        require_order(self.order)


@register("hybridjoin", HybridjoinConfig, ("clustered",))
class Hybridjoin(WindowedOperator):
    """Exact join of a stream with a clustered table, one partition for the oldest tuple at a time."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: HybridjoinConfig | None = None
    ) -> None:
        self.config = config or HybridjoinConfig()
        super().__init__(
            table,
            spec,
            budget_bytes,
            order=self.config.order,
            io=self.config.io,
            shedding=self.config.shedding,
            shedding_strategies=ALL_STRATEGIES,
        )

    @property
    def _access(self) -> Access:
        return "lookup"

    def _open(self) -> None:
        super()._open()
        table, spec, budget_bytes = self.table, self.spec, self.budget_bytes
        self._lookup = PartitionPhase(
            "hybridjoin",
            table,
            spec,
            self._reader,
            self._filter,
            self._delivery,
            self.metrics,
            budget_bytes=budget_bytes,
            reserved_bytes=self._reserved_bytes,
            b=self.config.b,
            sheds=self._sheds,
        )
        self._stream = self._make_stream(self._lookup.codes, self._lookup.plan)
        self._admission = Admission(self._stream, self._lookup.codes, self._delivery, self.metrics)

    @property
    def b(self) -> int:
        return self._lookup.plan.b

    @property
    def steps_per_cycle(self) -> int:
        return self._lookup.plan.iterations_per_cycle

    @property
    def partitions_read(self) -> int:
        return self._lookup.partitions_read

    # --- the loop: Fig. 5 -----------------------------------------------------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        yield from self._admission.read(self._room_for_new)  # ll. 3-6; w
        if self._stream.tuples_in_window:
            partition = self._lookup.pick(self._stream.window, self._picks_from_oldest())  # l. 7
            yield from self._lookup.join(self._stream.window, partition)  # ll. 8-12
            yield from self._lookup.remove(self._stream.window, partition, self._picks_next)  # ll. 13-14
        yield from self._release_in_order()

    # --- contract ---------------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {**self._lookup.components(), **super()._components()}

    def _release(self) -> None:
        self._lookup.close()
        super()._release()

    def _check(self) -> None:
        super()._check()
        self._lookup.check(self._stream)
