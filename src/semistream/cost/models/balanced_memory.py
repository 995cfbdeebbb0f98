"""Where SSBJ's memory comes to rest between the window of stream tuples and the cache.

What is cached depends on how many tuples come in a turn, they on the window, and the window on what the cache
leaves: this is followed until nothing changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models.cache_memory import CacheMemory
from semistream.cost.models.inequality_share import CachedKeys, InequalityCache, InequalityLooks
from semistream.cost.models.scans import window_shape
from semistream.operators.cache.balance import Balance
from semistream.operators.phases.scan_plan import ScanPlan
from semistream.state.tuple_window import WindowCodes, WindowShape

__all__ = ["BalancedMemory"]

_ROUNDS = 60
_TOLERANCE = 2e-4


@dataclass(frozen=True)
class BalancedMemory:
    """A split of the common memory of window and cache that stays as it is.

    Attributes
    ----------
    window
        H_S and Q.
    cached
        What is in H_R.
    missed
        The keys of the tuples that are not answered by it.
    components
        Bytes of the cache by component, named as `Operator.memory` names them.
    """

    window: WindowShape
    cached: CachedKeys
    missed: KeyDistribution
    components: dict[str, int]

    @staticmethod
    def of(
        case: JoinCase,
        codes: WindowCodes,
        plan: ScanPlan,
        switching_factor: float,
        *,
        looks: Callable[[KeyDistribution, WindowShape, float], InequalityLooks],
        turns_between_aims: int,
        most_turn_tuples: float = float("inf"),
    ) -> "BalancedMemory":
        """Return where the memory of a ``plan`` comes to rest.

        Parameters
        ----------
        looks
            Returns when keys are looked at, given those of the tuples that miss the cache, the window, and the share of
            tuples that the cache answers.
        turns_between_aims
            How often the memory is shared out anew.
        most_turn_tuples
            How many tuples the stream buffer can bring in a turn.
        """
        pool_bytes = plan.window_bytes + plan.cache_bytes
        cache = CacheMemory.of(case, "inequality", pool_bytes)
        window = window_shape(case, codes, plan.window_bytes)
        inequality = InequalityCache(
            stream=case.stream.keys,
            tuple_bytes=sum(window.nbytes(codes, case.spec.stream_schema, False)) / window.capacity,
            rows_bytes=case.table.rows_per_key * cache.sizes.row_bytes,
            key_bytes=cache.sizes.cached_key_bytes,
            missing_share=case.stream.missing_share,
            switching_factor=switching_factor,
            most_counted=cache.sizes.most_collected(0),
            looks=looks(case.stream.keys, window, 0.0),
        )
        cached = inequality.nothing()
        cache_bytes = plan.cache_bytes
        for _ in range(_ROUNDS):
            cache_bytes = Balance.wanted_bytes(
                pool_bytes,
                used=cache.sizes.fixed_bytes + int(cached.nbytes),
                moved=int(turns_between_aims * cached.taken_bytes),
                least=cache.sizes.bytes_for(Balance.LEAST_ROWS),
            )
            window = window_shape(case, codes, pool_bytes - cache_bytes)
            inequality = replace(inequality, looks=looks(inequality.missed(cached), window, cached.share))
            turn_tuples = min(window.capacity / (1 - cached.share), most_turn_tuples)
            following = inequality.next(cached, turn_tuples)
            change = abs(following.share - cached.share)
            cached = cached.towards(following)
            if change < _TOLERANCE:
                break
        shape = cache.sizes.shape_in(cache_bytes, max(1.0, cache.rows_per_key))
        return BalancedMemory(window, cached, inequality.missed(cached), cache.components(shape))
