"""Generates, stages, joins a live stream on local Spark, runs Spark's own join beside it, and checks the output."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from semistream.bench.demo.check import Fingerprint, batch_join_fingerprint, file_fingerprint
from semistream.bench.extras import import_extra
from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.join_metrics import JoinMetrics
from semistream.workloads import Bursts, Sales

__all__ = ["BatchSeen", "Beside", "SparkDemoResult", "SparkDemoSpec", "run_spark_demo"]

Progress = Callable[[str, int, int], None]
Tell = Callable[[str], None]

_SALES_PER_FILE = 1 << 18


@dataclass(frozen=True, kw_only=True)
class SparkDemoSpec:
    """Sizes of the demonstration.

    Attributes
    ----------
    rate
        Mean arrivals per second; bursts go far above it.
    budget_share
        The executor's memory for the join as a share of the table's bytes.
    missing_share
        The share of sales whose product is not in the table.
    beside_batches
        Micro-batches that Spark's own join gets.
    """

    master_rows: int = 2_000_000
    sales: int = 1_000_000
    rate: int = 40_000
    burstiness: float = 0.6
    skew: float = 1.0
    missing_share: float = 0.01
    budget_share: float = 0.10
    beside_batches: int = 4
    cores: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("master_rows", 1000), ("sales", 1), ("rate", 1), ("beside_batches", 1), ("cores", 1)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def burst_period_s(self) -> float:
        """The longest swing between busy and quiet: about a third of the run."""
        return max(1.0, self.sales / self.rate / 3)


@dataclass(frozen=True)
class BatchSeen:
    """One micro-batch of the live join.

    Attributes
    ----------
    ended_s
        When, in seconds after the query began.
    busy_s
        What it took from trigger to commit.
    """

    ended_s: float
    busy_s: float
    rows: int
    metrics: JoinMetrics


@dataclass(frozen=True)
class Beside:
    """Spark's own join on the same rows, a micro-batch at a time."""

    rows: int
    batch_s: tuple[float, ...]

    @property
    def rows_per_s(self) -> float:
        return self.rows / sum(self.batch_s)


@dataclass(frozen=True)
class SparkDemoResult:
    """What was seen.

    Attributes
    ----------
    beside
        Spark's own join, and ours, both given the same rows in the same batches as fast as they take them.
    """

    spec: SparkDemoSpec
    table_bytes: int
    table_pages: int
    budget_bytes: int
    stage_s: float
    batches: tuple[BatchSeen, ...]
    beside: dict[str, Beside] = field(default_factory=dict)
    output: Fingerprint | None = None
    expected: Fingerprint | None = None

    @property
    def exact(self) -> bool:
        """Whether the output has the rows of the batch join, each as often."""
        return self.output == self.expected

    @property
    def rows_in(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def rows_out(self) -> int:
        return sum(batch.metrics.rows_out for batch in self.batches)

    @property
    def cache_share(self) -> float:
        """The share of sales that the cache answered."""
        return sum(batch.metrics.hits for batch in self.batches) / max(1, self.rows_in)

    @property
    def service_rate(self) -> float:
        """Sales per second of the time that micro-batches took."""
        return self.rows_in / sum(batch.busy_s for batch in self.batches)

    @property
    def memory_bytes(self) -> int:
        """The most that the tasks of the executor held together."""
        return max(sum(task.memory_bytes for task in batch.metrics.tasks) for batch in self.batches)


def run_spark_demo(spec: SparkDemoSpec, folder: Path, progress: Progress, tell: Tell) -> SparkDemoResult:
    """Run the demonstration in a temporary folder inside ``folder``.

    Parameters
    ----------
    progress
        Is told what is being done, how much of it is done, and how much there is.
    tell
        Is told about every micro-batch.
    """
    import_extra("duckdb", "clustered", "the independent batch join")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".demo-") as scratch_name:
        scratch = Path(scratch_name).resolve()
        progress("starting Spark", 0, 1)
        with _session(spec, scratch) as spark:
            ss.register_sources(spark)
            progress("starting Spark", 1, 1)
            return _run(spark, spec, scratch, progress, tell)


def _run(spark: SparkSession, spec: SparkDemoSpec, scratch: Path, progress: Progress, tell: Tell) -> SparkDemoResult:
    products = scratch / "products.parquet"
    progress("generating products", 0, 1)
    made = spark.read.format("semistream-products").options(
        rows=spec.master_rows, seed=spec.seed, partitions=spec.cores
    )
    made.load().write.parquet(str(products))
    progress("generating products", 1, 1)
    progress("staging the table", 0, 1)
    began_s = time.perf_counter()
    table = ss.stage(
        spark.read.parquet(str(products)), scratch / "products", key="key", buckets=spec.cores, page_bytes="16KB"
    )
    stage_s = time.perf_counter() - began_s
    progress("staging the table", 1, 1)
    budget_bytes = int(table.num_bytes * spec.budget_share)
    arguments: dict[str, Any] = {"on": "key", "how": "left", "memory": budget_bytes}
    output = scratch / "enriched"
    batches = _live(spec, ss.join(_sales(spark, spec), table, **arguments), output, scratch, progress, tell)
    beside = {
        "semistream": _beside(spark, spec, lambda sales: ss.join(sales, table, **arguments), scratch, progress, "ours"),
        "Spark's own join": _beside(
            spark,
            spec,
            lambda sales: sales.join(spark.read.parquet(str(products)), "key", "left"),
            scratch,
            progress,
            "Spark's own",
        ),
    }
    progress("checking with DuckDB", 0, 1)
    sales_file = scratch / "sales.parquet"
    _write_sales(spec, sales_file)
    expected = batch_join_fingerprint(sales_file, products / "*.parquet")
    written = file_fingerprint(output / "*.parquet")
    progress("checking with DuckDB", 1, 1)
    return SparkDemoResult(
        spec, table.num_bytes, table.num_pages, budget_bytes, stage_s, batches, beside, written, expected
    )


@contextmanager
def _session(spec: SparkDemoSpec, scratch: Path) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have what this process has
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master(f"local[{spec.cores}]")
        .appName("semistream demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", str(spec.cores))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


def _sales(spark: SparkSession, spec: SparkDemoSpec, **options: object) -> DataFrame:
    given: dict[str, Any] = {
        "rows": spec.sales,
        "keyDomain": spec.master_rows,
        "skew": spec.skew,
        "missingShare": spec.missing_share,
        "rate": spec.rate,
        "burstiness": spec.burstiness,
        "burstPeriod": spec.burst_period_s,
        "seed": spec.seed,
        "partitions": spec.cores,
        **options,
    }
    return spark.readStream.format("semistream-sales").options(**given).load()


def _live(
    spec: SparkDemoSpec, enriched: DataFrame, output: Path, scratch: Path, progress: Progress, tell: Tell
) -> tuple[BatchSeen, ...]:
    """Run the join on the stream as it comes, until all sales are through."""
    query = (
        enriched.writeStream.format("parquet")
        .option("path", str(output))
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    began_s = time.perf_counter()
    seen: dict[int, BatchSeen] = {}
    rows = 0
    try:
        while rows < spec.sales:
            if not query.isActive:
                raise query.exception() or RuntimeError("the query ended before its time")
            for told in query.recentProgress:
                metrics = JoinMetrics.from_progress(told)
                if told["batchId"] in seen or metrics is None or not metrics.tasks:
                    continue
                busy_s = told["durationMs"]["triggerExecution"] / 1000
                batch = BatchSeen(time.perf_counter() - began_s, busy_s, told["numInputRows"], metrics)
                seen[told["batchId"]] = batch
                rows += batch.rows
                tell(
                    f"batch {told['batchId']:3}: {batch.rows:7,} sales in {busy_s:5.2f} s, "
                    f"{metrics.hit_ratio:4.0%} from the cache, {metrics.pages_read:6,} pages read"
                )
            progress("joining sales as they come", rows, spec.sales)
            time.sleep(0.1)
    finally:
        query.stop()
    return tuple(seen.values())


def _beside(
    spark: SparkSession,
    spec: SparkDemoSpec,
    join: Callable[[DataFrame], DataFrame],
    scratch: Path,
    progress: Progress,
    whose: str,
) -> Beside:
    """Give a join the first sales in batches of a fixed size, with nothing done with its output."""
    batch_rows = max(1, spec.sales // 10)
    total = min(spec.sales, batch_rows * (spec.beside_batches + 1))
    what = f"the first sales again: {whose}"
    checkpoint = scratch / "beside"
    shutil.rmtree(checkpoint, ignore_errors=True)
    query = (
        join(_sales(spark, spec, rows=total, pacing="none", rowsPerBatch=batch_rows))
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive:
        progress(what, sum(told["numInputRows"] for told in query.recentProgress), total)
        time.sleep(0.2)
    query.awaitTermination()  # raises what the query has failed with
    progress(what, total, total)
    told = [told for told in query.recentProgress if told["numInputRows"] > 0]
    measured = told[1:] or told  # the first one pays for planning and starting workers
    return Beside(
        sum(batch["numInputRows"] for batch in measured),
        tuple(batch["durationMs"]["triggerExecution"] / 1000 for batch in measured),
    )


def _write_sales(spec: SparkDemoSpec, path: Path) -> None:
    """Make the same sales once more, without Spark."""
    bursts = Bursts(spec.rate, burstiness=spec.burstiness, period_s=spec.burst_period_s, seed=spec.seed)
    sales = Sales(
        bursts,
        key_domain=spec.master_rows,
        zipf_exponent=spec.skew,
        missing_share=spec.missing_share,
        seed=spec.seed,
    )
    writer = None
    for start in range(0, spec.sales, _SALES_PER_FILE):
        batch = sales.part(start, min(_SALES_PER_FILE, spec.sales - start))
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
