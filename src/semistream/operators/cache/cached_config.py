"""Settings of a front stage, and what of the master rows it keeps."""

from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from semistream.core.arguments import require_count, require_number
from semistream.core.errors import InvalidArgument, UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.operators.config import JoinConfig
from semistream.operators.window.matching import PairFilter
from semistream.state.tuple_store import TupleStore

__all__ = ["CachePolicyName", "CachedConfig", "cached_columns"]

CachePolicyName = Literal["aging", "tinylfu", "threshold", "inequality"]


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
