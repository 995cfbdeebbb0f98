"""Caches: how many keys they hold, and which share of a stream's tuples they answer in the long run.

One approximation serves all policies. H. Che, Y. Tung, Z. Wang ("Hierarchical Web Caching Systems: Modeling, Design and
Experimental Results", IEEE JSAC 20(7), 2002) let a cache hold what was asked for within a time t, the same for all; t
follows from the room. Here a key is cached while at least m of its last tuples came within a time t. A cache that goes
by frequencies has a t of its own, and m follows from the room; where even the smallest m leaves room, t grows, as in
a cache that goes by recency. Tuples of a key come as Poisson numbers.

For the caches of CMESHJOIN, CHYBRIDJOIN and CINLJ (policy "aging") and of SSBJ (the cache inequality), t is two turns:
a constant fitted to joins that were measured. In a turn as many tuples miss the cache as wait in the join.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semistream.cost.join_case import JoinCase
from semistream.cost.key_distribution import KeyDistribution, poisson_at_least
from semistream.cost.models.part_rates import increasing_root
from semistream.kernels.arrays import Floats
from semistream.operators.cache.cached_config import CachePolicyName, CacheSizes, cached_columns
from semistream.operators.cache.row_cache import CacheShape
from semistream.operators.window.matching import PairFilter
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes
from semistream.storage.files.row_sizes import batch_overhead_bytes

__all__ = [
    "MOST_CACHED",
    "NO_CACHE",
    "CacheMemory",
    "Cached",
    "aging_cache",
    "aging_share",
    "cheaper_cached",
    "counted_share",
]

MOST_CACHED = 0.9999
"""A share of tuples that leaves some for the disk phase, where its loop is what is asked for."""

_TURNS = 2.0
_LEAST_TUPLES = 2  # one tuple of a key is no sign that more will come
_ROUNDS = 30
_TOLERANCE = 1e-5


def counted_share(keys: KeyDistribution, capacity_keys: float, sample_tuples: float, least_tuples: int = 1) -> float:
    """Return the share of tuples that a cache answers which holds the keys counted most often in the last tuples.

    A cached key has at least ``least_tuples`` of them; where too few keys have as many, more tuples are counted.
    """
    if capacity_keys < 1:
        return 0.0
    if capacity_keys >= keys.num_keys:
        return 1.0

    def cached(tuples: float, least: int) -> Floats:
        return poisson_at_least(keys.probability * tuples, [least])[:, 0]

    def held(parts: Floats) -> float:
        return float(np.dot(keys.keys, parts))

    parts = cached(sample_tuples, least_tuples)
    if held(parts) <= capacity_keys:
        longer = increasing_root(lambda tuples: held(cached(tuples, least_tuples)) - capacity_keys, sample_tuples)
        parts = cached(longer, least_tuples)
    else:
        low, high = least_tuples, 2 * least_tuples  # counts with too many keys, and with few enough
        while held(cached(sample_tuples, high)) > capacity_keys:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if held(cached(sample_tuples, middle)) > capacity_keys else (low, middle)
        # Of the keys that were counted once less often, as many as there is room for.
        parts, more = cached(sample_tuples, high), cached(sample_tuples, low)
        parts = parts + (more - parts) * (capacity_keys - held(parts)) / (held(more) - held(parts))
    return float(np.dot(keys.keys * keys.probability, parts))


def aging_share(keys: KeyDistribution, capacity_keys: float, turn_misses: float) -> float:
    """Return the share of tuples that a cache with aging frequencies answers.

    ``turn_misses`` tuples miss the cache in a turn: as many as wait in the join when it is full.
    """
    if capacity_keys < 1 or turn_misses < 1:
        return 0.0
    if capacity_keys >= keys.num_keys:
        return 1.0
    share = min(keys.share_of_top(capacity_keys), MOST_CACHED)
    for _ in range(_ROUNDS):  # the share falls from that of a perfect cache: the fewer hits, the shorter is a turn
        sample_tuples = _TURNS * turn_misses / (1 - share)
        before, share = share, min(counted_share(keys, capacity_keys, sample_tuples, _LEAST_TUPLES), MOST_CACHED)
        if abs(share - before) < _TOLERANCE:
            break
    return share


def cheaper_cached(per_turn: Floats, waiting_tuples: float) -> Floats:
    """Return how likely keys are cached whose rows take as much memory as ``waiting_tuples`` tuples that wait.

    ``per_turn`` tuples of a key come in a turn, on average.
    """
    least_tuples = max(_LEAST_TUPLES, int(_TURNS * waiting_tuples) + 1)
    return poisson_at_least(_TURNS * per_turn, [least_tuples])[:, 0]


def _master_text_bytes(case: JoinCase, schema: pa.Schema) -> float:
    """Return the bytes of text and binary values in the columns ``schema`` of a master row.

    They share the bytes that a row has on disk beyond its columns of fixed size, in equal parts for every such column.
    """
    fields = list(case.spec.master_schema)
    fixed = [each for each in fields if TupleStore.supports(each.type) and not _num_varlen([each])]
    columns = len(fields) - len(fixed)  # those of nested types included
    if not columns:
        return 0.0
    fixed_bytes = TupleStore.fixed_bytes_per_tuple(pa.schema([each.with_nullable(False) for each in fixed]))
    page_bytes = batch_overhead_bytes(case.spec.master_schema) / case.table.rows_per_page
    text_bytes = max(0.0, case.table.row_bytes - page_bytes - fixed_bytes - 4 * columns)
    return text_bytes * _num_varlen(schema) / columns


def _num_varlen(fields: Iterable[pa.Field]) -> int:
    return TupleStore.num_varlen_columns(pa.schema(list(fields)))


@dataclass(frozen=True)
class CacheMemory:
    """The memory of a front stage, planned as the operator plans it."""

    sizes: CacheSizes
    rows_per_key: float  # on average: keys without a row are cached as well

    @staticmethod
    def of(case: JoinCase, policy: CachePolicyName, max_bytes: int | None = None) -> "CacheMemory":
        """Return the front stage of a join; it can grow to ``max_bytes``."""
        schema = cached_columns(case.spec, PairFilter(case.spec))
        text_bytes = _master_text_bytes(case, schema)
        sizes = CacheSizes(schema, VarlenSizes(text_bytes, int(text_bytes)), policy, max_bytes)
        return CacheMemory(sizes, case.table.rows_per_key * (1 - case.stream.missing_share))

    def keys_in(self, cache_bytes: int) -> int:
        """Return how many keys fit with all their rows."""
        shape = self.sizes.shape_in(cache_bytes)
        return min(shape.keys, int(shape.rows / max(1.0, self.rows_per_key)))

    def components(self, shape: CacheShape) -> dict[str, int]:
        """Return bytes by component, named as `Operator.memory` names them."""
        if not shape.rows:
            return {"H_R": 0, "frequency recorder": 0, "switching buffer": 0}
        return {
            "H_R": shape.nbytes(self.sizes.schema),
            "frequency recorder": shape.keys * self.sizes.policy_bytes,
            "switching buffer": self.sizes.collecting_bytes(shape.keys),
        }


class Cached(NamedTuple):
    """The share of tuples that a cache answers, and its bytes by component."""

    share: float
    memory: Mapping[str, int]


NO_CACHE = Cached(0.0, {})


def aging_cache(case: JoinCase, cache_bytes: int, turn_misses: float, most_share: float = MOST_CACHED) -> Cached:
    """Return the cache of a front stage with the default policy; ``turn_misses`` is that of `aging_share`."""
    cache = CacheMemory.of(case, "aging")
    share = aging_share(case.stream.keys, cache.keys_in(cache_bytes), turn_misses)
    return Cached(min(share, most_share), cache.components(cache.sizes.shape_in(cache_bytes)))
