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
``H_S``      ``stream.window``               stream tuples
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
D8  On a clustered table a partition brings all rows of its keys at once, and the inequality is applied when it is read.
    A turn, in which as many tuples miss the cache as the window holds, takes the place of a scan. Between two reads of
    a partition its tuples grow evenly from 0 to n, so that n/2 wait on average (``occupancy``). On eviction a turn's
    hits already are that average (Little's law). One tuple says nothing about how many will come, so that a key needs
    two: otherwise all keys of a uniform stream pass through the cache, for twice the reads of HYBRIDJOIN.
D9  Eq. 6 of the paper equates bytes with tuples and is used nowhere.
D10 The rate is 2.54 times MESHJOIN's on 20M rows at skew 1 and M = 5% of R, and 2.13 times on 2M, not 7 to 8 times (S0,
    section 4.3): what bounds CMESHJOIN (its D7) bounds any split of the memory between cache and window. Half of
    MESHJOIN's memory is enough for its rate on 20M rows; on 2M it gives 0.94 of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args
from weakref import proxy

import pyarrow as pa

from semistream.core.arguments import require_number
from semistream.core.errors import InvalidArgument
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.operators.cache.balance import Balance
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.cache.switching import Phase, Switching
from semistream.operators.config import JoinConfig
from semistream.operators.join import Join, JoinInputs, Part
from semistream.operators.phases.admission import Admission
from semistream.operators.phases.memory_plan import MemoryPlanner
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.phases.scan_phase import ScanPhase
from semistream.operators.registry import register
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching, PairFilter
from semistream.operators.window.stream_side import StreamSide

__all__ = ["PartitionSsbj", "ScanningSsbj", "SsbjConfig", "ssbj"]

DiskPhase = Literal["auto", "scan", "partition"]


@dataclass(frozen=True, kw_only=True)
class SsbjConfig(JoinConfig):
    """Settings of SSBJ beyond the budget, and those of `JoinConfig`; None is worked out from the budget.

    Attributes
    ----------
    b
        Pages of R per iteration.
    switching_factor
        How much cheaper a key has to be on the other side to change sides; the paper's best is 1.
    disk_phase
        ``"scan"`` as in MESHJOIN, ``"partition"`` as in HYBRIDJOIN, or ``"auto"``: by partition where the table is
        clustered by the join's key.
    """

    b: int | None = None
    switching_factor: float = 1.0
    disk_phase: DiskPhase = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("switching_factor", self.switching_factor)
        if not 0 < self.switching_factor < float("inf"):
            raise InvalidArgument(f"switching_factor={self.switching_factor} must be above 0; 1 is the paper's best")
        if self.disk_phase not in get_args(DiskPhase):
            raise InvalidArgument(f"disk_phase={self.disk_phase!r} is unknown: use 'auto', 'scan' or 'partition'")


@register("ssbj", SsbjConfig, ("heap", "clustered"), plain_stream_columns=True, caches=True)
def ssbj(inputs: JoinInputs, config: SsbjConfig) -> "ScanningSsbj | PartitionSsbj":
    """Return SSBJ with the disk phase that the settings or the table ask for."""
    disk_phase = config.disk_phase
    if disk_phase == "auto":
        by_key = inputs.table.layout == "clustered" and inputs.table.is_key(inputs.spec.master_keys)
        disk_phase = "partition" if by_key else "scan"
    return PartitionSsbj(inputs, config) if disk_phase == "partition" else ScanningSsbj(inputs, config)


class ScanningSsbj(Join):
    """SSBJ on an unindexed table: each key from the cache or by a cyclic scan, whichever takes less memory."""

    stream: StreamSide

    def __init__(self, inputs: JoinInputs, config: SsbjConfig) -> None:
        spec, metrics, join = inputs.spec, inputs.metrics, proxy(self)
        self._keys = EqualityMatching(spec)
        pair_filter = PairFilter(spec)
        reader = inputs.open_reader(config.io, "scan")
        self._delivery = Delivery(spec, inputs.budget_bytes, ordered=config.order == "stream")
        planner = MemoryPlanner.of(inputs, reader, self._keys, self._delivery, cache_share=Balance.FIRST_CACHE_SHARE)
        self.plan = planner.plan(config.b)
        self.b = self.plan.b
        pool_bytes = self.plan.window_bytes + self.plan.cache_bytes
        self.stream = stream = StreamSide(
            spec,
            self._keys,
            self._delivery.ordered,
            self.plan.stream_buffer_bytes,
            self.plan.window_bytes,
            max_window_bytes=pool_bytes,
            reclaim=lambda: join.balance.give_up_cache(join.switching.empty_cache),
        )
        self.front_stage = FrontStage(
            spec,
            pair_filter,
            self._delivery,
            metrics,
            cache_bytes=self.plan.cache_bytes,
            tuple_bytes=lambda: stream.bytes_per_tuple,
            turn_tuples=None,
            config=CachedConfig(cache_policy="inequality"),
            max_bytes=pool_bytes,
            switching_factor=config.switching_factor,
        )
        self._admission = Admission(self.stream, self._keys, self._delivery, metrics, self.front_stage)
        self.scan = scan = ScanPhase(reader, self.plan, self.stream, self._keys, pair_filter, self._delivery, metrics)
        self.balance = Balance(self.stream, self.front_stage, pool_bytes, lambda: scan.extra_queue_bytes)
        self.switching = Switching(self.front_stage)
        self.parts = {
            "disk_phase": _DiskPhaseIdentity("scan"),
            "scan": self.scan,
            "balance": self.balance,
            "stream": self.stream,
            "cache": self.front_stage,
            "switching": self.switching,
            "admission": self._admission,
            "delivery": self._delivery,
        }

    # --- the loop: S0, Algorithm 1 ----------------------------------------------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        if self.scan.takes_chunk:
            self.scan.begin_chunk((yield from self._admission.read(self.balance.room_for(self.w))))  # ll. 15-23
        if self.stream.tuples_in_window:
            run, pages = self.scan.read_pages()  # l. 24
            self.front_stage.measure(run)
            if self.scan.at_scan_start:
                self._begin_cycle()  # ll. 3-14, 42-51
            self.switching.observe_pages(run, self._keys.master_codes(run))  # ll. 28-36
            yield from self.scan.join(run)  # ll. 25-27
            yield from self.scan.advance(pages)  # ll. 39-41
        yield from self._delivery.release(self.stream.oldest_pending)

    def _begin_cycle(self) -> None:
        codes = self.stream.window.codes
        assert isinstance(codes, FifoMultimap)
        self.switching.begin_cycle(codes)
        if self.switching.phase is Phase.PHASE_OUT:
            self.balance.plan_shares()  # l. 11
        if self.switching.phase is not Phase.SWITCHING:
            self.balance.move_memory()

    @property
    def w(self) -> int:
        """Misses that enter H_S with the next chunk; 0 until the first tuples were measured."""
        return -(-self.balance.limit_tuples // self.plan.iterations_per_cycle)

    @property
    def steps_per_cycle(self) -> int:
        return self.plan.iterations_per_cycle


class PartitionSsbj(Join):
    """SSBJ on a clustered table (D8): each key from the cache or by partition, whichever takes less memory."""

    stream: StreamSide

    def __init__(self, inputs: JoinInputs, config: SsbjConfig) -> None:
        spec, metrics, join = inputs.spec, inputs.metrics, proxy(self)
        self._delivery = Delivery(spec, inputs.budget_bytes, ordered=config.order == "stream")
        self.disk = PartitionPhase(
            inputs, self._delivery, io=config.io, b=config.b, cache_share=Balance.FIRST_CACHE_SHARE
        )
        self.plan = self.disk.plan
        self.b = self.plan.b
        pool_bytes = self.plan.window_bytes + self.plan.cache_bytes
        self.stream = stream = StreamSide(
            spec,
            self.disk.codes,
            self._delivery.ordered,
            self.plan.stream_buffer_bytes,
            self.plan.window_bytes,
            max_window_bytes=pool_bytes,
            reclaim=lambda: join.balance.give_up_cache(join.front_stage.evict_all),
        )
        self.front_stage = FrontStage(
            spec,
            self.disk.filter,
            self._delivery,
            metrics,
            cache_bytes=self.plan.cache_bytes,
            tuple_bytes=lambda: stream.bytes_per_tuple,
            turn_tuples=lambda: stream.capacity_tuples,
            config=CachedConfig(cache_policy="inequality"),
            max_bytes=pool_bytes,
            switching_factor=config.switching_factor,
            occupancy=PartitionPhase.OCCUPANCY,
        )
        self._admission = Admission(self.stream, self.disk.codes, self._delivery, metrics, self.front_stage)
        self.balance = Balance(self.stream, self.front_stage, pool_bytes)
        self.parts = {
            "disk_phase": _DiskPhaseIdentity("partition"),
            "disk": self.disk,
            "balance": self.balance,
            "stream": self.stream,
            "cache": self.front_stage,
            "admission": self._admission,
            "delivery": self._delivery,
        }

    # --- the loop: HYBRIDJOIN's, with S0's cache ----------------------------------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        yield from self._admission.read(self.balance.room_for(self.stream.capacity_tuples))
        if self.stream.tuples_in_window:
            partition = self.disk.pick(self.stream.window)  # S1, Fig. 5, l. 7
            yield from self.disk.join(self.stream.window, partition, self.front_stage)  # ll. 8-12; S0, ll. 31-34
            yield from self.disk.remove(self.stream.window, partition)  # ll. 13-14
            self.balance.plan_shares_once_a_turn()
            self.balance.move_memory()
        yield from self._delivery.release(self.stream.oldest_pending)

    @property
    def steps_per_cycle(self) -> int:
        return self.plan.iterations_per_cycle

    def check(self) -> None:
        assert not self.stream.has_matched, "a tuple leaves in the step that reads its partition"


class _DiskPhaseIdentity(Part):
    """Which disk phase was chosen; a snapshot is of one of them."""

    def __init__(self, disk_phase: str) -> None:
        self._disk_phase = disk_phase

    def identity(self) -> dict[str, Any]:
        return {"disk_phase": self._disk_phase}
