"""What the benchmark of the Spark pipeline measures, and how large."""

from dataclasses import asdict, dataclass
from typing import Any

from semistream.core.errors import InvalidArgument

__all__ = ["QUICK", "SparkSpec"]


@dataclass(frozen=True, kw_only=True)
class SparkSpec:
    """One run; the defaults are those that the targets speak of.

    Attributes
    ----------
    rows
        Rows of 120 bytes in the master tables.
    batch_rows
        Rows of a micro-batch, largest first: the first ones fill the cache.
    memory_share
        The executor's budget for the join as a share of the table's bytes.
    skew
        Zipf exponent of the stream.
    cores
        Of ``local[cores]``.
    page_bytes
        Of our table. A look-up reads a page, so pages are small.
    parquet_buckets
        Of the table that Spark's merge and hash joins read without shuffling it.
    warm_up_batches, measured_batches
        Micro-batches of a query before its time is taken, and those whose median it is.
    cache_rows
        Rows that our join has seen before its time is taken: its cache is then about as warm as it gets.
    slow_batch_s
        A plan whose second batch takes longer is measured on `slow_batches` batches only.
    memory_batches
        Micro-batches over which the memory of the Python workers is watched.
    cycle_batches, staggered_cycles
        Staggered completion is measured on the smallest table as a heap: how many micro-batches a scan takes, and how
        many scans there are, of which the last two are measured and the others fill the cache: SSBJ chooses keys from
        what waits in every third scan, at first from very few, so that its cache is filled after six.
    """

    rows: tuple[int, ...] = (20_000_000, 80_000_000)
    batch_rows: tuple[int, ...] = (1_000_000, 100_000, 10_000)
    memory_share: float = 0.10
    skew: float = 1.0
    cores: int = 2
    page_bytes: int = 8 << 10
    parquet_buckets: int = 4
    warm_up_batches: int = 3
    measured_batches: int = 9
    cache_rows: int = 60_000_000
    slow_batch_s: float = 4.0
    slow_batches: int = 3
    cold_batches: int = 3
    memory_batches: int = 100
    cycle_batches: int = 8
    staggered_cycles: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.rows or not self.batch_rows:
            raise InvalidArgument("rows and batch_rows must each have at least one value")
        if min(self.rows) < 1000 or min(self.batch_rows) < 1:
            raise InvalidArgument(f"rows={self.rows} must be at least 1000, batch_rows={self.batch_rows} at least 1")
        if not 0 < self.memory_share <= 1:
            raise InvalidArgument(f"memory_share={self.memory_share} must be above 0 and at most 1")
        if self.measured_batches < 1 or self.slow_batches < 1:
            raise InvalidArgument("measured_batches and slow_batches must be at least 1")

    def is_target_size(self) -> bool:
        """Whether the figures are those that the targets speak of; some of the sizes may be left out."""
        free = {"seed": 0, "rows": SparkSpec.rows, "batch_rows": SparkSpec.batch_rows}
        known = set(self.rows) <= set(SparkSpec.rows) and set(self.batch_rows) <= set(SparkSpec.batch_rows)
        return known and {**asdict(self), **free} == asdict(SparkSpec())

    def as_dict(self) -> dict[str, Any]:
        """Return the spec as it stands in the result file."""
        return asdict(self)


QUICK = SparkSpec(
    rows=(200_000, 400_000),
    batch_rows=(20_000, 5_000),
    warm_up_batches=1,
    measured_batches=3,
    cache_rows=60_000,
    slow_batches=2,
    cold_batches=1,
    memory_batches=6,
    cycle_batches=3,
    staggered_cycles=3,
)
"""A look at the mechanics in a few minutes, without verdicts."""
