"""What a front stage takes, and how much fits it: from the sizes of rows alone, before there is any."""

from dataclasses import dataclass

import pyarrow as pa

from semistream.kernels.hashing.key_slots import KeySlots
from semistream.operators.cache.cached_config import CachePolicyName
from semistream.operators.cache.policies.aging_policy import AgingPolicy
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.policies.threshold_policy import ThresholdPolicy
from semistream.operators.cache.policies.tinylfu_policy import TinyLfuPolicy
from semistream.operators.cache.row_cache import CacheShape, RowSets
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes

__all__ = ["CacheSizes"]

# How many keys can be on their way into the cache at once, as a share of those it holds.
_COLLECTING_SHARE = 1 / 4
# The same where the cache can grow, as a share of the memory that it can grow to.
_ELASTIC_COLLECTING_SHARE = 1 / 64
_LEAST_BYTES = 1024  # whole blocks and the smallest directories take more than a multiple of a key's bytes
_ROW_LINK_BYTES = 4


@dataclass(frozen=True)
class CacheSizes:
    """The sizes of a cache of master rows and all that belongs to it.

    Attributes
    ----------
    schema
        The master columns that are kept.
    varlen
        Text and binary values of a row.
    policy
        Which keys are cached.
    max_bytes
        The most that it can grow to; None for a cache that is never resized.
    """

    schema: pa.Schema
    varlen: VarlenSizes
    policy: CachePolicyName
    max_bytes: int | None = None

    @property
    def policy_bytes(self) -> int:
        """What the policy keeps of a key."""
        return _POLICY_BYTES[self.policy]

    @property
    def key_bytes(self) -> float:
        """What a key takes beside its rows and its place in the cache."""
        collecting = _COLLECTING_SHARE * _COLLECTED_KEY_BYTES if self.max_bytes is None else 0.0
        return self.policy_bytes + collecting

    @property
    def cached_key_bytes(self) -> int:
        """What a key takes that has no rows, with what the policy keeps of it."""
        return CacheShape(1, 0, 0).nbytes(self.schema) - CacheShape(0, 0, 0).nbytes(self.schema) + self.policy_bytes

    @property
    def row_bytes(self) -> float:
        """The papers' vR: what a row takes in the cache."""
        return TupleStore.fixed_bytes_per_tuple(self.schema) + self.varlen.mean + _ROW_LINK_BYTES

    @property
    def fixed_bytes(self) -> int:
        """What it takes however many keys are cached."""
        if self.max_bytes is None:
            return _LEAST_BYTES
        return _LEAST_BYTES + self.collecting_bytes(0)

    def most_collected(self, capacity_keys: int) -> int:
        """Return how many keys can be on their way at once into a cache for so many."""
        if self.max_bytes is not None:
            return int(self.max_bytes * _ELASTIC_COLLECTING_SHARE / _COLLECTED_KEY_BYTES)
        return int(capacity_keys * _COLLECTING_SHARE)

    def collecting_bytes(self, capacity_keys: int) -> int:
        """Return the bytes of watching out for the rows of keys on their way into a cache for so many."""
        return _collecting_bytes(self.most_collected(capacity_keys))

    def shape_in(self, cache_bytes: int, rows_per_key: float = 1.0) -> CacheShape:
        """Return the largest shape that takes at most ``cache_bytes`` with all that belongs to it."""
        rest = cache_bytes - self.fixed_bytes
        return CacheShape.fitting(self.schema, self.varlen, rest, self.key_bytes, rows_per_key)

    def bytes_for(self, rows: int) -> int:
        """Return how much memory it takes to cache so many rows of as many keys."""
        shape = CacheShape.of_rows(rows, self.varlen)
        return shape.nbytes(self.schema) + int(rows * self.key_bytes) + self.fixed_bytes


_POLICY_BYTES: dict[CachePolicyName, int] = {
    "aging": AgingPolicy.BYTES_PER_KEY,
    "tinylfu": TinyLfuPolicy.BYTES_PER_KEY,
    "threshold": ThresholdPolicy.BYTES_PER_KEY,
    "inequality": InequalityPolicy.BYTES_PER_KEY,
}


def _collecting_bytes(keys: int) -> int:
    return KeySlots.bytes_for(keys) + RowSets.bytes_for(keys) + 4 * keys


# Of one more key: what the smallest directory takes is counted once, not for every key.
_COLLECTED_KEY_BYTES = (_collecting_bytes(1000) - _collecting_bytes(0)) / 1000
