"""The cost of CINLJ: INLJ for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.3, which has no cost model. This one has the form of S3's Eq. 2 and 3::

    c_loop = wS (pages read for a miss c_IO + c_S + c_H + c_O) + wN (c_S + c_H + c_O)
    mu     = (wN + wS) / c_loop, where wN = wS h / (1 - h)

h is the share of tuples that the cache answers (`semistream.cost.models.cache`). The others ask for pages in a buffer
pool (`pool_misses`).

Deviations
----------
D1  Those of INLJ's model hold here too.
D2  The cache does not hold exactly the most frequent keys: its policy learns from tuples that come by chance. Only the
    default policy (aging) is modelled. A turn is as many misses as the temporary buffer has room for.
D3  h is that of the long run, which is far away: each miss brings at most one key into the cache.
"""

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.model import CACHE_SHARES, LoopPlan, fitting_settings
from semistream.cost.models.cache import Cached, aging_cache
from semistream.cost.models.lookups import lookup_memory, lookup_plan
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.recent_keys import RecentKeys
from semistream.operators.cinlj import DEFAULT_W, cinlj_split, recent_keys_for
from semistream.operators.window.delivery import Delivery

__all__ = ["plan", "settings_to_try"]


def plan(
    case: JoinCase, memory_bytes: int, w: int = DEFAULT_W, cache_share: float = CachedConfig.cache_share
) -> LoopPlan:
    memory = lookup_memory("cinlj", case, memory_bytes)
    CachedConfig(cache_share=cache_share)
    recent_keys = recent_keys_for(memory_bytes)
    other = {
        "temporary buffer": RecentKeys.bytes_for(recent_keys),
        "results": Delivery(case.spec, memory_bytes, ordered=False).reserved_bytes,
    }
    split = cinlj_split(memory, f"cinlj on {case.table.pages} pages", cache_share, sum(other.values()))
    cached = aging_cache(case, split.cache_bytes, recent_keys)
    cached = Cached(cached.share, {**other, **cached.memory})
    return lookup_plan(case, memory, split, {"cache_share": cache_share}, w, cached)


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    """Return several shares of the cache, with the operator's own w: any w is as good."""
    fits = partial(plan, case, memory_bytes)
    return fitting_settings(fits, cache_shares=(*CACHE_SHARES, 0.7, 0.9))
