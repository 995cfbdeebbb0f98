"""The cost of CMESHJOIN: MESHJOIN's loop for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.1, which gives no cost model. This one has the form of S3's Eq. 1-3, with the two kinds of tuples of
S0's Eq. 1-3.

Memory    M = disk buffer + stream buffer + hS (vS f + sizeof(ptr)) + hR (vR f + policy + collecting) + fixed parts
Loop      c_loop = c_IO(b) + b (vP / vR) c_H + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_A + c_E + c_O)
Rate      mu = (wN + wS) / c_loop, where wS = hS b / N_R and wN = wS h / (1 - h)

h is the share of tuples that the cache answers: `semistream.cost.models.cache`.

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
``hR``        ``CacheMemory.keys_in``         keys in the cache
``h``         ``loop.cache_share``            share of tuples
============  ==============================  ==========================================

Deviations
----------
D1  Those of MESHJOIN's model (its D1-D4, D6) hold here too.
D2  The cache does not hold exactly the most frequent keys: its policy learns from tuples that come by chance. Only the
    default policy (aging) is modelled; the others are close to it where the share is large.
D3  A key with many rows takes as many places, a key without any takes one.
D4  h is that of the long run, after about ten scans. A stream that changes has fewer hits.
D5  The stream buffer can be too small for all the hits of an iteration: then an iteration answers the tuples in it.
"""

from semistream.cost.join_case import JoinCase
from semistream.cost.model import (
    CACHE_SHARES,
    LoopPlan,
    Settings,
    Times,
    checked_settings,
    fitting_settings,
    register_model,
)
from semistream.cost.models.cache import CacheMemory, aging_share
from semistream.cost.models.scans import ScanMemory, scan_times
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.window.matching import EqualityMatching

__all__ = ["CmeshjoinModel"]

_NAME = "cmeshjoin"


@register_model(_NAME)
class CmeshjoinModel:
    """The cost model of CMESHJOIN, with settings ``b`` and ``cache_share``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Split the memory, and work out which tuples meet the disk."""
        given = checked_settings(_NAME, settings, ("b", "cache_share"))
        cache_share = given.get("cache_share", CachedConfig.cache_share)
        memory = self._memory(case, memory_bytes, given.get("b"), cache_share)
        cache, cache_bytes = CacheMemory.of(case, "aging"), memory.plan.cache_bytes
        cached = aging_share(case.stream.keys, cache.keys_in(cache_bytes), memory.window.capacity)
        components = cache.components(cache.sizes.shape_in(cache_bytes))
        return memory.loop_plan({"cache_share": cache_share}, memory.window, cached, components)

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return half a loop, and a scan for tuples that miss the cache."""
        return scan_times(plan, loop_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios, with several shares of the cache."""
        return fitting_settings(
            lambda b, cache_share: self._memory(case, memory_bytes, b, cache_share),
            pages=case.table.pages,
            cache_shares=CACHE_SHARES,
        )

    @staticmethod
    def _memory(case: JoinCase, memory_bytes: int, b: int | None, cache_share: float) -> ScanMemory:
        CachedConfig(cache_share=cache_share)
        return ScanMemory.of(_NAME, case, EqualityMatching(case.spec), memory_bytes, b, cache_share)
