"""The auctions on Spark: MJoin against Spark's own join of two streams, with a watermark and without.

A watermark keeps Spark's join exact where both streams come in the order of their event times, as they do here: an
auction opens at a time, a bid is at most so many bids later. Spark's join runs with its default state store, in the
JVM's memory, and with RocksDB; ours is held against the faster one.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

import semistream as ss
from semistream.bench.punctuated.auction_files import BIDS, AuctionFiles
from semistream.bench.punctuated.spec import PunctuatedSpec
from semistream.bench.result_file import Entry
from semistream.bench.spark.session import bench_session
from semistream.bench.spark.spec import SparkSpec

__all__ = ["bench_on_spark"]

_STORES = "org.apache.spark.sql.execution.streaming.state."
_ROCKSDB, _IN_MEMORY = f"{_STORES}RocksDBStateStoreProvider", f"{_STORES}HDFSBackedStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_MEMORY = "256MB"
_OURS = "punctuated_join, RocksDB"
_WATERMARKS = {"Spark, watermark, RocksDB": _ROCKSDB, "Spark, watermark, in memory": _IN_MEMORY}
_GROWING = "Spark, no watermark, RocksDB"
_LEAST_RATE = 2.0
_MOST_GROWTH = 1.25
_WARM_UP_BATCHES = 1
_RATE_RATIO_OF = "tuples a second of punctuated_join / of Spark's inner join with a watermark, the faster state store"
_FLAT_RATIO_OF = "tuples in the state at the most in the second half of the stream / in the first half"
_GROWTH_RATIO_OF = "tuples in the state in the end / after the first micro-batch"


@dataclass
class Course:
    """What one query took, micro-batch by micro-batch."""

    part: str
    plan: str
    batch_tuples: int
    batch_s: list[float]
    state_rows: list[int]
    state_bytes: list[int]
    rows_out: int

    @property
    def rate(self) -> float:
        """Tuples a second, once Spark is warm."""
        return self.batch_tuples / median(self.batch_s[_WARM_UP_BATCHES:] or self.batch_s)


def bench_on_spark(
    spec: PunctuatedSpec, data_dir: Path, report: Callable[[str], None]
) -> tuple[list[Entry], list[dict[str, Any]]]:
    """Return the figures, and the course of every query."""
    entries: list[Entry] = []
    courses: list[Course] = []
    with bench_session(SparkSpec(), data_dir / "spark") as spark:
        spark.conf.set(_CHANGELOG, "true")
        for batch_tuples in spec.spark_batch_tuples:
            files = AuctionFiles(data_dir, tuples=spec.spark_tuples, batch_tuples=batch_tuples, seed=spec.seed)
            report(f"spark: making {files.batches} micro-batches of {files.batch_tuples:,} tuples")
            files.make()
            found = _in_turns(spark, files, spec, report)
            courses += [course for repeats in found.values() for course in repeats]
            entries.append(_rate_entry(files, found))
            if batch_tuples == spec.spark_batch_tuples[-1]:
                report(f"spark: {_GROWING}")
                growing = _run(spark, files, _GROWING, _ROCKSDB, _without_watermark)
                courses.append(growing)
                entries += _state_entries(found[_OURS][0], growing)
    return entries, [asdict(course) for course in courses]


def _in_turns(
    spark: SparkSession, files: AuctionFiles, spec: PunctuatedSpec, report: Callable[[str], None]
) -> dict[str, list[Course]]:
    found: dict[str, list[Course]] = {plan: [] for plan in (_OURS, *_WATERMARKS)}
    for repeat in range(spec.spark_repeats):
        for plan in found:
            report(f"spark, batches of {files.batch_tuples:,}, {plan}: run {repeat + 1} of {spec.spark_repeats}")
            if plan == _OURS:
                course = _run(spark, files, plan, _ROCKSDB, _ours)
            else:
                course = _run(spark, files, plan, _WATERMARKS[plan], _with_watermark)
            found[plan].append(course)
    return found


def _rate_entry(files: AuctionFiles, found: dict[str, list[Course]]) -> Entry:
    rates = {plan: median(course.rate for course in repeats) for plan, repeats in found.items()}
    best = max(_WATERMARKS, key=rates.__getitem__)
    details = {f"tuples_per_s {plan}": rate for plan, rate in rates.items()}
    details |= {f"batch_s {plan}": files.batch_tuples / rate for plan, rate in rates.items()}
    name = f"on Spark, batches of {files.batch_tuples:,}"
    return Entry(name, rates[_OURS] / rates[best], _LEAST_RATE, "at least", details, _RATE_RATIO_OF)


def _state_entries(ours: Course, growing: Course) -> Iterator[Entry]:
    # The last batch ends all auctions.
    half = (len(ours.state_rows) - 1) // 2
    first, second = max(ours.state_rows[: half + 1]), max(ours.state_rows[half + 1 : -1], default=0)
    details = {"state_rows": ours.state_rows, "state_bytes": ours.state_bytes}
    yield Entry("state on Spark stays flat", second / first, _MOST_GROWTH, "at most", details, _FLAT_RATIO_OF)
    details = {"state_rows": growing.state_rows, "state_bytes": growing.state_bytes}
    growth = growing.state_rows[-1] / growing.state_rows[0]
    grows = 0.9 * len(growing.state_rows)
    yield Entry("state of Spark's join without a watermark", growth, grows, "at least", details, _GROWTH_RATIO_OF)


def _run(
    spark: SparkSession,
    files: AuctionFiles,
    plan: str,
    provider: str,
    build: Callable[[AuctionFiles, DataFrame, DataFrame], DataFrame],
) -> Course:
    """Join all batches one by one, and return how it went."""
    spark.conf.set(_PROVIDER, provider)
    streams = [
        spark.readStream.schema(spark.read.parquet(files.path(stream)).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(files.path(stream))
        for stream in ("auctions", "bids")
    ]
    joined = build(files, *streams).observe("out", F.count(F.lit(1)).alias("rows"))
    with _checkpoint(files.folder) as checkpoint:
        query = (
            joined.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    told = [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
    rows_out = sum(progress["observedMetrics"]["out"]["rows"] for progress in query.recentProgress)
    assert rows_out == files.num_bids, f"{plan}: {rows_out:,} rows left, the join has {files.num_bids:,}"
    metrics = [ss.StreamJoinMetrics.from_progress(progress) for progress in told]
    operators = [progress["stateOperators"][0] for progress in told]
    return Course(
        "spark",
        plan,
        files.batch_tuples,
        [progress["durationMs"]["triggerExecution"] / 1000 for progress in told],
        [
            operator["numRowsTotal"] if found is None else found.rows_held
            for operator, found in zip(operators, metrics, strict=True)
        ],
        [
            operator["memoryUsedBytes"] if found is None else found.state_bytes
            for operator, found in zip(operators, metrics, strict=True)
        ],
        rows_out,
    )


@contextmanager
def _checkpoint(folder: Path) -> Iterator[Path]:
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    yield checkpoint
    shutil.rmtree(checkpoint, ignore_errors=True)


def _ours(files: AuctionFiles, auctions: DataFrame, bids: DataFrame) -> DataFrame:
    return ss.punctuated_join(
        auctions,
        bids,
        "auction",
        punctuations={"left": "is_end", "right": "is_end"},
        relation="one-to-many",
        memory=_MEMORY,
    )


def _tuples(auctions: DataFrame, bids: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return both streams without punctuations, which Spark has no use for."""
    left, right = (stream.where(~F.col("is_end")).drop("is_end") for stream in (auctions, bids))
    return left, right.withColumnRenamed("auction", "bid_on")


def _with_watermark(files: AuctionFiles, auctions: DataFrame, bids: DataFrame) -> DataFrame:
    left, right = _tuples(auctions, bids)
    # The number of a bid is its time in milliseconds, as fine as a watermark is; an auction opens with its first bid.
    # What happens at time 0, where the watermark begins, would be late.
    opened, at = F.col("auction") * BIDS + 1, F.col("bid") + 1
    left = left.withColumn("opened", F.timestamp_millis(opened)).withWatermark("opened", "0 seconds")
    right = right.withColumn("at", F.timestamp_millis(at)).withWatermark("at", "0 seconds")
    longest = f"interval {files.longest_open_bids} milliseconds"
    return left.join(right, F.expr(f"auction = bid_on and at >= opened and at <= opened + {longest}"))


def _without_watermark(files: AuctionFiles, auctions: DataFrame, bids: DataFrame) -> DataFrame:
    left, right = _tuples(auctions, bids)
    return left.join(right, F.expr("auction = bid_on"))
