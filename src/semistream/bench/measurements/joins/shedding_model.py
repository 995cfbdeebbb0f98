"""The service rate of HYBRIDJOIN and CHYBRIDJOIN while more tuples arrive than they can answer.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 4 and section 5.3, which argues and measures. Here the models of both joins are put to it.

"keep" and "random" shed before the queue: its tuples are like the whole stream, and the loop stays the same.
"considering" lets every tuple enter, and sheds the oldest. The tuple at the look-up position picks the partition to
read. Its queue is followed, read by read, with tuples that are drawn.

Deviations
----------
D1  Shed tuples are joined later, and take no part.
D2  While tuples are shed, the stream buffer holds those beyond the queue: the operator gives it an eighth of its memory
    for the stream, and the store for shed tuples has memory too.
D3  The operator refuses arrivals that the stream buffer has no room for; the model knows no such limit.
D4  S2's Theorem 1 compares tuples, not the order of reads. Without shedding the oldest tuple picks, and partitions
    have about twice as many tuples when they are read as on average; while "considering" sheds they have the average.
    So it loses against "keep" where partitions are about equally frequent, and wins with skew or behind a cache.
"""

from typing import NamedTuple

import numpy as np

from semistream.core.errors import InvalidArgument
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.model import LoopPlan
from semistream.cost.models.chybridjoin import cached_partition_plan
from semistream.cost.models.part_rates import PartRates
from semistream.cost.models.partitions import PartitionMemory
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.shedding.load_relief import shed_message_bytes
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES, LoadShedding, SheddingConfig

__all__ = ["MODELLED", "SheddingPrediction", "considered_share", "predict_shedding"]

MODELLED = ("hybridjoin", "chybridjoin")
"""The algorithms whose rate is predicted while they shed."""

_QUEUES = 20.0  # a queue is followed until so many times its tuples have entered
_LOADS = (1000, 20_000)  # and for so many reads at least and at most
_SEED = 7


class SheddingPrediction(NamedTuple):
    """A join that sheds."""

    plan: LoopPlan  # its memory, and its loop as long as it keeps up
    tuples_per_s: float  # answered: all that arrive, when it keeps up
    shed_per_s: float


def predict_shedding(
    name: str,
    case: JoinCase,
    memory_bytes: int,
    clock: Clock,
    *,
    arrivals_per_s: float,
    shedding: SheddingConfig | None = None,
) -> SheddingPrediction:
    """Return the service rate of ``"hybridjoin"`` or ``"chybridjoin"`` when so many tuples arrive.

    Strategy and look-up position are the operators' defaults unless ``shedding`` gives them.
    """
    if name not in MODELLED:
        raise InvalidArgument(f"there is no model of {name!r} that sheds: ask for 'hybridjoin' or 'chybridjoin'")
    if not 0 < arrivals_per_s < float("inf"):
        raise InvalidArgument(f"arrivals_per_s={arrivals_per_s} must be above 0, and finite")
    config = shedding or SheddingConfig()
    with LoadShedding(
        config,
        case.spec.stream_schema,
        algorithm=name,
        strategies=ALL_STRATEGIES,
        message_bytes=shed_message_bytes(memory_bytes),
    ) as store:
        store_bytes = store.memory_bytes
    share = CachedConfig.cache_share if name == "chybridjoin" else 0.0
    memory = PartitionMemory.of(name, case, memory_bytes, None, cache_share=share, shedding_bytes=store_bytes)
    if name == "chybridjoin":
        plan = cached_partition_plan(memory, share)
    else:
        plan = memory.loop_plan({}, memory.window, memory.loads(case.stream.keys, memory.window))
    loop_s, cached = clock.loop_s(name, plan.loop), plan.loop.cache_share
    tuples_per_s = min(arrivals_per_s, plan.loop.tuples / loop_s)
    if config.strategy == "considering" and tuples_per_s < arrivals_per_s:
        # Tuples from the cache never enter the queue. The other strategies shed before the cache is asked.
        rates = PartRates.of(case.stream.keys.missed(cached), memory.partitions)
        per_load = arrivals_per_s * (1 - cached) * loop_s
        answered = considered_share(rates, plan.window_tuples, per_load, config.lookup_position)
        tuples_per_s = arrivals_per_s * (cached + (1 - cached) * answered)
    return SheddingPrediction(plan, tuples_per_s, arrivals_per_s - tuples_per_s)


def considered_share(rates: PartRates, window_tuples: float, per_load: float, lookup_position: float) -> float:
    """Return the share of tuples that a queue answers when its oldest are shed.

    ``per_load`` tuples enter for each read of a partition; ``rates`` is how often a tuple asks for each. The tuple at
    ``lookup_position``, a share of the queue counted from its newest end, picks the partition.
    """
    rng = np.random.default_rng(_SEED)
    chances = np.cumsum(np.repeat(rates.rate, np.round(rates.parts).astype(np.int64)))
    loads = int(np.clip(_QUEUES * window_tuples / per_load, *_LOADS))
    entering = np.diff(np.floor(np.arange(loads + 1) * per_load).astype(np.int64))
    queue, most = np.empty(0, dtype=np.int64), max(1, int(window_tuples))
    answered = 0
    for load, count in enumerate(entering.tolist()):
        drawn = np.searchsorted(chances, rng.random(min(count, most)) * chances[-1], side="right")
        queue = np.concatenate([queue, drawn])[-most:]
        if queue.size:
            picked = queue[queue.size - 1 - int(lookup_position * (queue.size - 1))]
            left = queue[queue != picked]
            answered += queue.size - left.size if load >= loads // 4 else 0
            queue = left
    return min(1.0, answered / max(1, int(entering[loads // 4 :].sum())))
