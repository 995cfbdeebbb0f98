"""The service rate of HYBRIDJOIN and CHYBRIDJOIN while more tuples arrive than they can answer.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 4 (ll. 153-161, 195-224) and section 5.3 (ll. 324-336), which argues and measures. This is its argument
as a model: time is counted in tuples that enter the queue, as in `semistream.cost.models.partitions`.

"keep" and "random" shed before the queue. What enters is like the whole stream, and the loop stays the same.

"considering" lets every tuple enter, and sheds the oldest. With A arrivals in a loop there is one read for A tuples
that enter. The tuple at the look-up position, of age a, picks what is read. It is of partition p when p was not read
since it came::

    read of p ───── a ─────► some tuple of p is at the position: read after 1/h_p more on average
    h_p = κ λ_p              as often as tuples of p come, times the share κ of tuples at the position that pick
    reads of p               h_p / (1 + h_p a) for a tuple that enters; over all p they are 1 / A, which gives κ
    waits until age t        1 - t (reads of p) up to a; there κ of those that are left pick and leave; from there on
                             the share of the others falls as exp(-h_p (t - a))

The age a is that at which the position's share of the queue is younger. The age at which tuples are shed is that at
which the queue is full. Those that got so old were not answered; all others were.

Symbols
-------
================  ==========================  ===============================================
paper             here                        unit
================  ==========================  ===============================================
``P_s(n)``        ``rates``                   stream probability of a partition
load probability  reads of p                  reads for a tuple that enters
``h_S``           ``window_tuples``           tuples in the queue at most
look-up position  ``lookup_position``         share of the queue, from its newest end
``w_B``           ``plan.loop.disk_tuples``   tuples that an iteration makes room for
================  ==========================  ===============================================

Deviations
----------
D1  The paper's load probability is one number for a partition. Here it depends on when the partition was last read:
    right after that nobody waits for it.
D2  Tuples that were shed are joined later, and take no part.
D3  While tuples are shed, the stream buffer holds what comes beyond the queue: the operator gives it an eighth of its
    memory for the stream, and the store for shed tuples has memory too.
D4  Arrivals that the stream buffer has no room for are refused, not shed; the model knows no such limit.
D5  S2's Theorem 1 compares tuples, not the order of reads. Without shedding the oldest tuple picks, and partitions
    have about twice as many tuples when they are read as on average; while "considering" sheds they have the average.
    So it loses against "keep" where partitions are about equally frequent, and wins with skew or behind a cache.
D6  With the look-up position at the oldest end, the tuple that picks is about to be shed itself: it is taken to be
    there still. The operator finds it gone at times, and reads for another.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import missed_keys
from semistream.cost.model import LoopPlan
from semistream.cost.models.chybridjoin import cached_partition_memory
from semistream.cost.models.part_rates import PartRates, increasing_root
from semistream.cost.models.partitions import PartitionLoads, PartitionMemory
from semistream.operators.shedding.load_shedding import SheddingConfig

__all__ = ["MODELLED", "SheddingPrediction", "considered_share", "predict_shedding"]

MODELLED = ("hybridjoin", "chybridjoin")
"""The algorithms whose rate is predicted while they shed."""

_Floats = npt.NDArray[np.float64]


class SheddingPrediction(NamedTuple):
    """What is said of a join that sheds.

    Attributes
    ----------
    plan
        Its loop while it sheds; ``loop.tuples`` are those that it answers.
    tuples_per_s
        Answered; the same as the arrivals when there are fewer than it could answer.
    shed_per_s
        Tuples that are put away.
    """

    plan: LoopPlan
    tuples_per_s: float
    shed_per_s: float


def predict_shedding(
    name: str,
    case: JoinCase,
    memory_bytes: int,
    clock: Clock,
    *,
    arrivals_per_s: float,
    shedding: SheddingConfig | None = None,
    b: int | None = None,
) -> SheddingPrediction:
    """Return the service rate of ``"hybridjoin"`` or ``"chybridjoin"`` when so many tuples arrive.

    Parameters
    ----------
    shedding
        Strategy and look-up position; the operators' defaults unless given.
    b
        Pages of a partition; the operator's own choice unless given.
    """
    if name not in MODELLED:
        raise InvalidArgument(f"there is no model of {name!r} that sheds: ask for 'hybridjoin' or 'chybridjoin'")
    if not 0 < arrivals_per_s < float("inf"):
        raise InvalidArgument(f"arrivals_per_s={arrivals_per_s} must be above 0, and finite")
    config = shedding or SheddingConfig()
    cached, components = 0.0, dict[str, int]()
    if name == "chybridjoin":
        memory, cached, components = cached_partition_memory(case, memory_bytes, b, shedding=config)
    else:
        memory = PartitionMemory.of(name, case, memory_bytes, b, shedding=config)
    rates = PartRates.of(missed_keys(case.stream.keys, cached), memory.partitions)
    window_tuples = memory.window.capacity
    loads = PartitionLoads.of_window(rates, window_tuples)
    kept = _loop_plan(memory, components, 1 / loads.per_tuple, cached)
    kept_loop_s = clock.loop_s(name, kept.loop)
    kept_per_s = kept.loop.tuples / kept_loop_s
    if arrivals_per_s <= kept_per_s:
        return SheddingPrediction(kept, arrivals_per_s, 0.0)
    if config.strategy != "considering":
        # The cache is asked after the stream buffer: what is shed there could have been hits.
        return SheddingPrediction(kept, kept_per_s, arrivals_per_s - kept_per_s)
    entering_per_loop = arrivals_per_s * (1 - cached) * kept_loop_s
    share = considered_share(rates, window_tuples, entering_per_loop, config.lookup_position)
    answered = entering_per_loop * share
    plan = _loop_plan(memory, components, answered, cached, cached_tuples=arrivals_per_s * cached * kept_loop_s)
    tuples_per_s = arrivals_per_s * (cached + (1 - cached) * share)
    return SheddingPrediction(plan, tuples_per_s, arrivals_per_s - tuples_per_s)


def _loop_plan(
    memory: PartitionMemory,
    components: dict[str, int],
    disk_tuples: float,
    cached: float,
    cached_tuples: float | None = None,
) -> LoopPlan:
    if cached_tuples is None:
        cached_tuples = disk_tuples * cached / (1 - cached)
    return LoopPlan(
        settings={"b": memory.plan.b},
        memory={**memory.memory, **components},
        loop=memory.loop(disk_tuples, cached_tuples),
        loops_per_cycle=1.0,
        window_tuples=memory.window.capacity,
    )


@dataclass(frozen=True)
class _Queue:
    """A queue in which a tuple of age ``picks_at`` picks what is read, once for ``per_load`` tuples that enter."""

    rates: PartRates
    per_load: float
    picks_at: float

    @cached_property
    def picked_share(self) -> float:
        """κ: of the tuples that come to the position, those that pick; all when even these are not enough."""
        rate = self.rates.rate
        most = self.rates.total(rate / (1 + rate * self.picks_at))
        if most <= 1 / self.per_load:
            return 1.0

        def excess(share: float) -> float:
            hazards = share * rate
            return self.rates.total(hazards / (1 + hazards * self.picks_at)) - 1 / self.per_load

        return min(1.0, increasing_root(excess, 1.0))

    @property
    def hazards(self) -> _Floats:
        """h_p."""
        return self.picked_share * self.rates.rate

    @property
    def loads(self) -> _Floats:
        """Reads of each partition for a tuple that enters."""
        return self.hazards / (1 + self.hazards * self.picks_at)

    @property
    def passing(self) -> _Floats:
        """Tuples of each partition that come to the position and do not pick, for one that enters."""
        return self.rates.rate * (1 - self.loads * self.picks_at) * (1 - self.picked_share)

    @property
    def younger(self) -> float:
        """How many tuples are younger than the one that picks."""
        return self.rates.total(self.rates.rate * (self.picks_at - self.loads * self.picks_at**2 / 2))

    def tuples(self, oldest: float) -> float:
        """Return how many tuples are in the queue when they are shed at the age ``oldest``."""
        behind = oldest - self.picks_at
        exponents = np.maximum(self.hazards * behind, 1e-12)
        return self.younger + self.rates.total(self.passing * behind * -np.expm1(-exponents) / exponents)

    def shed_share(self, oldest: float) -> float:
        """Return which share of the tuples that enter comes to the age ``oldest``."""
        return self.rates.total(self.passing * np.exp(-self.hazards * (oldest - self.picks_at)))


def considered_share(rates: PartRates, window_tuples: float, per_load: float, lookup_position: float) -> float:
    """Return which share of the tuples that enter a queue is answered when its oldest are shed.

    Parameters
    ----------
    rates
        λ_p of each partition.
    window_tuples
        The queue is always full.
    per_load
        How many tuples enter for each read of a partition.
    lookup_position
        Which tuple picks the partition: a share of the queue, counted from its newest end.

    Examples
    --------
    Of 10 equal partitions one is read while 20 tuples come. Each read answers about a tenth of the 100 in the queue:

    >>> round(20 * considered_share(PartRates.each(np.full(10, 0.1)), 100, per_load=20, lookup_position=0.15))
    11
    """
    full = _answered_share(rates, window_tuples, per_load, lookup_position)
    # A read frees the places of its tuples, and they fill again: the queue lacks half of them on average.
    return _answered_share(rates, window_tuples - full * per_load / 2, per_load, lookup_position)


def _answered_share(rates: PartRates, window_tuples: float, per_load: float, lookup_position: float) -> float:
    if window_tuples <= 1:
        return min(1.0, 1 / per_load)
    wanted = min(max(lookup_position, 1e-6), 1.0) * window_tuples
    picks_at = increasing_root(lambda age: _Queue(rates, per_load, age).younger - wanted, window_tuples)
    queue = _Queue(rates, per_load, picks_at)
    if lookup_position >= 1 or queue.younger >= window_tuples:
        return 1 - queue.shed_share(picks_at)
    most = picks_at + 1000 * window_tuples
    if queue.tuples(most) < window_tuples:
        return 1.0  # it never fills: everything is answered in time
    oldest = increasing_root(lambda age: queue.tuples(max(age, picks_at)) - window_tuples, picks_at)
    return 1 - queue.shed_share(max(oldest, picks_at))
