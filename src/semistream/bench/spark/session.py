"""The Spark session of the benchmark: the same settings for every plan."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from semistream.bench.spark.spec import SparkSpec

__all__ = ["bench_session"]


@contextmanager
def bench_session(spec: SparkSpec, work_dir: Path) -> Iterator[SparkSession]:
    """Yield a local session, and stop it afterwards."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have what this process has
    spark = (
        SparkSession.builder.master(f"local[{spec.cores}]")
        .appName("semistream bench spark")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(spec.cores))
        # Streaming shuffles are faster without it, in our plan as in Spark's.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.files.minPartitionNum", str(spec.cores))
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
