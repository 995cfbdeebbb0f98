"""The Spark session of benchmarks and their settings, the same for every plan."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["ROCKSDB", "SparkSettings", "bench_session", "checkpoint_in", "run_to_end", "use_state_store"]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


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
    slow_batch_s: float
    slow_batches: int
    cache_rows: int = 0
    cache_batch_rows: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= 1:
            raise InvalidArgument(f"memory_share={self.memory_share} must be above 0 and at most 1")
        if self.measured_batches < 1 or self.slow_batches < 1:
            raise InvalidArgument(
                f"measured_batches={self.measured_batches} and slow_batches={self.slow_batches} must be at least 1"
            )


def use_state_store(spark: "SparkSession", provider: str = ROCKSDB) -> None:
    """Let queries that start from now on keep their state in this store."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")


def checkpoint_in(folder: Path) -> "TemporaryDirectory[str]":
    """Return a new folder for the checkpoint of one query: Spark may still write the state of an ended one."""
    return TemporaryDirectory(prefix="checkpoint-", dir=folder, ignore_cleanup_errors=True)


def run_to_end(writer: "DataStreamWriter", folder: Path) -> "StreamingQuery":
    """Run a query over all that its sources have, with its checkpoint in ``folder``, and return the ended query."""
    with checkpoint_in(folder) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    return query


@contextmanager
def bench_session(work_dir: Path, *, cores: int, driver_memory: str) -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have the packages of this process
    options: dict[str, Any] = {
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        # Streaming shuffles are faster without it, in our plan as in Spark's.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.files.minPartitionNum": str(cores),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.local.dir": str(work_dir / "spark-local"),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("semistream bench")
    spark = builder.config(map=options).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
