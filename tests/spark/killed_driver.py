"""A program that joins what lies in a folder, killed in the middle and started again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

__all__ = ["killed_and_finished", "rocksdb_session", "written_batches"]


def killed_and_finished(program: str, folder: Path, *arguments: str, kills: int) -> "Counter[tuple[Any, ...]]":
    """Run a program of this folder until it has ended by itself, and return the rows that its sink has.

    It is killed with all that it has started, each time some batches further.
    """
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    out = folder / "out"
    out.mkdir()
    for killed in range(kills + 1):
        with (folder / "driver.log").open("w") as log:
            driver = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name(program)), str(folder), *arguments],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # so that its JVM and workers can be killed with it
                stderr=log,
            )
        before = len(list(out.iterdir()))
        try:
            while driver.poll() is None and (killed == kills or len(list(out.iterdir())) < before + 2):
                time.sleep(0.05)
            if killed < kills:
                time.sleep(chosen.uniform(0, 1))
                assert driver.poll() is None, "it was over before it was killed"
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    assert driver.returncode == 0, (folder / "driver.log").read_text()
    rows: Counter[tuple[Any, ...]] = Counter()
    for path in out.glob("*.json"):
        rows.update(tuple(row) for row in json.loads(path.read_text()))
    return rows


def rocksdb_session(folder: Path) -> SparkSession:
    """Return the session of such a program."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )


def written_batches(joined: DataFrame, folder: Path) -> None:
    """Write a file for every batch, all of what is there; a batch that is replayed must be as it was."""

    def write(rows: DataFrame, batch: int) -> None:
        path = folder / "out" / f"{batch}.json"
        collected = [list(row) for row in rows.collect()]  # a replayed batch too: its state is committed by reading it
        if path.exists():
            before, now = (sorted(map(repr, some)) for some in (json.loads(path.read_text()), collected))
            assert before == now, f"batch {batch} let other rows out when it was replayed"
        else:
            unfinished = folder / f"{batch}.unfinished"
            unfinished.write_text(json.dumps(collected))
            unfinished.rename(path)

    writer = joined.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
