"""Local Spark: a bursty live stream, then its first half at full speed, beside Spark's own join."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from semistream.bench.demo.run import Backend, JoinRun, Point
from semistream.bench.demo.workload import DemoSpec, Progress, Workload
from semistream.core.metrics import Metrics
from semistream.storage import MasterTable

__all__ = ["spark_backend"]


@contextmanager
def spark_backend(spec: DemoSpec, folder: Path, progress: Progress) -> Iterator[Backend]:
    """Start Spark, and stop it at the end."""
    progress("starting Spark", 0, 1)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have the packages of this process
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master(f"local[{spec.cores}]")
        .appName("semistream demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", str(spec.cores))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    try:
        ss.register_sources(spark)
        progress("starting Spark", 1, 1)
        yield Backend(partial(_stage, spark), partial(_joins, spark), _notes)
    finally:
        spark.stop()


def _stage(spark: SparkSession, workload: Workload, progress: Progress) -> MasterTable:
    progress("staging the table", 0, 1)
    products = spark.read.parquet(str(workload.products))
    buckets = workload.spec.cores
    table = ss.stage(products, workload.folder / "table", key="key", buckets=buckets, page_bytes="16KB")
    progress("staging the table", 1, 1)
    return table


def _joins(
    spark: SparkSession, workload: Workload, table: MasterTable, budget_bytes: int, progress: Progress
) -> Iterator[JoinRun]:
    spec = workload.spec
    live: dict[str, Any] = {
        "rows": spec.stream_tuples,
        "keyDomain": spec.master_rows,
        "skew": spec.zipf_exponent,
        "missingShare": spec.missing_share,
        "rate": spec.rate,
        "burstiness": spec.burstiness,
        "burstPeriod": spec.arrivals.period_s,
        "startTime": "1970-01-01T00:00:00Z",
        "seed": spec.seed,
        "partitions": spec.cores,
    }
    tenth = max(1, spec.stream_tuples // 10)
    front = {**live, "rows": min(spec.stream_tuples, 5 * tenth), "pacing": "none", "rowsPerBatch": tenth}
    products = spark.read.parquet(str(workload.products))

    def ours(sales: DataFrame, columns: list[str] | None = None) -> DataFrame:
        return ss.join(sales, table, on="key", how="left", memory=budget_bytes, columns=columns)

    def ours_again(sales: DataFrame) -> DataFrame:
        # Equal joins share a cache, and the live join has seen these sales. Naming all columns makes it another join.
        return ours(sales, [name for name in table.schema.names if name not in table.key])

    def sparks_own(sales: DataFrame) -> DataFrame:
        return sales.join(products, "key", "left")

    for name, join, options in (
        ("semistream, live", ours, live),
        ("semistream", ours_again, front),
        ("Spark's own join", sparks_own, front),
    ):
        output, checkpoint = (tempfile.mkdtemp(dir=workload.folder) for _ in range(2))
        paced = options is live
        trigger: dict[str, Any] = {"processingTime": "500 milliseconds"} if paced else {"availableNow": True}
        joined = join(spark.readStream.format("semistream-sales").options(**options).load())
        writer = joined.writeStream.format("parquet").option("path", output).trigger(**trigger)
        query = writer.option("checkpointLocation", checkpoint).start()
        yield _watch(query, name, Path(output), options["rows"], paced, progress)


def _watch(query: StreamingQuery, name: str, output: Path, tuples: int, paced: bool, progress: Progress) -> JoinRun:
    """Watch a query until all its sales are through, and stop it."""
    began_s = time.perf_counter()
    timeline = [Point(0.0, 0, 0)]
    batches: dict[int, tuple[int, float]] = {}  # rows and seconds by number
    counted: list[ss.JoinMetrics] = []
    progress(f"{name}: joining", 0, tuples)
    try:
        while timeline[-1].answered < tuples:
            is_active = query.isActive
            for told in query.recentProgress:
                number, rows = told["batchId"], told["numInputRows"]
                if number in batches or not rows:
                    continue
                batches[number] = rows, told["durationMs"]["triggerExecution"] / 1000
                line = f"batch {number:3}: {rows:7,} sales in {batches[number][1]:5.2f} s"
                metrics = ss.JoinMetrics.from_progress(told)
                if metrics is not None:
                    counted.append(metrics)
                    line += f", {metrics.hit_ratio:4.0%} from memory, {metrics.pages_read:6,} pages read"
                _, answered, from_memory = timeline[-1]
                hits = metrics.hits if metrics else 0
                timeline.append(Point(time.perf_counter() - began_s, answered + rows, from_memory + hits))
                progress(f"{name}: joining", answered + rows, tuples, line if paced else "")
            if not is_active and timeline[-1].answered < tuples:
                raise query.exception() or RuntimeError("the query ended before its time")
            time.sleep(0.1)
    finally:
        query.stop()
    measured = list(batches.values())[1:] or list(batches.values())  # the first one pays for planning
    run = JoinRun(
        name=name,
        tuples=tuples,
        joined=output / "*.parquet",
        service_rate=sum(rows for rows, _ in measured) / sum(seconds for _, seconds in measured),
        timeline=tuple(timeline),
        paced=paced,
    )
    if not counted:
        return run
    fullest = max(counted, key=_held_bytes)
    return replace(
        run,
        metrics=Metrics(**{name: sum(batch.counters[name] for batch in counted) for name in Metrics().as_dict()}),
        memory_bytes=_held_bytes(fullest),
        components={name: sum(task.memory.get(name, 0) for task in fullest.tasks) for name in fullest.memory},
    )


def _held_bytes(batch: ss.JoinMetrics) -> int:
    """Return the bytes that all tasks of the executor held."""
    return sum(task.memory_bytes for task in batch.tasks)


def _notes(spec: DemoSpec, runs: tuple[JoinRun, ...]) -> tuple[str, ...]:
    live, ours, sparks_own = runs
    return (
        f"Spark Structured Streaming joined the live sales as they came, {spec.rate:,} a second on average and in "
        f"bursts, in {len(live.timeline) - 1} micro-batches.",
        f"The first {ours.tuples:,} sales again, at full speed: semistream {ours.service_rate:,.0f} a "
        f"second, Spark's own join {sparks_own.service_rate:,.0f}: {ours.service_rate / sparks_own.service_rate:.1f} "
        "times as many. Spark's own join reads the whole table in every micro-batch, so its time grows with the table; "
        "ours grows with the different keys of the micro-batch, and begins with an empty cache and no page verified.",
        "Rates are of the time that micro-batches take, writing the output included and the first one left out. The "
        "table was just written, so its pages come from the page cache: these are warm rates. From memory are sales "
        "that our cache answered, or a page that was used in the page cache, without reading it. Each component of "
        "memory is shown at its own highest point.",
    )
