"""Staggered completion beside batch completion on one heap: how many rows a second, and how soon hot rows leave."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

import semistream as ss
from semistream.bench.result_file import Entry
from semistream.bench.spark.feed import FileFeed
from semistream.bench.spark.spec import SparkSpec
from semistream.bench.spark.tables import MasterForms
from semistream.runtime.spark.join_metrics import JoinMetrics

__all__ = ["staggered_entries"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_MEASURED_CYCLES = 2
_HOT_KEYS = 1000
_LEAST_RATE = 0.7
_LEAST_HOT_SHARE = 0.95
_RATE_RATIO_OF = "rows a second of staggered completion / of batch completion, on the same heap with the same memory"
_HOT_RATIO_OF = "rows of the thousand most frequent keys that leave in their micro-batch or the next / all of them"


def staggered_entries(spark: SparkSession, spec: SparkSpec, feed: FileFeed, master: MasterForms) -> Iterator[Entry]:
    """Yield both figures."""
    spark.conf.set(_PROVIDER, _ROCKSDB)
    spark.conf.set(_CHANGELOG, "true")
    batches = spec.cycle_batches * spec.staggered_cycles
    first_measured = batches - spec.cycle_batches * _MEASURED_CYCLES
    feed.add_batches(batches)
    at = f"{master.rows:,} rows, batches of {feed.batch_rows:,}"

    def progress(completion: str) -> list[tuple[float, JoinMetrics]]:
        """Return the time and the counts of every measured micro-batch, while there is something to read."""
        query = _run(spark, spec, feed, master, completion, lambda frame: frame.writeStream.format("noop"))
        told = [(each, JoinMetrics.from_progress(each)) for each in query.recentProgress]
        measured = [each for each in told if first_measured <= each[0]["batchId"] < batches]
        assert all(each["numInputRows"] >= feed.batch_rows for each, _ in measured), "a batch of the feed in each"
        return [(each["durationMs"]["triggerExecution"] / 1000, found) for each, found in measured if found is not None]

    rates: dict[str, float] = {}
    details: dict[str, Any] = {"cycle_batches": spec.cycle_batches, "measured_batches": batches - first_measured}
    for completion in ("batch", "staggered"):
        found = progress(completion)
        answered = sum(metrics.counters["tuples_answered"] for _, metrics in found)
        seconds = sum(seconds for seconds, _ in found)
        rates[completion] = answered / seconds
        details[f"{completion}_rows_per_s"] = rates[completion]
        details[f"{completion}_batch_s"] = seconds / len(found)
        details[f"{completion}_hit_ratio"] = sum(
            metrics.counters["tuples_through_cache"] for _, metrics in found
        ) / max(1, answered)
    ratio = rates["staggered"] / rates["batch"]
    judged = spec.is_target_size()
    yield Entry(f"staggered / batch, heap of {at}", ratio, _LEAST_RATE, "at least", details, _RATE_RATIO_OF, judged)

    delays = _delays(spark, spec, feed, master, first_measured)
    hot = {delay: rows for (delay, is_hot), rows in delays.items() if is_hot}
    soon = sum(rows for delay, rows in hot.items() if delay <= 1) / max(1, sum(hot.values()))
    others = {delay: rows for (delay, is_hot), rows in delays.items() if not is_hot}
    details = {
        "hot_rows_by_delay": {str(delay): rows for delay, rows in sorted(hot.items())},
        "other_rows_by_delay": {str(delay): rows for delay, rows in sorted(others.items())},
        "scan_micro_batches": spec.cycle_batches,
    }
    yield Entry(f"hot rows, heap of {at}", soon, _LEAST_HOT_SHARE, "at least", details, _HOT_RATIO_OF, judged)


def _delays(
    spark: SparkSession, spec: SparkSpec, feed: FileFeed, master: MasterForms, first_measured: int
) -> dict[tuple[int, bool], int]:
    """Return how many rows left how many micro-batches after they came, hot ones and others."""
    keys, counts = np.unique(feed.keys(), return_counts=True)
    hot_keys = keys[np.argsort(-counts, kind="stable")[:_HOT_KEYS]].tolist()
    found: dict[tuple[int, bool], int] = {}

    def see(rows: DataFrame, batch: int) -> None:
        came = F.floor((F.col("sale") - feed.first) / feed.batch_rows).cast("int")
        grouped = rows.groupBy(came.alias("came"), F.col("key").isin(hot_keys).alias("hot")).count()
        for row in grouped.collect():
            if row["came"] >= first_measured:
                at = batch - row["came"], row["hot"]
                found[at] = found.get(at, 0) + row["count"]

    _run(spark, spec, feed, master, "staggered", lambda frame: frame.writeStream.foreachBatch(see))
    return found


def _run(
    spark: SparkSession,
    spec: SparkSpec,
    feed: FileFeed,
    master: MasterForms,
    completion: str,
    write: Callable[[DataFrame], Any],
) -> Any:
    """Join all that the feed has put there, and return the query when it has ended."""
    checkpoint = feed.folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    memory_bytes = int(master.ours.num_bytes * spec.memory_share)
    arguments: dict[str, Any] = {"completion": completion, "cycle_batches": spec.cycle_batches}
    stream = feed.source(spark, one_by_one=True)
    joined = ss.join(stream, master.heap(), on="key", memory=memory_bytes, **arguments)
    query = write(joined).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return query
