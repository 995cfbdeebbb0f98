"""Settings of a front stage, and what it needs before there is a cache: the columns that it keeps, and their sizes."""

from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from semistream.core.arguments import require_count, require_number
from semistream.core.errors import InvalidArgument, UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.kernels.hashing.key_slots import KeySlots
from semistream.operators.cache.policies.aging_policy import AgingPolicy
from semistream.operators.cache.policies.cache_policy import CachePolicy
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.policies.threshold_policy import ThresholdPolicy
from semistream.operators.cache.policies.tinylfu_policy import TinyLfuPolicy
from semistream.operators.cache.row_cache import CacheShape, RowSets
from semistream.operators.config import JoinConfig
from semistream.operators.window.matching import PairFilter
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes

__all__ = ["CachePolicyName", "CacheSizes", "CachedConfig", "cached_columns"]

CachePolicyName = Literal["aging", "tinylfu", "threshold", "inequality"]

# The most keys on their way into the cache, as a share of the keys that it holds.
_COLLECTING_SHARE = 1 / 4
# The same for a cache that can grow, as a share of its largest memory.
_ELASTIC_COLLECTING_SHARE = 1 / 64
_LEAST_BYTES = 1024  # whole blocks and the smallest directories take more than their share per key
_ROW_LINK_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class CachedConfig(JoinConfig):
    """Settings of joins behind a front stage.

    Attributes
    ----------
    cache_share
        The cache's share of the memory that it and the stream tuples (in CINLJ: the buffer pool) have together; not
        `Metrics.cache_share`, the share of tuples that it answers. S2's optimum is near 0.15, of all memory.
    cache_policy
        Which keys are cached: ``"aging"``, ``"tinylfu"``, ``"threshold"`` as in S2, or ``"inequality"`` as in S0. Each
        has a module in `semistream.operators.cache.policies`.
    cache_threshold
        Holds the threshold of the policy ``"threshold"`` where it is, as S2's Fig. 9b does; it moves by itself
        otherwise.
    """

    cache_share: float = 0.15
    cache_policy: CachePolicyName = "aging"
    cache_threshold: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("cache_share", self.cache_share)
        if not 0 <= self.cache_share < 1:
            raise InvalidArgument(f"cache_share={self.cache_share} must be at least 0 and below 1")
        if self.cache_policy not in get_args(CachePolicyName):
            raise InvalidArgument(
                f"cache_policy={self.cache_policy!r} is unknown: use one of "
                + ", ".join(map(repr, get_args(CachePolicyName)))
            )
        require_count("cache_threshold", self.cache_threshold, optional=True)
        if self.cache_threshold is not None and self.cache_policy != "threshold":
            raise InvalidArgument(
                f"cache_threshold={self.cache_threshold} is for cache_policy='threshold', not {self.cache_policy!r}: "
                "leave it out"
            )


def cached_columns(spec: JoinSpec, pair_filter: PairFilter) -> pa.Schema:
    """Return the master columns to cache: those that leave the join and those that are compared there.

    An integer key is its own code and is not kept, unless there would be no column at all.
    """
    names = dict.fromkeys((*pair_filter.master_columns, *spec.master_columns)) or dict.fromkeys(spec.master_keys[:1])
    schema = pa.schema([spec.master_schema.field(name) for name in names])
    for field in schema:
        if not TupleStore.supports(field.type):
            raise UnsupportedType(
                f"master column {field.name!r} has type {field.type}, which cannot be cached: leave it out with "
                "columns=[...], stage it as text or scalar columns, or use a join without a cache"
            )
    return schema


@dataclass(frozen=True)
class CacheSizes:
    """The sizes of a cache of master rows and all that belongs to it."""

    schema: pa.Schema  # the master columns that are kept
    varlen: VarlenSizes
    policy: CachePolicyName
    max_bytes: int | None = None  # None for a cache that is never resized

    @property
    def policy_bytes(self) -> int:
        """The policy's bytes per key."""
        return _POLICIES[self.policy].BYTES_PER_KEY

    @property
    def key_bytes(self) -> float:
        """The bytes of a key beside its rows and its entry in the cache."""
        return self.policy_bytes + (_COLLECTING_SHARE * _COLLECTED_KEY_BYTES if self.max_bytes is None else 0.0)

    @property
    def cached_key_bytes(self) -> int:
        """The bytes of a cached key without rows, the policy's included."""
        return CacheShape(1, 0, 0).nbytes(self.schema) - CacheShape(0, 0, 0).nbytes(self.schema) + self.policy_bytes

    @property
    def row_bytes(self) -> float:
        """The bytes of a row in the cache (the papers' vR)."""
        return TupleStore.fixed_bytes_per_tuple(self.schema) + self.varlen.mean + _ROW_LINK_BYTES

    @property
    def fixed_bytes(self) -> int:
        """The bytes that do not depend on the number of keys."""
        return _LEAST_BYTES + (0 if self.max_bytes is None else self.collecting_bytes(0))

    @property
    def largest_shape(self) -> CacheShape | None:
        """The most of everything in `max_bytes`: keys with one row each, or rows and text of keys with any number."""
        if self.max_bytes is None:
            return None
        of_many = self.shape_in(self.max_bytes, float("inf"))
        return CacheShape(self.shape_in(self.max_bytes).keys, of_many.rows, of_many.ring_bytes)

    def most_collected(self, capacity_keys: int) -> int:
        """Return how many keys can be on their way into a cache for ``capacity_keys`` keys."""
        if self.max_bytes is not None:
            return int(self.max_bytes * _ELASTIC_COLLECTING_SHARE / _COLLECTED_KEY_BYTES)
        return int(capacity_keys * _COLLECTING_SHARE)

    def collecting_bytes(self, capacity_keys: int) -> int:
        """Return the bytes of collecting `most_collected` keys."""
        return _collecting_bytes(self.most_collected(capacity_keys))

    def shape_in(self, cache_bytes: int, rows_per_key: float = 1.0) -> CacheShape:
        """Return the largest shape that fits ``cache_bytes`` together with policy and collected keys."""
        rest = cache_bytes - self.fixed_bytes
        return CacheShape.fitting(self.schema, self.varlen, rest, self.key_bytes, rows_per_key)

    def bytes_for(self, rows: int) -> int:
        """Return the memory that caches ``rows`` rows of as many keys."""
        shape = CacheShape.of_rows(rows, self.varlen)
        return shape.nbytes(self.schema) + int(rows * self.key_bytes) + self.fixed_bytes


_POLICIES: dict[CachePolicyName, type[CachePolicy]] = {
    "aging": AgingPolicy,
    "tinylfu": TinyLfuPolicy,
    "threshold": ThresholdPolicy,
    "inequality": InequalityPolicy,
}


def _collecting_bytes(keys: int) -> int:
    return KeySlots.bytes_for(keys) + RowSets.bytes_for(keys) + 4 * keys


# Of one more key: the smallest directory counts once, not for every key.
_COLLECTED_KEY_BYTES = (_collecting_bytes(1000) - _collecting_bytes(0)) / 1000
