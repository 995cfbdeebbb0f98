"""The cost of CINLJ: that of INLJ for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.3 (ll. 184-186), which has no cost model. This one is put together in the form of S3 Eq. 2 and 3::

    c_loop = wS (pages read for a miss c_IO + c_S + c_H + c_O) + wN (c_S + c_H + c_O)
    mu     = (wN + wS) / c_loop, where wN = wS h / (1 - h)

h is the share of tuples that the cache answers. The others ask for pages in a buffer
pool (`semistream.cost.models.part_rates`).

Symbols
-------
================  ==============================  ==========================================
paper             here                            unit
================  ==============================  ==========================================
``M``             ``memory_bytes``                bytes
temporary buffer  ``memory["temporary buffer"]``  bytes
``w``             ``settings["w"]``               stream tuples per step
``wN, wS``        ``loop.cached_tuples``,         stream tuples per step
                  ``loop.disk_tuples``
``h``             ``loop.cache_share``            share of tuples
================  ==============================  ==========================================

Deviations
----------
D1  Those of INLJ's model hold here too.
D2  The cache is not taken to hold the most frequent keys: which it holds follows from its policy and from chance.
    Only the default policy (aging) is modelled. A turn is as many misses as the temporary buffer has room for. With the
    default share the cache has room for more keys than that: it then works like one that keeps what was used last
    (`semistream.cost.models.recent_share`). A smaller cache goes by frequencies (`semistream.cost.models.aging_share`).
D3  h is that of the long run, which is far away: the cache fills with every miss by one key at most.
"""

from semistream.core.errors import BudgetTooSmall
from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import KeyDistribution, missed_keys
from semistream.cost.model import LoopPlan, Settings, Times, known_settings, register_model, whole
from semistream.cost.models.aging_share import Looks, aging_share
from semistream.cost.models.cache_memory import CacheMemory
from semistream.cost.models.lookups import PageLookups, lookup_memory, lookup_times
from semistream.cost.models.partitions import require_clustered
from semistream.cost.models.recent_share import recent_share
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.recent_keys import RecentKeys
from semistream.operators.cinlj import DEFAULT_W, cinlj_split, recent_keys_for
from semistream.operators.window.delivery import Delivery

__all__ = ["CinljModel"]

_NAME = "cinlj"
_LOOKS = Looks(turns_between=1.0, turns_collecting=0.0, first_aging=0.5)
_MOST_CACHED = 0.9999
_CACHE_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)


def _cached_share(keys: KeyDistribution, capacity_keys: int, recent_keys: int) -> float:
    # Each is the higher where it holds: one leaves a large cache empty, the other learns nothing of frequencies.
    by_count = aging_share(keys, capacity_keys, recent_keys, _LOOKS)
    by_recency = recent_share(keys, capacity_keys, recent_keys)
    return min(max(by_count, by_recency), _MOST_CACHED)


@register_model(_NAME)
class CinljModel:
    """The cost model of CINLJ, with settings ``w`` and ``cache_share``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Split the memory, and work out which tuples have pages read."""
        known_settings(_NAME, settings, ("w", "cache_share"))
        require_clustered(_NAME, case)
        cache_share = settings.get("cache_share", CachedConfig.cache_share)
        CachedConfig(cache_share=cache_share)
        memory = lookup_memory(case, memory_bytes)
        results_bytes = Delivery(case.spec, memory_bytes, ordered=False).reserved_bytes
        recent_keys = recent_keys_for(memory_bytes)
        recent_bytes = RecentKeys.bytes_for(recent_keys)
        what = f"{_NAME} on {case.table.pages} pages"
        split = cinlj_split(memory, what, cache_share, results_bytes + recent_bytes)
        search_bytes = memory.search_bytes(split.pages_bytes)
        pool_bytes = split.pages_bytes - search_bytes
        cache = CacheMemory.of(case, "aging")
        cached = _cached_share(case.stream.keys, cache.keys_in(split.cache_bytes), recent_keys)
        lookups = PageLookups.of(case.table, missed_keys(case.stream.keys, cached), pool_bytes)
        most_misses = max(1, int(memory.max_accesses / lookups.pages_asked))
        w = min(whole(settings, "w") or DEFAULT_W, most_misses / (1 - cached))
        return LoopPlan(
            settings={"w": int(w), "cache_share": cache_share},
            memory={
                "stream buffer": split.stream_buffer_bytes,
                "temporary buffer": recent_bytes,
                "index": memory.index_and_sizes_bytes,
                "buffer pool": pool_bytes,
                "disk buffer": search_bytes,
                "looking up": memory.building_bytes,
                **cache.components(cache.shape(split.cache_bytes)),
                "results": results_bytes,
            },
            loop=lookups.loop(case, search_bytes, w * (1 - cached), cached_tuples=w * cached),
            loops_per_cycle=1.0,
            window_tuples=w,
        )

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return the times of tuples that are looked up when they have arrived."""
        misses = max(plan.loop.seeks, 1e-9)
        return lookup_times(misses / plan.loop.tuples, loop_s / misses, plan.window_tuples, arrivals_per_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return several shares of the cache, with the operator's own w: it makes no difference."""
        found: list[dict[str, float]] = []
        for cache_share in _CACHE_SHARES:
            try:
                self.plan(case, memory_bytes, {"cache_share": cache_share})
            except BudgetTooSmall:
                if not found:
                    raise
                break
            found.append({"cache_share": cache_share})
        return found
