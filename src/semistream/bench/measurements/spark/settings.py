"""What all measurements of the benchmark on Spark share; ``specs/spark.toml`` says what each setting is."""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument

__all__ = ["SparkSettings"]


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """The parameters of the benchmark, without those that measurements differ in."""

    memory_share: float
    skew: float
    cores: int
    driver_memory: str
    page_bytes: int
    parquet_buckets: int
    warm_up_batches: int
    measured_batches: int
    cache_rows: int
    cache_batch_rows: int
    slow_batch_s: float
    slow_batches: int

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= 1:
            raise InvalidArgument(f"memory_share={self.memory_share} must be above 0 and at most 1")
        if self.measured_batches < 1 or self.slow_batches < 1:
            raise InvalidArgument(
                f"measured_batches={self.measured_batches} and slow_batches={self.slow_batches} must be at least 1"
            )
