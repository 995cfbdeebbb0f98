"""The cost of CMESHJOIN: MESHJOIN's loop for the tuples that miss a front stage.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.1, which gives no cost model. This one has the form of S3's Eq. 1-3, with the two kinds of tuples of
S0's Eq. 1-3.

Memory    M = disk buffer + stream buffer + hS (vS f + sizeof(ptr)) + hR (vR f + policy + collecting) + fixed parts
Loop      c_loop = c_IO(b) + b (vP / vR) c_H + wN (c_S + c_H + c_O) + wS (c_S + c_H + c_A + c_E + c_O)
Rate      mu = (wN + wS) / c_loop, where wS = hS b / N_R and wN = wS h / (1 - h)

h is the share of tuples that the cache answers, and hR its keys, `CacheMemory.keys_in`: `semistream.cost.models.cache`.

Deviations
----------
D1  Those of MESHJOIN's model (its D1-D4, D6) hold here too.
D2  The cache does not hold exactly the most frequent keys: its policy learns from tuples that come by chance. Only the
    default policy (aging) is modelled; the others are close to it where the share is large.
D3  A key with many rows takes as many places, a key without any takes one.
D4  h is that of the long run, after about ten scans. A stream that changes has fewer hits.
D5  The stream buffer can be too small for all the hits of an iteration: then an iteration answers the tuples in it.
"""

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.model import CACHE_SHARES, LoopPlan, fitting_settings
from semistream.cost.models.cache import aging_cache
from semistream.cost.models.scans import ScanMemory
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.window.matching import EqualityMatching

__all__ = ["plan", "settings_to_try"]


def _memory(case: JoinCase, memory_bytes: int, b: int | None, cache_share: float) -> ScanMemory:
    CachedConfig(cache_share=cache_share)
    return ScanMemory.of("cmeshjoin", case, EqualityMatching(case.spec), memory_bytes, b, cache_share)


def plan(
    case: JoinCase, memory_bytes: int, b: int | None = None, cache_share: float = CachedConfig.cache_share
) -> LoopPlan:
    memory = _memory(case, memory_bytes, b, cache_share)
    cached = aging_cache(case, memory.plan.cache_bytes, memory.window.capacity, most_share=1.0)
    return memory.loop_plan({"cache_share": cache_share}, memory.window, cached)


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    memory = partial(_memory, case, memory_bytes)
    return fitting_settings(memory, pages=case.table.pages, cache_shares=CACHE_SHARES)
