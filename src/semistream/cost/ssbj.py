"""The cost of SSBJ.

M. A. Naeem, G. Weber, C. Lutteroth: "A Memory-Optimal Many-to-Many Semi-Stream Join", Distributed and Parallel
Databases (S0), section 3.2, Eq. 1-5.

Eq. 1  M = (b + hR f) vR + wS (Rt / b) (vP + f vS)               `plan`: what the cache leaves is the window
Eq. 2  c_loop = c_IO(b) + b (c_H + c_B) + wN (c_S + c_H + c_O) + wS (c_E + c_S + c_A + c_O)
                                                                 counts here (`Loop`), factors in a `Clock`
Eq. 3  mu = (wN + wS) / c_loop                                   `Prediction.tuples_per_s`
Eq. 4  lambda <= (wN + wS) / c_loop: a rate is met by all that are larger
Eq. 5  lambda = (wN + wS) / c_loop: the least                    `least_tuples`

Eq. 1 has two unknowns, hR and wS. The paper measures hR. Here it follows from the cache inequality, m vR < n vS, where
n, the tuples of a key during a scan, grows with the rate, and the rate with what is cached: a fixed point.

Symbols
-------
============  ==============================  ==========================================
paper         here                            unit
============  ==============================  ==========================================
``M``         ``memory_bytes``                bytes
``b``         ``settings["b"]``               pages per iteration (the paper: rows)
``wN, wS``    ``loop.cached_tuples``,         stream tuples per iteration
              ``loop.disk_tuples``
``hS``        ``window_tuples``               tuples that wait at most
``hR vR f``   ``memory["H_R"]``               bytes
``vS``        ``tuple_bytes``                 bytes of a tuple in H_S, structures included
``vR``        ``row_bytes`` of `CacheSizes`   bytes of a row in H_R
``vP``        in ``tuple_bytes``              bytes of a pointer in the queue
``Rt``        ``table.rows``                  rows
``sf``        ``settings["switching_factor"]``  --
``mu``        ``tuples_per_s``                tuples per second
``lambda``    ``arrivals_per_s``              tuples per second
``c_loop``    ``loop_s``                      seconds
============  ==============================  ==========================================

Deviations
----------
D1  MESHJOIN's model's D1-D4 and D6 hold here too: measured sizes, the disk buffer held three times, the stream buffer
    and the fixed parts within M.
D2  The cached keys are not all those for which the inequality holds, and some for which it does not: tuples come by
    chance, and only so many keys can be counted at once (`semistream.cost.inequality_share`).
D3  H_R has a reserve for keys that come next, as `semistream.operators.balance` keeps it.
D4  The cache is that of the long run, which is reached after some dozens of scans.
D5  Eq. 6 equates bytes with tuples and is left out.
D6  c_B, of moving a row into the cache, has no count of its own: few rows move in the long run.
"""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument
from semistream.cost.cache_memory import CacheMemory
from semistream.cost.inequality_share import SCAN, CachedKeys, InequalityCache
from semistream.cost.model import JoinCase, LoopPlan, Settings, Times, register_model
from semistream.cost.scan_memory import ScanMemory
from semistream.cost.scanning import b_to_try, known_settings, scan_loop, scan_times, whole
from semistream.operators.balance import Balance
from semistream.operators.matching import EqualityMatching
from semistream.operators.stream_window import WindowShape

__all__ = ["SsbjModel", "least_tuples"]

_NAME = "ssbj"
_ROUNDS = 60
_TOLERANCE = 1e-4
_SCANS_OF_A_ROUND = 3


@dataclass(frozen=True)
class _Balanced:
    """A split of the common memory of window and cache that stays as it is."""

    window: WindowShape
    cached: CachedKeys
    cache_bytes: int


@register_model(_NAME)
class SsbjModel:
    """S0's cost model, with settings ``b`` and ``switching_factor``."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Solve Eq. 1 and the cache inequality together."""
        known_settings(_NAME, settings, ("b", "switching_factor"))
        factor = settings.get("switching_factor", 1.0)
        if not 0 < factor < float("inf"):
            raise InvalidArgument(f"switching_factor={factor} must be above 0; 1 is the paper's best")
        memory = self._memory(case, memory_bytes, whole(settings, "b"))
        pool_bytes = memory.plan.window_bytes + memory.plan.cache_bytes
        cache = CacheMemory.of(case, "inequality", pool_bytes)
        balanced = _balance(case, memory, cache, pool_bytes, factor)
        share = balanced.cached.share
        disk_tuples = min(balanced.window.capacity / memory.iterations, memory.buffer_tuples * (1 - share))
        cached_tuples = disk_tuples * share / (1 - share)
        shape = cache.sizes.shape_in(balanced.cache_bytes, max(1.0, cache.rows_per_key))
        return LoopPlan(
            settings={"b": memory.plan.b, "switching_factor": factor},
            memory={**memory.components(balanced.window), **cache.components(shape)},
            loop=scan_loop(memory, disk_tuples=disk_tuples, cached_tuples=cached_tuples),
            loops_per_cycle=memory.iterations,
            window_tuples=balanced.window.capacity,
        )

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return half a loop, and a scan for those that miss the cache."""
        return scan_times(plan, loop_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios."""
        return [{"b": b} for b in b_to_try(case.table.pages, lambda b: self._memory(case, memory_bytes, b))]

    @staticmethod
    def _memory(case: JoinCase, memory_bytes: int, b: int | None) -> ScanMemory:
        return ScanMemory.of(
            _NAME, case, EqualityMatching(case.spec), memory_bytes, b, cache_share=Balance.first_cache_share()
        )


def _balance(case: JoinCase, memory: ScanMemory, cache: CacheMemory, pool_bytes: int, factor: float) -> _Balanced:
    """Follow what is cached, and what that leaves for the window, to where neither changes."""
    window = memory.window()
    tuple_bytes = sum(window.nbytes(memory.codes, case.spec.stream_schema, False)) / window.capacity
    inequality = InequalityCache(
        stream=case.stream.keys,
        tuple_bytes=tuple_bytes,
        rows_bytes=case.table.rows_per_key * cache.sizes.row_bytes,
        key_bytes=cache.sizes.cached_key_bytes,
        missing_share=case.stream.missing_share,
        switching_factor=factor,
        most_counted=cache.sizes.most_collected(0),
        looks=SCAN,
    )
    cached = inequality.nothing()
    for _ in range(_ROUNDS):
        cache_bytes = Balance.wanted_bytes(
            pool_bytes,
            used=cache.sizes.fixed_bytes + int(cached.nbytes),
            moved=int(_SCANS_OF_A_ROUND * cached.taken_bytes),
            least=cache.sizes.bytes_for(Balance.LEAST_ROWS),
        )
        window = memory.window(pool_bytes - cache_bytes)
        following = inequality.next(cached, window.capacity / (1 - cached.share))
        change = abs(following.share - cached.share)
        cached = cached.towards(following)
        if change < _TOLERANCE:
            break
    return _Balanced(window, cached, cache_bytes)


def least_tuples(arrivals_per_s: float, loop_s: float) -> float:
    """Return the least wN + wS that meets an arrival rate: Eq. 5."""
    return arrivals_per_s * loop_s
