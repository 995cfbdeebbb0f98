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
``H_S``, ``Q``  ``stream.window``             stream tuples by partition, oldest first
``h_S``         ``stream.capacity_tuples``    stream tuples in H_S
``w_B``         ``stream.free_tuples``        stream tuples that may enter per iteration: free places in H_S
``SB_1``        the buffer of ``stream``      stream tuples that arrived
``SB_2``        --                            misses enter H_S at once
``f``           ``waiting`` in `PartitionPhase`  tuples of a key that wait when its rows come by
==============  ============================  ==============================================

Deviations
----------
D1  w_B is the number of free places, counted and not accumulated: setting it to 0 after a partial read (l. 6) would
    lose places for good.
D2  A key without a row leaves with all that wait for its partition (ll. 8-11 delete only its pointer; the text
    removes its tuple too). It is cached as empty when it is frequent.
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

from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.config import WindowConfig
from semistream.operators.join import Join, JoinInputs
from semistream.operators.phases.admission import Admission
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.registry import register
from semistream.operators.shedding.load_relief import LoadRelief, shedding_of
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_side import StreamSide

__all__ = ["Chybridjoin", "ChybridjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class ChybridjoinConfig(CachedConfig, WindowConfig):
    """Settings of CHYBRIDJOIN beyond the budget: those of `CachedConfig` and `WindowConfig`."""


@register("chybridjoin", ChybridjoinConfig, ("clustered",), plain_stream_columns=True, caches=True)
class Chybridjoin(Join):
    """Exact join of a stream with a clustered table: frequent keys from a cache, the others by partition."""

    stream: StreamSide
    shedding: LoadRelief | None = None

    def __init__(self, inputs: JoinInputs, config: ChybridjoinConfig) -> None:
        spec, metrics = inputs.spec, inputs.metrics
        shedding = shedding_of(inputs, config.shedding, ALL_STRATEGIES)
        self._delivery = Delivery(spec, inputs.budget_bytes, ordered=config.order == "stream")
        self.disk = PartitionPhase(
            inputs,
            self._delivery,
            io=config.io,
            b=config.b,
            cache_share=config.cache_share,
            shedding=shedding,
        )
        plan = self.disk.plan
        self.b = plan.b
        self.stream = stream = StreamSide(
            spec, self.disk.codes, self._delivery.ordered, plan.stream_buffer_bytes, plan.window_bytes
        )
        self.front_stage = FrontStage(
            spec,
            self.disk.filter,
            self._delivery,
            metrics,
            cache_bytes=plan.cache_bytes,
            tuple_bytes=lambda: stream.bytes_per_tuple,
            turn_tuples=lambda: stream.capacity_tuples,
            config=config,
            occupancy=PartitionPhase.OCCUPANCY,
        )
        self._admission = Admission(self.stream, self.disk.codes, self._delivery, metrics, self.front_stage)
        self.parts = {
            "disk": self.disk,
            "stream": self.stream,
            "cache": self.front_stage,
            "admission": self._admission,
            "delivery": self._delivery,
        }
        if shedding is not None:
            self.shedding = LoadRelief(shedding, self.stream, self._delivery, metrics, lambda: stream.free_tuples)
            self.parts["shedding"] = self.shedding
        self._oldest_pending = (self.shedding or self.stream).oldest_pending

    # --- the loop: S2, Algorithm 1; the driver sheds load before it (l. 3) --------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        yield from self._admission.read(self.stream.free_tuples)  # ll. 4-6; w_B (D1)
        if self.stream.tuples_in_window:
            partition = self.disk.pick(self.stream.window)  # l. 7
            yield from self.disk.join(self.stream.window, partition, self.front_stage)  # ll. 12-16, 19-22
            yield from self.disk.remove(self.stream.window, partition)  # ll. 8-11 (D2), 17-18
        yield from self._delivery.release(self._oldest_pending)

    # --- the paper's parameters -------------------------------------------------------------------------------------

    @property
    def steps_per_cycle(self) -> int:
        return self.disk.plan.iterations_per_cycle

    def check(self) -> None:
        assert not self.stream.has_matched, "a tuple leaves in the step that reads its partition"
