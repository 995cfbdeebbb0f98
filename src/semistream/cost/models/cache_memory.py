"""How many keys a front stage holds in so many bytes, and what its parts take, for a table of a given shape."""

from dataclasses import dataclass

import pyarrow as pa

from semistream.cost.join_case import JoinCase
from semistream.operators.cache.cache_sizes import CacheSizes
from semistream.operators.cache.cached_config import CachePolicyName, cached_columns
from semistream.operators.cache.row_cache import CacheShape
from semistream.operators.window.matching import PairFilter
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes
from semistream.storage.files.row_sizes import batch_overhead_bytes

__all__ = ["CacheMemory", "master_text_bytes"]


def master_text_bytes(case: JoinCase, schema: pa.Schema) -> float:
    """Return the bytes of text and binary values in the columns ``schema`` of a master row.

    They are what a row has on disk beyond its columns of fixed size, in equal parts for every such column.
    """
    columns = TupleStore.num_varlen_columns(case.spec.master_schema)
    if not columns:
        return 0.0
    fixed = [field for field in case.spec.master_schema if not TupleStore.num_varlen_columns(pa.schema([field]))]
    fixed_bytes = TupleStore.fixed_bytes_per_tuple(pa.schema([field.with_nullable(False) for field in fixed]))
    page_bytes = batch_overhead_bytes(case.spec.master_schema) / case.table.rows_per_page
    text_bytes = max(0.0, case.table.row_bytes - page_bytes - fixed_bytes - 4 * columns)
    return text_bytes * TupleStore.num_varlen_columns(schema) / columns


@dataclass(frozen=True)
class CacheMemory:
    """A front stage, planned.

    Attributes
    ----------
    rows_per_key
        Of a cached key, on average: keys without a row are cached as well.
    """

    sizes: CacheSizes
    rows_per_key: float

    @staticmethod
    def of(case: JoinCase, policy: CachePolicyName, max_bytes: int | None = None) -> "CacheMemory":
        """Return the front stage of a join; with ``max_bytes`` one that can grow to as much."""
        schema = cached_columns(case.spec, PairFilter(case.spec))
        text_bytes = master_text_bytes(case, schema)
        sizes = CacheSizes(schema, VarlenSizes(text_bytes, int(text_bytes)), policy, max_bytes)
        return CacheMemory(sizes, case.table.rows_per_key * (1 - case.stream.missing_share))

    def shape(self, cache_bytes: int) -> CacheShape:
        """Return the shape of the cache in so many bytes, as it is made before rows per key are known."""
        return self.sizes.shape_in(cache_bytes)

    def keys_in(self, cache_bytes: int) -> int:
        """Return how many keys fit with all their rows."""
        shape = self.shape(cache_bytes)
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
