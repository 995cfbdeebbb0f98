"""CMESHJOIN: MESHJOIN behind a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.1.

Frequent keys are answered from a cache of their master rows. What the cache does not know enters MESHJOIN's window and
meets all of R page by page. The window holds only infrequent keys, so one scan of R serves more of the stream.

::

    stream ─► stream buffer ─► H_R ── hit ──────────────────────────────────────► results
                                └ miss ─► H_S, Q ◄─ probe ─ disk buffer ◄─ R (cyclic scan)
                                            │                   └─ rows of frequent keys ─► H_R
                                            └─ the oldest chunk expires

    memory M = disk buffer + index (where pages lie) + stream buffer + H_S + Q + H_R, its frequency recorder and its
               switching buffer + results being built (+ results that wait, for stream order) (+ tuples being shed)

Symbols
-------
==========  ============================  ==============================================
paper       here                          unit
==========  ============================  ==============================================
``H_R``     ``front_stage``               master rows by key
``H_S``     ``stream.window``             stream tuples, hashed by key
``Q``       chunks of ``scan``            chunks of w tuples, oldest first
``SB_1``    the buffer of ``stream``      stream tuples that arrived
``SB_2``    --                            misses enter H_S at once
==========  ============================  ==============================================

Deviations
----------
D1  A key's rows may lie on any page: they are collected during one whole scan and cached together, so that keys with
    many rows can be cached. The paper caches a row when it comes by, which is enough for keys with one row only. Keys
    without any row are cached too, as empty.
D2  Which keys are collected is chosen at the beginning of a scan, among those that wait then. The paper decides for
    each row when it comes by.
D3  A front-stage phase ends after w misses (the paper: when H_S is full), so that chunks are of equal size and leave
    evenly.
D4  The default policy is not the paper's threshold but one that also learns from hits (aging): `cache_policy`.
D5  The cache's share is of the memory that the disk buffer and other fixed parts leave; the paper's 15% are of all
    memory.
D6  MESHJOIN's deviations hold here too, but b is not changed in flight.
D7  S2's gains over MESHJOIN (4 with 1% memory, 4.7 on 20M rows, up to 6.5: section 5.2.1) are not reached at skew 1
    and M = 5% of R: the gain is 2.64 on 20M rows and 2.16 on 2M. With the cache's share s full of the most frequent
    keys, of which the stream has the part h, the window serves (1 - s) / (1 - h) times as many tuples per scan: at most
    2.9 on 20M rows and 2.5 on 2M, whatever s is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import proxy

import pyarrow as pa

from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.cache.scan_collector import ScanCollector
from semistream.operators.config import WindowConfig
from semistream.operators.join import Join, JoinInputs
from semistream.operators.phases.admission import Admission
from semistream.operators.phases.memory_plan import MemoryPlanner
from semistream.operators.phases.scan_phase import ScanPhase
from semistream.operators.registry import register
from semistream.operators.shedding.load_relief import LoadRelief, shedding_of
from semistream.operators.shedding.load_shedding import UPFRONT_STRATEGIES
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching, PairFilter
from semistream.operators.window.stream_side import StreamSide

__all__ = ["Cmeshjoin", "CmeshjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class CmeshjoinConfig(CachedConfig, WindowConfig):
    """Settings of CMESHJOIN beyond the budget: those of `CachedConfig` and `WindowConfig`."""


@register("cmeshjoin", CmeshjoinConfig, ("heap", "clustered"), plain_stream_columns=True, caches=True)
class Cmeshjoin(Join):
    """Exact join of a stream with a table: frequent keys from a cache, the others by a cyclic scan."""

    stream: StreamSide
    shedding: LoadRelief | None = None

    def __init__(self, inputs: JoinInputs, config: CmeshjoinConfig) -> None:
        spec, metrics = inputs.spec, inputs.metrics
        self._keys = EqualityMatching(spec)
        pair_filter = PairFilter(spec)
        reader = inputs.open_reader(config.io, "scan")
        shedding = shedding_of(inputs, config.shedding, UPFRONT_STRATEGIES)
        self._delivery = Delivery(spec, inputs.budget_bytes, ordered=config.order == "stream")
        planner = MemoryPlanner.of(inputs, reader, self._keys, self._delivery, shedding, config.cache_share)
        self._plan = plan = planner.plan(config.b)
        self.b = plan.b
        self.stream = stream = StreamSide(
            spec, self._keys, self._delivery.ordered, plan.stream_buffer_bytes, plan.window_bytes
        )
        self.front_stage = FrontStage(
            spec,
            pair_filter,
            self._delivery,
            metrics,
            cache_bytes=self._plan.cache_bytes,
            tuple_bytes=lambda: stream.bytes_per_tuple,
            turn_tuples=lambda: stream.capacity_tuples,
            config=config,
        )
        self._admission = Admission(self.stream, self._keys, self._delivery, metrics, self.front_stage)
        self.scan = ScanPhase(reader, self._plan, self.stream, self._keys, pair_filter, self._delivery, metrics)
        self.collector = ScanCollector(self.front_stage, self.scan.num_pages)
        self.parts = {
            "scan": self.scan,
            "stream": self.stream,
            "cache": self.front_stage,
            "collector": self.collector,
            "admission": self._admission,
            "delivery": self._delivery,
        }
        if shedding is not None:
            join = proxy(self)
            self.shedding = LoadRelief(shedding, self.stream, self._delivery, metrics, lambda: join.w)
            self.parts["shedding"] = self.shedding
        self._oldest_pending = (self.shedding or self.stream).oldest_pending

    # --- one outer iteration: front stage, then MESHJOIN (S2, section 3.1) --------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        if self.scan.takes_chunk:
            self.scan.begin_chunk((yield from self._admission.read(self.w)))  # S2 Alg. 3; S3 Fig. 4, l. 2, ll. 7-8
        if self.stream.tuples_in_window:
            if self.scan.at_scan_start and self.collector.is_idle:
                self.collector.begin(*self.stream.window.waiting_keys())  # D2
            run, pages = self.scan.read_pages()  # S3 Fig. 4, l. 2: b pages
            self.collector.observe_pages(run, self._keys.master_codes(run), pages)  # D1
            yield from self.scan.join(run)  # ll. 9-10
            yield from self.scan.advance(pages)  # ll. 3-6
        yield from self._delivery.release(self._oldest_pending)

    # --- the paper's parameters -------------------------------------------------------------------------------------

    @property
    def w(self) -> int:
        """Misses that enter H_S per iteration; 0 until the first tuples were measured."""
        return -(-self.stream.capacity_tuples // self._plan.iterations_per_cycle)

    @property
    def steps_per_cycle(self) -> int:
        return self._plan.iterations_per_cycle
