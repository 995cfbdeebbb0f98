"""The cost of CINLJ: INLJ for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.3, which has no cost model. This one has the form of S3's Eq. 2 and 3::

    c_loop = wS (pages read for a miss c_IO + c_S + c_H + c_O) + wN (c_S + c_H + c_O)
    mu     = (wN + wS) / c_loop, where wN = wS h / (1 - h)

h is the share of tuples that the cache answers (`semistream.cost.models.cache`). The others ask for pages in a buffer
pool (`pool_misses`).

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
D2  The cache does not hold exactly the most frequent keys: its policy learns from tuples that come by chance. Only the
    default policy (aging) is modelled. A turn is as many misses as the temporary buffer has room for.
D3  h is that of the long run, which is far away: each miss brings at most one key into the cache.
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
from semistream.cost.models.lookups import lookup_memory, lookup_plan, lookup_times
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.recent_keys import RecentKeys
from semistream.operators.cinlj import DEFAULT_W, cinlj_split, recent_keys_for
from semistream.operators.window.delivery import Delivery

__all__ = ["CinljModel"]

_NAME = "cinlj"


@register_model(_NAME)
class CinljModel:
    """The cost model of CINLJ, with settings ``w`` and ``cache_share``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Split the memory, and work out which tuples have pages read."""
        given = checked_settings(_NAME, settings, ("w", "cache_share"))
        case.require_clustered(_NAME)
        cache_share = given.get("cache_share", CachedConfig.cache_share)
        CachedConfig(cache_share=cache_share)
        memory = lookup_memory(case, memory_bytes)
        recent_keys = recent_keys_for(memory_bytes)
        other = {
            "temporary buffer": RecentKeys.bytes_for(recent_keys),
            "results": Delivery(case.spec, memory_bytes, ordered=False).reserved_bytes,
        }
        split = cinlj_split(memory, f"{_NAME} on {case.table.pages} pages", cache_share, sum(other.values()))
        cache = CacheMemory.of(case, "aging")
        cached = min(MOST_CACHED, aging_share(case.stream.keys, cache.keys_in(split.cache_bytes), recent_keys))
        other |= cache.components(cache.sizes.shape_in(split.cache_bytes))
        most_w = given.get("w") or DEFAULT_W
        return lookup_plan(case, memory, split, {"cache_share": cache_share}, most_w, cached, other)

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return the times of tuples that are looked up once they have arrived."""
        return lookup_times(plan, loop_s, arrivals_per_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return several shares of the cache, with the operator's own w: any w is as good."""
        return fitting_settings(
            lambda cache_share: self.plan(case, memory_bytes, {"cache_share": cache_share}),
            cache_shares=(*CACHE_SHARES, 0.7, 0.9),
        )
