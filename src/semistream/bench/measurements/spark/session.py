"""The Spark session of benchmarks and their settings, the same for every plan."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSettings", "bench_session", "checkpoint_in"]


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """The parameters that all measurements of the benchmark share; ``specs/spark.toml`` explains each."""

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


@contextmanager
def bench_session(work_dir: Path, *, cores: int, driver_memory: str) -> "Iterator[SparkSession]":
    """Yield a local session, and stop it afterwards."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have the packages of this process
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("semistream bench")
        .config("spark.driver.memory", driver_memory)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        # Streaming shuffles are faster without it, in our plan as in Spark's.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.files.minPartitionNum", str(cores))
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.sql.warehouse.dir", str(work_dir / "warehouse"))
        .config("spark.local.dir", str(work_dir / "spark-local"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def checkpoint_in(folder: Path) -> Iterator[Path]:
    """Yield a new folder for the checkpoint of one query, and remove it afterwards.

    Spark may still write the state of an ended query: the next query must not find it.
    """
    path = Path(mkdtemp(prefix="checkpoint-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
