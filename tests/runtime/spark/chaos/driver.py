"""Runs one query to its end in a process that can be killed: ``python -m tests.runtime.spark.chaos.driver FOLDER``.

Reads ``config.json``, the table and ``stream/`` in the folder; writes ``out/`` and ``checkpoint/``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from tests.runtime.spark.chaos.config import RunConfig
from tests.runtime.spark.chaos.data import STREAM_COLUMNS
from tests.runtime.spark.sessions import QUICK_JVM

__all__ = ["joined", "session", "start"]


def session(config: RunConfig, folder: Path) -> SparkSession:
    """Return a session with the settings of the run."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(config.master)
        .appName("semistream chaos")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK_JVM)
        .config("spark.executor.extraJavaOptions", QUICK_JVM)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.log.level", "ERROR")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    return builder.getOrCreate()


def joined(spark: SparkSession, config: RunConfig, folder: Path) -> DataFrame:
    """Return the join of the run."""
    stream = (
        spark.readStream.schema(STREAM_COLUMNS)
        .option("maxFilesPerTrigger", config.files_per_trigger)
        .parquet(str(folder / "stream"))
    )
    arguments: dict[str, Any] = {
        "how": config.how,
        "algorithm": config.algorithm,
        "memory": config.memory,
        "completion": config.completion,
        "exchange": config.exchange,
        **config.options,
    }
    return ss.join(stream, folder / "master", on="id", **arguments)


def start(folder: Path) -> None:
    """Run the query until everything that was there at the start is joined."""
    config = RunConfig.read(folder / "config.json")
    spark = session(config, folder)
    query = (
        joined(spark, config, folder)
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)
    query.awaitTermination()
    found = [ss.JoinMetrics.from_progress(progress) for progress in query.recentProgress]
    waited = max((metrics.pending for metrics in found if metrics is not None), default=0)
    print(json.dumps({"done": True, "waited": waited}), flush=True)
    spark.stop()


if __name__ == "__main__":
    start(Path(sys.argv[1]))
