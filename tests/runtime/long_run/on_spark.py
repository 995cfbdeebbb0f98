"""One long query on Spark, for hours of simulated time."""

import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

import semistream as ss
from tests.runtime.long_run.changing_table import KEYS, ChangingTable
from tests.runtime.long_run.flatness import folder_size, growth, resident_bytes
from tests.runtime.spark.knowing_sink import CHANGELOG, PROVIDER, ROCKSDB
from tests.runtime.spark.sessions import quick_builder

__all__ = ["COMPLETIONS", "run"]

COMPLETIONS = ("batch", "staggered")
_BATCH_ROWS = 200
_BATCHES_PER_CHANGE = 10
_BUCKETS = 2
_ABSENT_KEYS = 1_000
_MOST_S = 3600.0


class _Check:
    """A sink that counts: with a left join every tuple leaves in one row, whose value follows from key and version."""

    def __init__(self, table: ChangingTable, sample: "_Sampler", batches: int) -> None:
        self.rows = self.sum = self.squares = self.wrong = 0
        self.done = threading.Event()
        self._table = table
        self._sample = sample
        self._batches = batches

    def __call__(self, rows: DataFrame, batch: int) -> None:
        found = rows.selectExpr(
            "count(*) rows",
            "coalesce(sum(number), 0) total",
            "coalesce(sum(cast(number * number as decimal(38,0))), 0) squares",
            f"count_if(coalesce(value <> id * 10000 + made, false)) + count_if(value is null and id < {KEYS}) wrong",
        ).first()
        assert found is not None
        self.rows += found["rows"]
        self.sum += found["total"]
        self.squares += int(found["squares"])
        self.wrong += found["wrong"]
        if (batch + 1) % _BATCHES_PER_CHANGE == 0:
            # A replay goes one batch back, and pending tuples to the version before; both are still there.
            self._table.change(keep=4)
            self._sample.take()
        if batch + 1 >= self._batches:
            self.done.set()


class _Sampler:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = psutil.Process()
        self.samples: list[dict[str, float]] = []

    def take(self) -> None:
        table_files, table_bytes = folder_size(self._folder / "table")
        pin_files, pin_bytes = folder_size(self._folder / "table" / "_pins")
        local_files, local_bytes = folder_size(self._folder / "local")
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
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    sampler = _Sampler(folder)
    check = _Check(table, sampler, batches)
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
        joined.writeStream.foreachBatch(check)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        while not check.done.wait(1.0):
            if not query.isActive:
                raise RuntimeError(f"the query ended: {query.exception()}")
        metrics = ss.JoinMetrics.from_progress(query.recentProgress[-1])
    finally:
        query.stop()
        spark.stop()
    figures = growth(sampler.samples)
    return {
        "join": f"{completion} on Spark",
        "micro_batches": batches,
        "versions": table.changes + 1,
        "rows": check.rows,
        "pending": 0 if metrics is None else metrics.pending,
        "is_exact": _is_exact(check, batches, 0 if staggered else None),
        "is_flat": all(figure["is_flat"] for figure in figures.values()),
        "figures": figures,
    }


def _is_exact(check: _Check, batches: int, least_rows: int | None) -> bool:
    numbers = range(batches * _BATCH_ROWS)
    if least_rows is None:
        sums = (len(numbers), sum(numbers), sum(number * number for number in numbers))
        return check.wrong == 0 and (check.rows, check.sum, check.squares) == sums
    return check.wrong == 0 and least_rows < check.rows
