"""CHYBRIDJOIN: HYBRIDJOIN behind a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.2 and Algorithm 1.

Frequent keys are answered from a cache of their master rows. The others wait in HYBRIDJOIN's queue, whose oldest tuple
picks the partition of R that is read. A key that many tuples waited for when its partition came by goes to the cache.
By default any key does while there is room.

::

    stream ─► stream buffer ─► H_R ── hit ───────────────────────────────────────────────────► results
                                └ miss ─► H_S, Q ◄─ search ─ disk buffer ◄─ a partition ─ R, clustered
                                          │  └─ the oldest tuple picks ───────┘ ▲
                                          └─ rows of frequent keys ─► H_R

    memory M = disk buffer + index (where pages lie, their first keys, partitions) + stream buffer + H_S + Q + H_R, its
               frequency recorder and its switching buffer + results being built (+ results that wait, for stream order)
               (+ tuples being shed)

Symbols
-------
==============  ============================  ==============================================
paper           here                          unit
==============  ============================  ==============================================
``H_R``         ``front_stage``               master rows by key
``H_S``, ``Q``  ``_stream.window``            stream tuples by partition, oldest first
``h_S``         ``window_capacity_tuples``    stream tuples in H_S
``w_B``         ``_room_for_new``             stream tuples that may enter per iteration: free places in H_S
``SB_1``        the buffer of ``_stream``     stream tuples that arrived
``SB_2``        --                            misses enter H_S at once
``f``           ``waiting`` in `PartitionPhase`  tuples of a key that wait when its rows come by
==============  ============================  ==============================================

Deviations
----------
D1  w_B is the number of free places, counted and not accumulated: setting it to 0 after a partial read (l. 6) would
    lose places for good.
D2  A key without a row leaves with all that wait for its partition (ll. 8-11 delete its pointer and leave its tuple in
    H_S). It is cached as empty when it is frequent.
D3  A key's rows are cached all or none, so that keys may have many rows.
D4  The default policy is not the paper's threshold but one that also learns from hits (aging): `cache_policy`.
D5  The cache's share is of the memory that the disk buffer and other fixed parts leave; the paper's 15% are of all
    memory.
D6  R is clustered by key; the paper is content with an index, and reads b rows from a key on.
D7  HYBRIDJOIN's deviations hold here too.
D8  The cache keeps its share when it does not pay: without skew the window has 85% of HYBRIDJOIN's tuples, 0.5% hit the
    cache, and the rate is 0.853 of HYBRIDJOIN's on 20M rows and 0.849 on 2M, the lowest over all budgets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.core.arguments import require_count
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.registry import register
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES, SheddingConfig, Strategy
from semistream.operators.window.admission import Admission
from semistream.operators.windowed_operator import WindowedOperator
from semistream.storage import Access, Io, MasterTable

__all__ = ["Chybridjoin", "ChybridjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class ChybridjoinConfig(CachedConfig):
    """Settings of CHYBRIDJOIN beyond the budget.

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
        super().__post_init__()
        require_count("b", self.b, optional=True)
        require_order(self.order)


@register("chybridjoin", ChybridjoinConfig, ("clustered",))
class Chybridjoin(WindowedOperator):
    """Exact join of a stream with a clustered table: frequent keys from a cache, the others by partition."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: ChybridjoinConfig | None = None
    ) -> None:
        self.config = config or ChybridjoinConfig()
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
            "chybridjoin",
            table,
            spec,
            self._reader,
            self._filter,
            self._delivery,
            self.metrics,
            budget_bytes=budget_bytes,
            reserved_bytes=self._reserved_bytes,
            b=self.config.b,
            cache_share=self.config.cache_share,
            sheds=self._sheds,
        )
        self._stream = self._make_stream(self._lookup.codes, self._lookup.plan)
        self.front_stage = FrontStage(
            spec,
            self._filter,
            self._delivery,
            self.metrics,
            cache_bytes=self._lookup.plan.cache_bytes,
            tuple_bytes=lambda: self._stream.bytes_per_tuple,
            turn_tuples=lambda: self._stream.capacity_tuples,
            config=self.config,
            occupancy=PartitionPhase.OCCUPANCY,
        )
        self._admission = Admission(self._stream, self._lookup.codes, self._delivery, self.metrics, self.front_stage)

    @property
    def b(self) -> int:
        return self._lookup.plan.b

    @property
    def steps_per_cycle(self) -> int:
        return self._lookup.plan.iterations_per_cycle

    @property
    def partitions_read(self) -> int:
        return self._lookup.partitions_read

    # --- the loop: Algorithm 1; l. 3, load shedding, is `_begin_step` -----------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        yield from self._admission.read(self._room_for_new)  # ll. 4-6; w_B (D1)
        if self._stream.tuples_in_window:
            partition = self._lookup.pick(self._stream.window, self._picks_from_oldest())  # l. 7
            yield from self._lookup.join(self._stream.window, partition, self.front_stage)  # ll. 12-16, 19-22
            yield from self._lookup.remove(self._stream.window, partition, self._picks_next)  # ll. 8-11 (D2), 17-18
        yield from self._release_in_order()

    # --- contract ---------------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {**self._lookup.components(), **super()._components(), **self.front_stage.components()}

    def _release(self) -> None:
        self._lookup.close()
        super()._release()

    def _check(self) -> None:
        super()._check()
        self._lookup.check(self._stream)
        self.front_stage._check()
