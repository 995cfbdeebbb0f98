"""The cost of CHYBRIDJOIN: HYBRIDJOIN's loop for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.2 and Algorithm 1, which has no cost model. This one has the form of S1's Eq. 1-4, with the two kinds of
tuples of S0's Eq. 1-3.

Memory    M = disk buffer + stream buffer + H_S and Q + H_R, its frequency recorder and its switching buffer
Loop      c_loop = c_IO(vP) + (vP / vR) c_H + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_A + c_E + c_O)
Rate      mu = (wN + wS) / c_loop, where wS is S1's w for the keys that are not cached, and wN = wS h / (1 - h)

h is the share of tuples that the cache answers: `semistream.cost.models.cache`.

Symbols
-------
============  ==============================  ==========================================
paper         here                            unit
============  ==============================  ==========================================
``M``         ``memory_bytes``                bytes
``h_S``       ``window_tuples``               tuples that wait at most
``w_F``       ``loop.cached_tuples``          stream tuples per iteration, through H_R
``w_B``       ``loop.disk_tuples``            stream tuples per iteration, through the queue
``h``         ``loop.cache_share``            share of tuples
============  ==============================  ==========================================

Deviations
----------
D1  Those of HYBRIDJOIN's model (its D1-D6) hold here too.
D2  The cache does not hold exactly the most frequent keys: its policy learns from tuples that come by chance. Only the
    default policy (aging) is modelled.
D3  Reads of R are those behind a cache with the most frequent keys that make up the share h.
D4  h is that of the long run. A stream that changes has fewer hits.
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
from semistream.cost.models.cache import MOST_CACHED, CacheMemory, aging_share
from semistream.cost.models.partitions import PartitionMemory, partition_times
from semistream.operators.cache.cached_config import CachedConfig

__all__ = ["ChybridjoinModel", "cached_partition_plan"]

_NAME = "chybridjoin"


@register_model(_NAME)
class ChybridjoinModel:
    """The cost model of CHYBRIDJOIN, with settings ``b`` and ``cache_share``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Split the memory, and work out which tuples have partitions read."""
        given = checked_settings(_NAME, settings, ("b", "cache_share"))
        cache_share = given.get("cache_share", CachedConfig.cache_share)
        CachedConfig(cache_share=cache_share)
        b = given.get("b")
        memory = PartitionMemory.of(_NAME, case, memory_bytes, b, cache_share=cache_share)
        return cached_partition_plan(memory, cache_share)

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return the time until the next loop begins, and until a tuple's key or partition is found."""
        return partition_times(case, plan, loop_s, arrivals_per_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios, with several shares of the cache."""
        return fitting_settings(
            lambda b, cache_share: PartitionMemory.of(_NAME, case, memory_bytes, b, cache_share=cache_share),
            pages=case.table.pages,
            cache_shares=CACHE_SHARES,
        )


def cached_partition_plan(memory: PartitionMemory, cache_share: float) -> LoopPlan:
    """Return the loop with a planned memory."""
    keys, cache = memory.case.stream.keys, CacheMemory.of(memory.case, "aging")
    cached = aging_share(keys, cache.keys_in(memory.plan.cache_bytes), memory.window.capacity)
    cached = min(cached, MOST_CACHED)
    loads = memory.loads(keys.missed(cached), memory.window)
    components = cache.components(cache.sizes.shape_in(memory.plan.cache_bytes))
    return memory.loop_plan({"cache_share": cache_share}, memory.window, loads, cached, components)
