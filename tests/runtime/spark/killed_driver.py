"""A program that joins what lies in a folder, killed in the middle; another goes on from its checkpoint."""

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

from tests.runtime.spark.knowing_sink import CHANGELOG, LONG_S, PROVIDER, ROCKSDB
from tests.runtime.spark.sessions import quick_builder

__all__ = ["kill_driver", "rocksdb_session", "rows_written", "write_batches"]


def kill_driver(program: str, folder: Path, *arguments: str) -> None:
    """Run a program below this folder, and kill it with all that it has started when it has written some batches."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    out = folder / "out"
    out.mkdir()
    log = folder / "driver.log"
    with log.open("w") as errors:
        driver = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / program), str(folder), *arguments],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # so that its JVM and workers can be killed with it
            stderr=errors,
        )
    try:
        while driver.poll() is None and len(list(out.iterdir())) < 2:
            time.sleep(0.05)
        time.sleep(random.Random(seed).uniform(0, 1))
        assert driver.poll() is None, f"it was over before it was killed: {log.read_text()}"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def rows_written(folder: Path) -> "Counter[tuple[Any, ...]]":
    """Return the rows that the sink of `write_batches` has."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for path in (folder / "out").glob("*.json"):
        rows.update(tuple(row) for row in json.loads(path.read_text()))
    return rows


def rocksdb_session(folder: Path) -> SparkSession:
    """Return the session of a program that is killed."""
    return quick_builder(folder).config(PROVIDER, ROCKSDB).config(CHANGELOG, "true").getOrCreate()


def write_batches(joined: DataFrame, folder: Path) -> None:
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
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(LONG_S), "availableNow never ended"
