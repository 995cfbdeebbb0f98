"""The cost of CMESHJOIN: that of MESHJOIN's loop for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.1, which gives no cost model. This one is put together in the form of S3 Eq. 1-3, with the two
kinds of tuples of S0 Eq. 1-3.

Memory    M = disk buffer + stream buffer + hS (vS f + sizeof(ptr)) + hR (vR f + policy + collecting) + fixed parts
Loop      c_loop = c_IO(b) + b (vP / vR) c_H + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_A + c_E + c_O)
Rate      mu = (wN + wS) / c_loop, where wS = hS b / N_R and wN = wS h / (1 - h)

h is the share of tuples that the cache answers: `aging_share`.

Symbols
-------
============  ==============================  ==========================================
paper         here                            unit
============  ==============================  ==========================================
``M``         ``memory_bytes``                bytes
``b``         ``settings["b"]``               pages per iteration
``wN, wS``    ``loop.cached_tuples``,         stream tuples per iteration
              ``loop.disk_tuples``
``hS``        ``window_tuples``               tuples that wait at most
``hR``        ``keys_in`` of `CacheMemory`    keys in the cache
``h``         ``loop.cache_share``            share of tuples
============  ==============================  ==========================================

Deviations
----------
D1  Those of MESHJOIN's model (its D1-D4, D6) hold here too.
D2  The cache is not taken to hold the most frequent keys: which it holds follows from its policy and from chance.
    Only the default policy (aging) is modelled. The others are close to it where the share is large.
D3  A key with many rows takes as many places, a key without any takes one.
D4  h is that of the long run, after about ten scans. A stream that changes is answered less from the cache.
D5  The stream buffer can be too small for all the hits of an iteration: then an iteration answers what it holds.
"""

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.model import (
    LoopPlan,
    Settings,
    Times,
    b_and_cache_share_to_try,
    known_settings,
    register_model,
    whole,
)
from semistream.cost.models.aging_share import aging_share
from semistream.cost.models.cache_memory import CacheMemory
from semistream.cost.models.scans import ScanMemory, scan_loop, scan_times
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.window.matching import EqualityMatching

__all__ = ["CmeshjoinModel"]

_NAME = "cmeshjoin"


@register_model(_NAME)
class CmeshjoinModel:
    """The cost model of CMESHJOIN, with settings ``b`` and ``cache_share``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Split the memory, and work out which tuples meet the disk."""
        known_settings(_NAME, settings, ("b", "cache_share"))
        cache_share = settings.get("cache_share", CachedConfig.cache_share)
        memory = self._memory(case, memory_bytes, whole(settings, "b"), cache_share)
        window = memory.window()
        cache = CacheMemory.of(case, "aging")
        shape = cache.shape(memory.plan.cache_bytes)
        cached = aging_share(
            case.stream.keys,
            cache.keys_in(memory.plan.cache_bytes),
            window.capacity,
            most_taken=cache.sizes.most_collected(shape.keys),
        )
        disk_tuples = min(window.capacity / memory.iterations, memory.buffer_tuples * (1 - cached))
        cached_tuples = disk_tuples * cached / (1 - cached) if cached < 1 else float(memory.buffer_tuples)
        return LoopPlan(
            settings={"b": memory.plan.b, "cache_share": cache_share},
            memory={**memory.components(window), **cache.components(shape)},
            loop=scan_loop(memory, disk_tuples=disk_tuples, cached_tuples=cached_tuples),
            loops_per_cycle=memory.iterations,
            window_tuples=window.capacity,
        )

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return half a loop, and a scan for those that miss the cache."""
        return scan_times(plan, loop_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios, with several shares of the cache."""
        fits = partial(self._memory, case, memory_bytes)
        return b_and_cache_share_to_try(case.table.pages, fits)

    @staticmethod
    def _memory(case: JoinCase, memory_bytes: int, b: int | None, cache_share: float) -> ScanMemory:
        CachedConfig(cache_share=cache_share)
        return ScanMemory.of(_NAME, case, EqualityMatching(case.spec), memory_bytes, b, cache_share)
