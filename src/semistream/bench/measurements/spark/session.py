"""The Spark session of benchmarks: the same settings for every plan."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["bench_session", "checkpoint_in"]


@contextmanager
def bench_session(work_dir: Path, *, cores: int, driver_memory: str) -> "Iterator[SparkSession]":
    """Yield a local session, and stop it afterwards."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have what this process has
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

    Spark may still write state of a query that has ended: the next one must not find it.
    """
    path = Path(mkdtemp(prefix="checkpoint-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
