"""The cost of SSBJ.

M. A. Naeem, G. Weber, C. Lutteroth: "A Memory-Optimal Many-to-Many Semi-Stream Join", Distributed and Parallel
Databases (S0), section 3.2, Eq. 1-5.

Eq. 1  M = (b + hR f) vR + wS (Rt / b) (vP + f vS)               `plan`: the cache leaves the rest to the window
Eq. 2  c_loop = c_IO(b) + b (c_H + c_B) + wN (c_S + c_H + c_O) + wS (c_E + c_S + c_A + c_O)
Eq. 3  mu = (wN + wS) / c_loop
Eq. 4  lambda <= (wN + wS) / c_loop: all that are larger meet a rate
Eq. 5  lambda = (wN + wS) / c_loop: the least

Eq. 1 has two unknowns, hR and wS, and the paper gives no equation for hR. Here it follows from the cache inequality,
m vR < n vS: n, the tuples of a key during a scan, grows with the rate, and the rate with the cache: a fixed point.

Symbols
-------
============  ==============================  ==========================================
paper         here                            unit
============  ==============================  ==========================================
``b``         ``settings["b"]``               pages per iteration (the paper: rows)
``hR vR f``   ``memory["H_R"]``               bytes
``vS``        ``tuple_bytes``                 bytes of a tuple in H_S, structures included
``vR``        ``row_bytes`` of `CacheSizes`   bytes of a row in H_R
``vP``        in ``tuple_bytes``              bytes of a pointer in the queue
``Rt``        ``table.rows``                  rows
``sf``        ``settings["switching_factor"]``  --
============  ==============================  ==========================================

Deviations
----------
D1  MESHJOIN's model's D1-D4 and D6 hold here too: measured sizes, the disk buffer held three times, the stream buffer
    and the fixed parts within M.
D2  Tuples come by chance: some cached keys do not satisfy the inequality on average, and some that do are not cached
    (`cheaper_cached`).
D3  H_R has a reserve for keys that come next, as `semistream.operators.cache.balance` keeps it.
D4  The cache is that of the long run, which is reached after some dozens of scans.
D5  Eq. 6 equates bytes with tuples and is left out.
D6  c_B, of moving a row into the cache, has no count of its own: few rows move in the long run.
D7  On a clustered table the disk phase is HYBRIDJOIN's (D8 of the operator): b pages are read for the oldest tuple and
    for all that wait for them, and wS follows from `PartitionLoads` for the tuples that miss the cache. The model
    takes the join to compare the table's key; where it does not, the operator scans.
D8  The stream buffer can be too small for all the tuples of an iteration: then an iteration answers the tuples in it.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.cost.clock import by_partition
from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import LoopPlan, fitting_settings
from semistream.cost.models.cache import MOST_CACHED, Cached, CacheMemory, cheaper_cached
from semistream.cost.models.partitions import PartitionLoads, PartitionMemory
from semistream.cost.models.scans import ScanMemory, buffer_tuples, window_shape
from semistream.operators.cache.balance import Balance
from semistream.operators.phases.memory_plan import MemoryPlan
from semistream.operators.window.matching import EqualityMatching
from semistream.state.tuple_window import WindowShape

__all__ = ["plan", "settings_to_try"]

_NAME = "ssbj"
_ROUNDS = 60
_TOLERANCE = 2e-4


def _memory(case: JoinCase, memory_bytes: int, b: int | None) -> ScanMemory | PartitionMemory:
    cache_share = Balance.FIRST_CACHE_SHARE
    if case.table.layout == "clustered":
        return PartitionMemory.of(_NAME, case, memory_bytes, b, cache_share=cache_share)
    return ScanMemory.of(_NAME, case, EqualityMatching(case.spec), memory_bytes, b, cache_share)


def plan(case: JoinCase, memory_bytes: int, b: int | None = None, switching_factor: float = 1.0) -> LoopPlan:
    """Solve Eq. 1 and the cache inequality together."""
    if not 0 < switching_factor < float("inf"):
        raise InvalidArgument(f"switching_factor={switching_factor} must be above 0; 1 is the paper's best")
    settings = {"switching_factor": switching_factor}
    memory = _memory(case, memory_bytes, b)
    most_tuples = buffer_tuples(case, memory.plan)
    if isinstance(memory, ScanMemory):
        settled = _settled(case, memory.plan, switching_factor, most_tuples * memory.iterations)
        return memory.loop_plan(settings, settled.window, settled.cached)
    settled = _settled(case, memory.plan, switching_factor)
    loads = memory.loads(settled.missed, settled.window)
    most_misses = max(1.0, most_tuples * (1 - settled.cached.share))
    if loads.per_tuple * most_misses < 1:  # D8
        loads = PartitionLoads.of_speed(loads.rates, 1 / most_misses)
    return memory.loop_plan(settings, settled.window, loads, settled.cached, by_partition(_NAME))


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    return fitting_settings(partial(_memory, case, memory_bytes), pages=case.table.pages)


class _Settled(NamedTuple):
    """The common memory of window and cache once its split no longer changes, and the keys that miss the cache."""

    window: WindowShape
    cached: Cached
    missed: KeyDistribution


def _settled(
    case: JoinCase, plan: MemoryPlan, switching_factor: float, most_turn_tuples: float = float("inf")
) -> _Settled:
    """Return the split that a ``plan`` comes to.

    The cached keys depend on the tuples of a turn, these on the window and on what the stream buffer can bring in a
    turn, and the window on the memory that the cache leaves.
    """
    keys, schema, codes = case.stream.keys, case.spec.stream_schema, EqualityMatching(case.spec)
    pool_bytes = plan.window_bytes + plan.cache_bytes
    cache = CacheMemory.of(case, "inequality", pool_bytes)
    window = window_shape(case, codes, plan.window_bytes)
    tuple_bytes = sum(window.nbytes(codes, schema, False)) / window.capacity
    key_bytes = cache.sizes.cached_key_bytes
    # The share of keys with rows and of those without, and the bytes of one in the cache.
    kinds = (
        (1 - case.stream.missing_share, key_bytes + case.table.rows_per_key * cache.sizes.row_bytes),
        (case.stream.missing_share, float(key_bytes)),
    )
    share = used_bytes = 0.0
    parts, cache_bytes = np.zeros(keys.keys.size), plan.cache_bytes
    for _ in range(_ROUNDS):
        least_bytes = cache.sizes.bytes_for(Balance.LEAST_ROWS)
        used = cache.sizes.fixed_bytes + int(used_bytes)
        cache_bytes = Balance.wanted_bytes(pool_bytes, used=used, moved=0, least=least_bytes)
        window = window_shape(case, codes, pool_bytes - cache_bytes)
        per_turn = keys.probability * min(window.capacity / (1 - share), most_turn_tuples)
        by_kind = [of_keys * cheaper_cached(per_turn, switching_factor * size / tuple_bytes) for of_keys, size in kinds]
        parts = np.sum(by_kind, axis=0)
        found = min(MOST_CACHED, float(np.dot(keys.keys * keys.probability, parts)))
        found_bytes = sum(float(keys.keys @ part) * size for part, (_, size) in zip(by_kind, kinds, strict=True))
        change = abs(found - share)
        share, used_bytes = (share + found) / 2, (used_bytes + found_bytes) / 2
        if change < _TOLERANCE:
            break
    left = keys.probability * np.maximum(1 - parts, 1 - MOST_CACHED)
    missed = KeyDistribution(keys.keys, left / float(keys.keys @ left), keys.in_order)
    shape = cache.sizes.shape_in(cache_bytes, max(1.0, cache.rows_per_key))
    return _Settled(window, Cached(share, cache.components(shape)), missed)
