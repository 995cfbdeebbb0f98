"""One long query on Spark, for hours of simulated time."""

import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import semistream as ss
from semistream.runtime.spark.join.cache_folder import executor_memory
from tests.runtime.long_run.changing_table import KEYS, ChangingTable
from tests.runtime.long_run.flatness import folder_size, growth, resident_bytes
from tests.runtime.spark.knowing_sink import CHANGELOG, PROVIDER, ROCKSDB
from tests.runtime.spark.sessions import quick_builder

__all__ = ["COMPLETIONS", "run"]

COMPLETIONS = ("batch", "staggered")
_BATCH_ROWS = 200
_BATCHES_PER_CHANGE = 10
_BUCKETS = 2
_MAINTENANCE = "1s"  # of the real clock, which is a minute of the simulated one; Spark removes old state then
_ABSENT_KEYS = 1_000
_KEPT_VERSIONS = 4  # more than pending tuples and replayed batches go back
_LATE_BATCHES = 60  # in which the last pending tuples leave


class _Sink:
    """Checks rows: with a left join each tuple leaves in one row, whose value follows from its key and version."""

    def __init__(self, table: ChangingTable, sampler: "_Sampler", batches: int) -> None:
        self.tuples = batches * _BATCH_ROWS
        self.seen = np.zeros(self.tuples + _LATE_BATCHES * _BATCH_ROWS, np.int64)
        self.wrong_values = 0
        self.done = threading.Event()
        self._table = table
        self._sampler = sampler
        self._last_batch = batches + _LATE_BATCHES - 1

    @property
    def is_exact(self) -> bool:
        return self.wrong_values == 0 and bool((self.seen <= 1).all() and self.seen[: self.tuples].all())

    def __call__(self, rows: DataFrame, batch: int) -> None:
        if self.done.is_set():
            return
        found = rows.select("number", "id", "value", "made").toArrow()
        np.add.at(self.seen, found["number"].to_numpy(), 1)
        due = pc.add(pc.multiply(found["id"], 10_000), found["made"])
        is_right = pc.if_else(
            pc.is_null(found["value"]), pc.greater_equal(found["id"], KEYS), pc.equal(due, found["value"])
        )
        self.wrong_values += found.num_rows - (pc.sum(is_right).as_py() or 0)
        if (batch + 1) % _BATCHES_PER_CHANGE == 0:
            self._table.change(keep=_KEPT_VERSIONS)
            self._sampler.take()
        if self.seen[: self.tuples].all() or batch == self._last_batch:
            self.done.set()


class _Sampler:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = psutil.Process()
        self.samples: list[dict[str, float]] = []

    def take(self) -> None:
        table_files, table_bytes = folder_size(self._folder / "table")
        pin_files, pin_bytes = folder_size(self._folder / "table" / "_pins")
        local_files, local_bytes = map(sum, zip(*map(folder_size, self._soft_folders()), strict=True))
        state_files, state_bytes = folder_size(self._folder / "checkpoint" / "state")
        self.samples.append(
            {
                "resident_bytes": resident_bytes(self._process),
                "worker_bytes": sum(map(_resident, _workers(self._process))),
                "open_files": self._process.num_fds(),
                "table_files": table_files - pin_files,
                "table_bytes": table_bytes - pin_bytes,
                "pin_files": pin_files,
                "local_files": local_files,
                "local_bytes": local_bytes,
                "state_files": state_files,
                "state_bytes": state_bytes,
            }
        )

    def _soft_folders(self) -> list[Path]:
        """The folders of this library on the executor's disk and in memory that its workers share."""
        disks = list((self._folder / "local").glob("blockmgr-*"))
        in_memory = filter(None, (executor_memory(str(disk)) for disk in disks))
        return [self._folder / "none", *(disk / "semistream" for disk in disks), *map(Path, in_memory)]


def _workers(driver: psutil.Process) -> list[psutil.Process]:
    return [child for child in driver.children(recursive=True) if "java" not in child.name()]


def _resident(process: psutil.Process) -> int:
    try:
        return resident_bytes(process)
    except psutil.NoSuchProcess:
        return 0


def run(completion: str, folder: Path, hours: float, batches: int) -> dict[str, object]:
    """Join a stream of so many hours in ``batches`` micro-batches or a few more, and return what came of it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    staggered = completion == "staggered"
    table = ChangingTable(folder / "table", "heap" if staggered else "clustered", _BUCKETS)
    spark = (
        quick_builder(folder)
        .config("spark.driver.memory", "768m")
        .config(PROVIDER, ROCKSDB)
        .config(CHANGELOG, "true")
        .config("spark.sql.streaming.minBatchesToRetain", "10")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", _MAINTENANCE)
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    sampler = _Sampler(folder)
    sink = _Sink(table, sampler, batches)
    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", _BATCH_ROWS)
        .option("numPartitions", 2)
        .option("advanceMillisPerBatch", int(hours * 3_600_000 / batches))
        .load()
        .selectExpr(
            "value number",
            f"if(value % 2 = 0, pmod(xxhash64(value), 40), pmod(xxhash64(value), {KEYS + _ABSENT_KEYS})) id",
            "timestamp",
        )
    )
    options: dict[str, Any] = {"algorithm": "ssbj", "completion": completion} if staggered else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        joined = ss.join(stream, folder / "table", on="id", how="left", memory="64MB", **options)
    query = (
        joined.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        while not sink.done.wait(1.0):
            if not query.isActive:
                raise RuntimeError(f"the query ended: {query.exception()}")
    finally:
        query.stop()
        spark.stop()
    figures = growth(sampler.samples)
    return {
        "join": f"{completion} on Spark",
        "micro_batches": batches,
        "versions": table.changes + 1,
        "rows": int(sink.seen.sum()),
        "is_exact": sink.is_exact,
        "is_flat": all(figure["is_flat"] for figure in figures.values()),
        "figures": figures,
    }
