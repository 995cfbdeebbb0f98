"""The cost of CHYBRIDJOIN: HYBRIDJOIN's loop for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.2 and Algorithm 1, which has no cost model. This one has the form of S1's Eq. 1-4, with the two kinds of
tuples of S0's Eq. 1-3.

Memory    M = disk buffer + stream buffer + H_S and Q + H_R, its frequency recorder and its switching buffer
Loop      c_loop = c_IO(vP) + (vP / vR) c_H + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_A + c_E + c_O)
Rate      mu = (wN + wS) / c_loop, where wS is S1's w for the keys that are not cached, and wN = wS h / (1 - h)

h is the share of tuples that the cache answers: `semistream.cost.models.cache`.

Deviations
----------
D1  Those of HYBRIDJOIN's model (its D1-D6) hold here too.
D2  The cache does not hold exactly the most frequent keys: its policy learns from tuples that come by chance. Only the
    default policy (aging) is modelled.
D3  Reads of R are those behind a cache with the most frequent keys that make up the share h.
D4  h is that of the long run. A stream that changes has fewer hits.
"""

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.model import CACHE_SHARES, LoopPlan, fitting_settings
from semistream.cost.models.cache import aging_cache
from semistream.cost.models.partitions import PartitionMemory
from semistream.operators.cache.cached_config import CachedConfig

__all__ = ["cached_partition_plan", "plan", "settings_to_try"]


def plan(
    case: JoinCase, memory_bytes: int, b: int | None = None, cache_share: float = CachedConfig.cache_share
) -> LoopPlan:
    CachedConfig(cache_share=cache_share)
    memory = PartitionMemory.of("chybridjoin", case, memory_bytes, b, cache_share=cache_share)
    return cached_partition_plan(memory, cache_share)


def cached_partition_plan(memory: PartitionMemory, cache_share: float) -> LoopPlan:
    """Return the loop with a planned memory."""
    cached = aging_cache(memory.case, memory.plan.cache_bytes, memory.window.capacity)
    loads = memory.loads(memory.case.stream.keys.missed(cached.share), memory.window)
    return memory.loop_plan({"cache_share": cache_share}, memory.window, loads, cached)


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    memory = partial(PartitionMemory.of, "chybridjoin", case, memory_bytes)
    return fitting_settings(memory, pages=case.table.pages, cache_shares=CACHE_SHARES)
