"""SSBJ: Semi-Stream Balanced Join.

M. A. Naeem, G. Weber, C. Lutteroth: "A Memory-Optimal Many-to-Many Semi-Stream Join", Distributed and Parallel
Databases (S0).

Every key is joined where it takes less memory: its rows in the cache H_R, or its tuples in the window H_S. A key with m
rows of vR bytes, n of whose tuples arrive during a scan of R, is cached when m * vR < n * vS. What is saved
serves more of the stream. On an unindexed table the disk phase is MESHJOIN's scan. On a table clustered by key it is
HYBRIDJOIN's, as the paper proposes (section 5).

::

    stream ─► stream buffer ─► H_R ── hit ────────────────────────────────────► results
                                └ miss ─► H_S, Q ◄── disk buffer ◄── R (scan, or partition of the oldest tuple)
                                            │             └─ rows of keys with m * vR < n * vS ─► H_R
                                            └─ expired, or answered, tuples leave

    memory M = disk buffer + index (where pages lie) + stream buffer + (H_S + Q + H_R with its hit counts and switching
               buffer: one pool, whose shares move) + results being built (+ results that wait, for stream order)

Symbols
-------
===========  ==============================  ==================================================
paper        here                            unit
===========  ==============================  ==================================================
``M``        ``budget_bytes``                bytes
``H_R``      ``front_stage``                 master rows by key
``H_S``      ``_stream.window``              stream tuples
``rc``       ``switching.cycle``             scans of R
``s_count``  in ``switching``                rows of a key that were counted
``f_count``  in the policy                   hits of a cached key
``sB``       in ``switching``                rows on their way into H_R
``sf``       ``switching_factor``            --
``w``        ``w``                           misses that enter H_S per iteration, set for each chunk
===========  ==============================  ==================================================

Deviations
----------
D1  Keys to count and keys to move are chosen when a scan begins, after its first tuples and pages were read (ll. 15-24
    before ll. 3-14), and only a row set that was seen whole moves. Read literally, ll. 28-36 decide for each row
    against an H_S that changes, and can cache a part of a key's rows. Counts take memory: as many keys as there is room
    for are counted at once, half of them by tuples drawn at random.
D2  Eviction happens once, when a tenth scan begins. ll. 42-51 would run in each of its iterations, with counts
    that the first has set to 0, and evict everything.
D3  A key's hits are divided by the scans that it was cached for, not by 10.
D4  Keys that were counted and have no row move as well, as empty: ll. 28-36 never see them.
D5  Tuples of a moved key that are in H_S have met only a part of R. They stay until they expire.
D6  vS and vR are measured, structures included, and an entry's own bytes count beside its rows. Text counts as in the
    first tuples and rows.
D7  The budget is fixed, so that what the cache needs is taken from H_S over one scan: w falls before memory
    moves. The cache keeps a reserve for the next keys, between 1/64 and 1/8 of the pool.
D8  On a clustered table a partition brings all rows of its keys at once. The inequality is applied there and then, to
    the tuples that wait for the key, of which half wait on average. A turn, in which as many tuples miss the cache as
    the window holds, takes the place of a scan. There is no second look, a scan later, at keys that were looked at
    because they had a tuple. So one tuple alone is no estimate of n: with it, all keys of a uniform stream passed
    through the cache where rows are smaller than tuples, for twice the reads of HYBRIDJOIN.
D9  Eq. 6 of the paper equates bytes with tuples and is used nowhere.
D10 The rate is 2.55 times MESHJOIN's on 20M rows at skew 1 and M = 5% of R, and 2.13 times on 2M, not 3: what bounds
    CMESHJOIN (its D7) bounds any split of the memory between cache and window. Half of MESHJOIN's memory is enough for
    its rate on 20M rows; on 2M it gives 0.94 of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from semistream.core.arguments import require_count, require_number
from semistream.core.errors import InvalidArgument, TupleTooLarge
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.operators.cache.balance import Balance
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.cache.switching import State, Switching
from semistream.operators.phases.chunk_queue import CHUNK_BYTES
from semistream.operators.phases.page_sizes import PageSizes
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.phases.scan_phase import ScanPhase
from semistream.operators.phases.scan_plan import ScanPlan, ScanPlanner
from semistream.operators.registry import register
from semistream.operators.window.admission import Admission
from semistream.operators.window.matching import EqualityMatching
from semistream.operators.windowed_operator import WindowedOperator
from semistream.storage import Access, Io, MasterTable

__all__ = ["Ssbj", "SsbjConfig"]

DiskPhase = Literal["auto", "scan", "partition"]


@dataclass(frozen=True, kw_only=True)
class SsbjConfig:
    """Settings of SSBJ beyond the budget; None is worked out from the budget.

    Attributes
    ----------
    b
        Pages of R per iteration.
    switching_factor
        How much cheaper a key has to be on the other side to change sides; the paper's best is 1.
    disk_phase
        ``"scan"`` as in MESHJOIN, ``"partition"`` as in HYBRIDJOIN, or ``"auto"``: by partition where the table is
        clustered by the join's key.
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    b: int | None = None
    switching_factor: float = 1.0
    disk_phase: DiskPhase = "auto"
    order: Order = "any"
    io: Io = "buffered"

    def __post_init__(self) -> None:
        require_count("b", self.b, optional=True)
        require_number("switching_factor", self.switching_factor)
        if not 0 < self.switching_factor < float("inf"):
            raise InvalidArgument(f"switching_factor={self.switching_factor} must be above 0; 1 is the paper's best")
        if self.disk_phase not in get_args(DiskPhase):
            raise InvalidArgument(f"disk_phase={self.disk_phase!r} is unknown: use 'auto', 'scan' or 'partition'")
        require_order(self.order)


@register("ssbj", SsbjConfig, ("heap", "clustered"))
class Ssbj(WindowedOperator):
    """Exact join of a stream with a table: each key from the cache or from disk, whichever takes less memory."""

    def __init__(self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: SsbjConfig | None = None) -> None:
        self.config = config or SsbjConfig()
        super().__init__(table, spec, budget_bytes, order=self.config.order, io=self.config.io)

    @property
    def _is_by_partition(self) -> bool:
        if self.config.disk_phase != "auto":
            return self.config.disk_phase == "partition"
        return self.table.layout == "clustered" and self.table.is_key(self.spec.master_keys)

    @property
    def _access(self) -> Access:
        return "lookup" if self._is_by_partition else "scan"

    def _open(self) -> None:
        super()._open()
        table, spec, budget_bytes = self.table, self.spec, self.budget_bytes
        self._keys = EqualityMatching(spec)
        self._lookup: PartitionPhase | None = None
        if self._is_by_partition:
            self._lookup = PartitionPhase(
                "ssbj",
                table,
                spec,
                self._reader,
                self._filter,
                self._delivery,
                self.metrics,
                budget_bytes=budget_bytes,
                reserved_bytes=self._reserved_bytes,
                b=self.config.b,
                cache_share=Balance.first_cache_share(),
            )
            self._plan = self._lookup.plan
        else:
            self._plan = self._plan_scan()
        pool_bytes = self._plan.window_bytes + self._plan.cache_bytes
        window_codes = self._keys if self._lookup is None else self._lookup.codes
        self._stream = self._make_stream(window_codes, self._plan, max_window_bytes=pool_bytes)
        self.front_stage = FrontStage(
            spec,
            self._filter,
            self._delivery,
            self.metrics,
            cache_bytes=self._plan.cache_bytes,
            tuple_bytes=lambda: self._stream.bytes_per_tuple,
            turn_tuples=None if self._lookup is None else lambda: self._stream.capacity_tuples,
            config=CachedConfig(cache_policy="inequality"),
            max_bytes=pool_bytes,
            switching_factor=self.config.switching_factor,
            occupancy=1.0 if self._lookup is None else PartitionPhase.OCCUPANCY,
        )
        self._admission = Admission(self._stream, window_codes, self._delivery, self.metrics, self.front_stage)
        self._balance = Balance(self._stream, self.front_stage, pool_bytes)
        self._scan: ScanPhase | None = None
        if self._lookup is None:
            self._scan = ScanPhase(
                self._reader, self._plan, self._stream, self._keys, self._filter, self._delivery, self.metrics
            )
        self.switching = Switching(self.front_stage)
        self._balanced_turn = 0

    def _plan_scan(self) -> ScanPlan:
        planner = ScanPlanner(
            PageSizes.of(self._reader),
            self.spec,
            self._keys,
            budget_bytes=self.budget_bytes,
            other_bytes=self._reserved_bytes,
            ordered=self._delivery.ordered,
            what=f"ssbj on {self.table.path}",
            cache_share=Balance.first_cache_share(),
        )
        return planner.plan(self.config.b)

    @property
    def b(self) -> int:
        return self._plan.b

    @property
    def w(self) -> int:
        """Misses that enter H_S with the next chunk; 0 until the first tuples were measured."""
        return -(-self._balance.limit_tuples // self._plan.iterations_per_cycle)

    @property
    def steps_per_cycle(self) -> int:
        return self._plan.iterations_per_cycle

    def _step(self) -> Iterator[pa.RecordBatch]:
        if self._scan is not None:
            yield from self._step_by_scan(self._scan)
        else:
            assert self._lookup is not None
            yield from self._step_by_partition(self._lookup)
        yield from self._release_in_order()

    # --- the loop on a heap: Algorithm 1 ----------------------------------------------------------------------------

    def _step_by_scan(self, scan: ScanPhase) -> Iterator[pa.RecordBatch]:
        if scan.takes_chunk:
            scan.begin_chunk((yield from self._admission.read(self._room(self.w))))  # ll. 15-23
        if self._stream.tuples_in_window:
            run, pages = scan.read_pages()  # l. 24
            self.front_stage.measure(run)
            if scan.at_scan_start:
                self._begin_cycle()  # ll. 3-14, 42-51
            self.switching.saw(run, self._keys.master_codes(run))  # ll. 28-36
            yield from scan.join(run)  # ll. 25-27
            yield from scan.advance(pages)  # ll. 39-41

    def _begin_cycle(self) -> None:
        codes = self._stream.window.codes
        assert isinstance(codes, FifoMultimap)
        self.switching.begin_cycle(codes)
        if self.switching.state is State.PHASE_OUT:
            self._balance.aim()  # l. 11
        if self.switching.state is not State.SWITCHING:
            self._balance.settle()

    def _room(self, most: int) -> int:
        """Return how many tuples may enter now."""
        return max(0, min(most, self._balance.limit_tuples - self._stream.tuples_in_window))

    # --- the loop on a clustered table (D8) ---------------------------------------------------------------------------

    def _step_by_partition(self, lookup: PartitionPhase) -> Iterator[pa.RecordBatch]:
        yield from self._admission.read(self._room(self._stream.capacity_tuples))
        if self._stream.tuples_in_window:
            partition = lookup.oldest_partition(self._stream.window)
            yield from lookup.join(self._stream.window, partition, self.front_stage)
            yield from lookup.remove(self._stream.window, partition)
            self._rebalance_once_a_turn()

    def _rebalance_once_a_turn(self) -> None:
        inequality = self.front_stage.inequality
        if inequality is not None and inequality.turn != self._balanced_turn:
            self._balanced_turn = inequality.turn
            self._balance.aim()
        self._balance.settle()

    # --- contract -----------------------------------------------------------------------------------------------

    def _accept(self, batch: pa.RecordBatch) -> int:
        try:
            return super()._accept(batch)
        except TupleTooLarge:
            if self._stream.pending or self._balance.cache_share <= Balance.first_cache_share():
                raise
            # It may need what the cache has gained.
            self.switching.empty_cache()
            self._balance.restart()
            return super()._accept(batch)

    def _components(self) -> dict[str, int]:
        components = {**super()._components(), **self.front_stage.components()}
        if self._lookup is not None:
            return {**self._lookup.components(), **components}
        assert self._scan is not None
        components["queue"] += self._scan.queue_bytes
        return {"disk buffer": self._plan.disk_bytes, "index": self._reader.pages.nbytes, **components}

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "disk_phase": "scan" if self._lookup is None else "partition"}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header, tables = super()._state()
        header = {**header, "cache_share": self._balance.cache_share}
        return (header if self._scan is None else {**header, **self._scan.state()}), tables

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        pool_bytes = self._plan.window_bytes + self._plan.cache_bytes
        if self._scan is not None:
            self._scan.set_state(header, None)
            # Chunks of a smaller b may be more than a scan with this one has.
            pool_bytes -= self._scan.queue_bytes - self._plan.chunks * CHUNK_BYTES
        self._balance.restart(pool_bytes, header["cache_share"])
        super()._set_state(header, tables)

    def _release(self) -> None:
        if self._scan is not None:
            self._scan.close()
        if self._lookup is not None:
            self._lookup.close()
        super()._release()

    def _check(self) -> None:
        super()._check()
        if self._scan is not None:
            self._scan.check()
        if self._lookup is not None:
            self._lookup.check(self._stream)
        self.front_stage._check()
