"""The cost of CHYBRIDJOIN: that of HYBRIDJOIN's loop for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.2 and Algorithm 1, which has no cost model. This one is put together in the form of S1 Eq. 1-4, with
the two kinds of tuples of S0 Eq. 1-3.

Memory    M = disk buffer + stream buffer + H_S and Q + H_R, its frequency recorder and its switching buffer
Loop      c_loop = c_IO(vP) + (vP / vR) c_H + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_A + c_E + c_O)
Rate      mu = (wN + wS) / c_loop, where wS is S1's w for the keys that are not cached, and wN = wS h / (1 - h)

h is the share of tuples that the cache answers: `semistream.cost.models.aging_share`.

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
D2  The cache is not taken to hold the most frequent keys: which it holds follows from its policy and from chance.
    Only the default policy (aging) is modelled. A key is looked at when its partition is read, after its tuples have
    gathered for T tuples that entered, which is about twice h_S.
D3  What is read of R is that of a cache with the most frequent keys that make up the share h.
D4  h is that of the long run. A stream that changes is answered less from the cache.
"""

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import missed_keys
from semistream.cost.model import (
    LoopPlan,
    Settings,
    Times,
    b_and_cache_share_to_try,
    known_settings,
    register_model,
    whole,
)
from semistream.cost.models.aging_share import Looks, aging_share
from semistream.cost.models.cache_memory import CacheMemory
from semistream.cost.models.part_rates import PartRates
from semistream.cost.models.partitions import PartitionLoads, PartitionMemory, partitions_of, times_between_loads
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.shedding.load_shedding import SheddingConfig

__all__ = ["ChybridjoinModel", "cached_partition_memory"]

_NAME = "chybridjoin"
_LOOKS = Looks(turns_between=2.0, turns_collecting=0.0, first_aging=0.5)
_MOST_CACHED = 0.9999


def cached_partition_memory(
    case: JoinCase,
    memory_bytes: int,
    b: int | None,
    cache_share: float = CachedConfig.cache_share,
    shedding: SheddingConfig | None = None,
) -> tuple[PartitionMemory, float, dict[str, int]]:
    """Return how the memory is split, the share of tuples that the cache answers, and the components of the cache."""
    CachedConfig(cache_share=cache_share)
    memory = PartitionMemory.of(_NAME, case, memory_bytes, b, cache_share=cache_share, shedding=shedding)
    cache = CacheMemory.of(case, "aging")
    cached = aging_share(case.stream.keys, cache.keys_in(memory.plan.cache_bytes), memory.window.capacity, _LOOKS)
    return memory, min(cached, _MOST_CACHED), cache.components(cache.shape(memory.plan.cache_bytes))


@register_model(_NAME)
class ChybridjoinModel:
    """The cost model of CHYBRIDJOIN, with settings ``b`` and ``cache_share``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Split the memory, and work out which tuples have partitions read."""
        known_settings(_NAME, settings, ("b", "cache_share"))
        cache_share = settings.get("cache_share", CachedConfig.cache_share)
        memory, cached, components = cached_partition_memory(case, memory_bytes, whole(settings, "b"), cache_share)
        rates = PartRates.of(missed_keys(case.stream.keys, cached), memory.partitions)
        loads = PartitionLoads.of_window(rates, memory.window.capacity)
        disk_tuples = 1 / loads.per_tuple
        return LoopPlan(
            settings={"b": memory.plan.b, "cache_share": cache_share},
            memory={**memory.memory, **components},
            loop=memory.loop(disk_tuples, cached_tuples=disk_tuples * cached / (1 - cached)),
            loops_per_cycle=max(1.0, loads.oldest_tuples * loads.per_tuple),
            window_tuples=memory.window.capacity,
        )

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return what passes until the next loop begins, and until a tuple's key or partition was found."""
        cached = plan.loop.cache_share
        keys = missed_keys(case.stream.keys, cached)
        rates = PartRates.of(keys, partitions_of(case.table, int(plan.settings["b"])))
        return times_between_loads(rates, loop_s, arrivals_per_s, cached)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios, with several shares of the cache."""
        fits = partial(PartitionMemory.of, _NAME, case, memory_bytes)
        return b_and_cache_share_to_try(case.table.pages, fits)
