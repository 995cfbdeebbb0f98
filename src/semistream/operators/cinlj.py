"""CINLJ: the indexed nested-loop join behind a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.3.

Frequent keys are answered from a cache of their master rows, the others are looked up one by one. The join itself keeps
nothing of the stream, so a small buffer of recent keys tells which ones come again. By default any key is
cached while there is room.

::

    stream ─► stream buffer ─► H_R ── hit ─────────────────────────────────► results
                                └ miss ─► look-up: pages of R through a buffer pool ─► results
                                             └─ keys seen again lately ─► H_R

    memory M = index (where pages lie, and their first keys) + buffer pool + stream buffer
               + H_R, its frequency recorder and its switching buffer + temporary buffer + results being built
               (+ results that wait, for stream order)

Symbols
-------
================  ==========================  ==============================================
paper             here                        unit
================  ==========================  ==============================================
``H_R``           ``front_stage``             master rows by key
temporary buffer  ``_recent``                 keys that were looked up lately
--                ``w``                       stream tuples per step
================  ==========================  ==============================================

Deviations
----------
D1  The temporary buffer forgets the oldest key for every new one. The paper empties it after a time span.
D2  The default policy is not the paper's threshold but one that also learns from hits (aging): `cache_policy`. The
    paper's promotion at frequency 2 is where the threshold begins.
D3  A key's rows are cached all or none, so that keys may have many rows; a key without rows is cached as empty.
D4  INLJ's deviations hold here too, but for the order of results: the hits of a step leave before its misses, unless
    ``order="stream"`` is asked for.
D5  The gain over INLJ at skew 1 and M = 5% of R is 2.04 on 2M rows, and 1.73 on 20M after 635,000 tuples: the share of
    hits still rises there, for the cache fills with every look-up by a key at most. The CPU time per tuple is INLJ's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import Collecting, FrontStage
from semistream.operators.cache.recent_keys import RecentKeys
from semistream.operators.join import Join, JoinInputs
from semistream.operators.phases.lookup_phase import LookupMemory, LookupPhase, LookupSplit
from semistream.operators.registry import register
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_buffer import Arrivals, StreamBuffer

__all__ = ["DEFAULT_W", "Cinlj", "CinljConfig", "cinlj_split", "recent_keys_for"]

_STREAM_BUFFER_SHARE = 1 / 16
_RECENT_SHARE = 1 / 32
DEFAULT_W = 4096


@dataclass(frozen=True, kw_only=True)
class CinljConfig(CachedConfig):
    """Settings of CINLJ beyond the budget, and those of `CachedConfig`.

    Attributes
    ----------
    w
        Stream tuples per step.
    """

    w: int | None = None


def recent_keys_for(budget_bytes: int) -> int:
    """Return how many keys the temporary buffer has room for."""
    return int(np.clip(budget_bytes * _RECENT_SHARE * 1000 / RecentKeys.bytes_for(1000), 64, 1 << 20))


def cinlj_split(lookup: LookupMemory, what: str, cache_share: float, other_bytes: int) -> LookupSplit:
    """Return how the budget is shared out, with ``other_bytes`` for results and recent keys."""
    pages_share = 1 - _STREAM_BUFFER_SHARE - cache_share
    if pages_share <= 0:
        raise InvalidArgument(
            f"cache_share={cache_share} leaves nothing for pages: cinlj takes less than {1 - _STREAM_BUFFER_SHARE}"
        )
    fixed = lookup.fixed_bytes + other_bytes
    least_rest = int((lookup.least_pages_bytes + lookup.least_buffer_bytes) / pages_share) + 2
    require_at_least(lookup.budget_bytes, fixed + least_rest, what)
    rest = lookup.budget_bytes - fixed
    buffer_bytes = max(lookup.least_buffer_bytes, int(rest * _STREAM_BUFFER_SHARE))
    cache_bytes = int(rest * cache_share)
    return LookupSplit(buffer_bytes, cache_bytes, rest - buffer_bytes - cache_bytes)


@register("cinlj", CinljConfig, ("clustered",), caches=True)
class Cinlj(Join):
    """Exact join of a stream with a clustered table: frequent keys from a cache, the others looked up."""

    stream: StreamBuffer

    def __init__(self, inputs: JoinInputs, config: CinljConfig) -> None:
        spec, budget_bytes = inputs.spec, inputs.budget_bytes
        StreamBuffer.require_supported(spec.stream_schema)
        self.disk = LookupPhase(inputs, config.io)
        self._delivery = Delivery(spec, budget_bytes, ordered=config.order == "stream")
        recent_keys = recent_keys_for(budget_bytes)
        self._recent = RecentKeys(recent_keys)
        split = cinlj_split(
            self.disk.memory, str(inputs), config.cache_share, self._delivery.reserved_bytes + self._recent.nbytes
        )
        self.disk.use(split.pages_bytes)
        self.stream = StreamBuffer(split.stream_buffer_bytes, self.disk.keys.stream_codes, inputs.spec.stream_schema)
        self.front_stage = FrontStage(
            spec,
            self.disk.filter,
            self._delivery,
            inputs.metrics,
            cache_bytes=split.cache_bytes,
            tuple_bytes=lambda: RecentKeys.bytes_for(recent_keys) / recent_keys,
            turn_tuples=lambda: recent_keys,
            config=config,
        )
        self.w = config.w or DEFAULT_W
        self.parts = {
            "stream": self.stream,
            "recent": self._recent,
            "disk": self.disk,
            "cache": self.front_stage,
            "delivery": self._delivery,
        }

    # --- one step: w tuples, from the cache or looked up (S2, section 3.3) --------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        arrivals = self.stream.peek(self.w)
        assert arrivals is not None
        entries = self.front_stage.find(arrivals.code)
        if arrivals.valid is not None:
            entries[~arrivals.valid] = -1
        cached = entries >= 0
        misses = arrivals.where(~cached)
        if len(misses):
            accesses, looked_up = self.disk.locate(KeyCodes(misses.code, misses.valid))
            if looked_up < len(misses):
                stop = int(np.flatnonzero(~cached)[looked_up])
                arrivals, entries, cached = arrivals.first(stop), entries[:stop], cached[:stop]
                misses = misses.first(looked_up)
        self.front_stage.record(arrivals.code, entries)
        if cached.any():
            yield from self.front_stage.answer(arrivals.where(cached), entries[cached])
        if len(misses):
            learning = _Learning(self.front_stage, self._recent, misses)
            codes = KeyCodes(misses.code, misses.valid)
            for tuples, batch in self.disk.answer(misses.batch, codes, accesses, learning.found):
                yield from self._delivery.deliver(batch, misses.number[tuples])
            learning.finish()
        self.stream.consume(len(arrivals))
        yield from self._delivery.release(lambda: int(arrivals.number[-1]) + 1)


class _Learning:
    """Which of the looked-up keys go to the cache, and the rows that were found for them."""

    def __init__(self, front_stage: FrontStage, recent: RecentKeys, misses: Arrivals) -> None:
        self._front_stage = front_stage
        codes = misses.code if misses.valid is None else misses.code[misses.valid]
        recent.add(codes)
        distinct = np.unique(codes)
        self._collecting: Collecting | None = front_stage.consider(distinct, recent.count(distinct))
        # The rows of a key are taken from the first tuple that asks for it: others find the same ones.
        self._owner = np.full(len(misses), -1, dtype=np.int64)
        if self._collecting is not None:
            chosen = self._collecting.sets.codes
            order = np.argsort(chosen)
            at = np.minimum(np.searchsorted(chosen[order], misses.code), chosen.size - 1)
            hit = np.flatnonzero(chosen[order[at]] == misses.code)
            if misses.valid is not None:
                hit = hit[misses.valid[hit]]
            owners, first = np.unique(order[at[hit]], return_index=True)
            self._owner[hit[first]] = owners

    def found(self, tuples: Int64s, master: pa.RecordBatch) -> None:
        self._front_stage.measure(master)
        if self._collecting is not None:
            owners = self._owner[tuples]
            rows = np.flatnonzero(owners >= 0)
            self._collecting.sets.add(owners[rows], master, rows)

    def finish(self) -> None:
        if self._collecting is not None:
            self._front_stage.take_in(self._collecting)
