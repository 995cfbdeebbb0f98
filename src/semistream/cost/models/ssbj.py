"""The cost of SSBJ.

M. A. Naeem, G. Weber, C. Lutteroth: "A Memory-Optimal Many-to-Many Semi-Stream Join", Distributed and Parallel
Databases (S0), section 3.2, Eq. 1-5.

Eq. 1  M = (b + hR f) vR + wS (Rt / b) (vP + f vS)               `plan`: what the cache leaves is the window
Eq. 2  c_loop = c_IO(b) + b (c_H + c_B) + wN (c_S + c_H + c_O) + wS (c_E + c_S + c_A + c_O)
                                                                 counts here (`Loop`), factors in a `Clock`
Eq. 3  mu = (wN + wS) / c_loop                                   `Prediction.tuples_per_s`
Eq. 4  lambda <= (wN + wS) / c_loop: a rate is met by all that are larger
Eq. 5  lambda = (wN + wS) / c_loop: the least                    `least_tuples`

Eq. 1 has two unknowns, hR and wS. The paper gives no equation for hR. Here it follows from the cache inequality,
m vR < n vS, where n, the tuples of a key during a scan, grows with the rate, and the rate with what is cached: a fixed
point.

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
    chance, and only so many keys can be counted at once (`semistream.cost.models.inequality_share`).
D3  H_R has a reserve for keys that come next, as `semistream.operators.cache.balance` keeps it.
D4  The cache is that of the long run, which is reached after some dozens of scans.
D5  Eq. 6 equates bytes with tuples and is left out.
D6  c_B, of moving a row into the cache, has no count of its own: few rows move in the long run.
D7  On a clustered table the disk phase is HYBRIDJOIN's (D8 of the operator): b pages are read for the oldest tuple and
    for all that wait for them, and wS is what `semistream.cost.models.partitions` says of the tuples that miss the
    cache. A key is looked at when its partition is read, and half of its tuples then wait on average. The join is
    taken to compare the table's key; where it does not, the operator scans.
D8  The stream buffer can be too small for all the tuples of an iteration: then an iteration answers what it holds.
"""

from semistream.core.errors import InvalidArgument
from semistream.cost.clock import by_partition
from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import KeyDistribution, missed_keys
from semistream.cost.model import LoopPlan, Settings, Times, b_to_try, known_settings, register_model, whole
from semistream.cost.models.balanced_memory import BalancedMemory
from semistream.cost.models.inequality_share import SCAN, InequalityLooks
from semistream.cost.models.part_rates import PartRates
from semistream.cost.models.partitions import PartitionLoads, PartitionMemory, partitions_of, times_between_loads
from semistream.cost.models.scans import ScanMemory, buffer_tuples, scan_loop, scan_times
from semistream.operators.cache.balance import Balance
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.window.matching import EqualityMatching
from semistream.state.tuple_window import WindowShape

__all__ = ["SsbjModel", "least_tuples"]

_NAME = "ssbj"
_SCANS_OF_A_ROUND = 3  # keys are counted, collected and moved


@register_model(_NAME)
class SsbjModel:
    """S0's cost model, with settings ``b`` and ``switching_factor``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from semistream.core.semantics import JoinSpec
    >>> from semistream.cost.join_case import StreamShape
    >>> from semistream.cost.join_case import TableShape
    >>> table = TableShape(rows=1_000_000, pages=2000, num_bytes=120_000_000)
    >>> spec = JoinSpec.resolve(pa.schema({"id": "int64"}), pa.schema({"id": "int64", "name": "int64"}), "id")
    >>> case = JoinCase(table, StreamShape(keys=KeyDistribution.zipf(1_000_000, 1.0)), spec)
    >>> loop = SsbjModel().plan(case, 12_000_000, {}).loop
    >>> 0.6 < loop.cache_share < 0.8
    True
    """

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Solve Eq. 1 and the cache inequality together."""
        known_settings(_NAME, settings, ("b", "switching_factor"))
        factor = settings.get("switching_factor", 1.0)
        if not 0 < factor < float("inf"):
            raise InvalidArgument(f"switching_factor={factor} must be above 0; 1 is the paper's best")
        b = whole(settings, "b")
        plan = _plan_by_partition if _is_by_partition(case) else _plan_by_scan
        return plan(case, memory_bytes, b, factor)

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return half a loop, and for tuples that miss the cache a scan, or the time until their partition is read."""
        if not _is_by_partition(case):
            return scan_times(plan, loop_s)
        missed = missed_keys(case.stream.keys, plan.loop.cache_share)
        rates = PartRates.of(missed, partitions_of(case.table, int(plan.settings["b"])))
        return times_between_loads(rates, loop_s, arrivals_per_s, plan.loop.cache_share)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios."""
        memory = _partition_memory if _is_by_partition(case) else _scan_memory
        return [{"b": b} for b in b_to_try(case.table.pages, lambda b: memory(case, memory_bytes, b))]


def _is_by_partition(case: JoinCase) -> bool:
    return case.table.layout == "clustered"


def _scan_memory(case: JoinCase, memory_bytes: int, b: int | None) -> ScanMemory:
    codes = EqualityMatching(case.spec)
    return ScanMemory.of(_NAME, case, codes, memory_bytes, b, cache_share=Balance.first_cache_share())


def _plan_by_scan(case: JoinCase, memory_bytes: int, b: int | None, factor: float) -> LoopPlan:
    memory = _scan_memory(case, memory_bytes, b)
    balanced = BalancedMemory.of(
        case,
        memory.codes,
        memory.plan,
        factor,
        looks=lambda missed, window, share: SCAN,
        turns_between_aims=_SCANS_OF_A_ROUND,
        most_turn_tuples=memory.buffer_tuples * memory.iterations,
    )
    share = balanced.cached.share
    disk_tuples = min(balanced.window.capacity / memory.iterations, memory.buffer_tuples * (1 - share))
    return LoopPlan(
        settings={"b": memory.plan.b, "switching_factor": factor},
        memory={**memory.components(balanced.window), **balanced.components},
        loop=scan_loop(memory, disk_tuples=disk_tuples, cached_tuples=disk_tuples * share / (1 - share)),
        loops_per_cycle=memory.iterations,
        window_tuples=balanced.window.capacity,
    )


# --- on a clustered table (D7) ----------------------------------------------------------------------------------------


def _partition_memory(case: JoinCase, memory_bytes: int, b: int | None) -> PartitionMemory:
    return PartitionMemory.of(_NAME, case, memory_bytes, b, cache_share=Balance.first_cache_share())


def _plan_by_partition(case: JoinCase, memory_bytes: int, b: int | None, factor: float) -> LoopPlan:
    memory = _partition_memory(case, memory_bytes, b)
    codes = EqualityMatching(case.spec)  # a window by partition takes as much

    def loads(missed: KeyDistribution, window: WindowShape, share: float) -> PartitionLoads:
        rates = PartRates.of(missed, memory.partitions)
        full = PartitionLoads.of_window(rates, window.capacity)
        most = max(1.0, buffer_tuples(case, memory.plan) * (1 - share))
        return full if full.per_tuple * most >= 1 else PartitionLoads.of_speed(rates, 1 / most)  # D8

    def looks(missed: KeyDistribution, window: WindowShape, share: float) -> InequalityLooks:
        # From one reading of a partition to the next: its first tuple comes, and grows old.
        turns = (memory.partitions + loads(missed, window, share).oldest_tuples) / window.capacity
        return InequalityLooks(
            turns_between=turns,
            turns_gathering=turns,
            turns_collecting=0.0,
            occupancy=PartitionPhase.OCCUPANCY,
            counts_first=False,
            least_waiting=2,
        )

    balanced = BalancedMemory.of(case, codes, memory.plan, factor, looks=looks, turns_between_aims=1)
    share = balanced.cached.share
    reads = loads(balanced.missed, balanced.window, share)
    disk_tuples = 1 / reads.per_tuple
    hash_bytes, queue_bytes = balanced.window.nbytes(codes, case.spec.stream_schema, False)
    return LoopPlan(
        settings={"b": memory.plan.b, "switching_factor": factor},
        memory={**memory.memory, "H_S": hash_bytes, "queue": queue_bytes, **balanced.components},
        loop=memory.loop(disk_tuples=disk_tuples, cached_tuples=disk_tuples * share / (1 - share)),
        loops_per_cycle=max(1.0, reads.oldest_tuples * reads.per_tuple),
        window_tuples=balanced.window.capacity,
        factors=by_partition(_NAME),
    )


def least_tuples(arrivals_per_s: float, loop_s: float) -> float:
    """Return the least wN + wS that meets an arrival rate: Eq. 5."""
    return arrivals_per_s * loop_s
