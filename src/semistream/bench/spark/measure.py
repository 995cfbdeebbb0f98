"""Measures one plan: a query that is given one micro-batch after the other."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from semistream.bench.page_cache import drop_from_page_cache, read_into_page_cache
from semistream.bench.spark.cells import PlanResult
from semistream.bench.spark.feed import FileFeed
from semistream.bench.spark.plans import OURS, Plan
from semistream.bench.spark.spec import SparkSpec
from semistream.bench.spark.tables import MasterForms
from semistream.runtime.spark.join_metrics import JoinMetrics

__all__ = ["measure_plan"]

_MOST_START_S = 120.0
_MOST_ATTEMPTS = 3


class _Query:
    """A running query to the noop sink."""

    def __init__(self, spark: SparkSession, plan: Plan, feed: FileFeed, master: MasterForms, memory_bytes: int) -> None:
        self._feed = feed
        self._checkpoint = Path(feed.folder / "checkpoint")
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        feed.rewind()
        frame = plan.build(feed.source(spark), master, memory_bytes)
        self._query = (
            frame.writeStream.format("noop").option("checkpointLocation", str(self._checkpoint)).outputMode("append")
        ).start()
        self._last_batch = -1

    def run_batch(self) -> tuple[float, dict[str, Any]]:
        """Give it a batch, and return what Spark says it took, in seconds, and what was observed."""
        for _ in range(_MOST_ATTEMPTS):
            told = self._give_batch()
            if told[0]["numInputRows"] == self._feed.batch_rows:
                return told[0]["durationMs"]["triggerExecution"] / 1000, _observed(told[0])
            # Spark looked between two files of the batch and made two micro-batches of them: no time to go by.
        raise AssertionError(f"a batch of the feed was {_MOST_ATTEMPTS} times not a micro-batch")

    def _give_batch(self) -> list[Any]:
        """Return what is told of the micro-batches that a batch of the feed became."""
        self._feed.add_batch()
        self._query.processAllAvailable()
        deadline_s = time.monotonic() + _MOST_START_S
        while True:
            # The progress of a batch is told a little after the batch.
            told = [
                progress
                for progress in self._query.recentProgress
                if progress["numInputRows"] > 0 and progress["batchId"] > self._last_batch
            ]
            if sum(progress["numInputRows"] for progress in told) >= self._feed.batch_rows:
                self._last_batch = told[-1]["batchId"]
                return told
            assert time.monotonic() < deadline_s, "a batch that is done has its progress"
            time.sleep(0.01)

    def stop(self) -> None:
        self._query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def _observed(progress: Any) -> dict[str, Any]:
    found = JoinMetrics.from_progress(progress)
    return {} if found is None else found.counters


def measure_plan(
    spark: SparkSession,
    spec: SparkSpec,
    plan: Plan,
    feed: FileFeed,
    master: MasterForms,
    *,
    is_cold: bool = False,
    warm_up_batches: int | None = None,
    measured_batches: int | None = None,
    after_batch: Callable[[int], None] = lambda number: None,
) -> PlanResult:
    """Return the times of a plan; a slow one is measured on fewer batches, and one that fails says why."""
    memory_bytes = int(master.ours.num_bytes * spec.memory_share)
    warm_up = spec.warm_up_batches if warm_up_batches is None else warm_up_batches
    measured = spec.measured_batches if measured_batches is None else measured_batches
    result = PlanResult(master.rows, feed.batch_rows, plan.name, is_cold, load_average=round(os.getloadavg()[0], 2))
    query = None
    if plan.name == OURS and not is_cold:
        # A table of Spark's may have driven it out. Spark's plans read all of their files in every batch.
        read_into_page_cache(master.our_files())
    try:
        query = _Query(spark, plan, feed, master, memory_bytes)
        for number in range(warm_up):
            seconds, _ = query.run_batch()
            if seconds > spec.slow_batch_s and number > 0:  # a first batch compiles and opens files
                measured = min(measured, spec.slow_batches)
                break
            after_batch(number)
        for number in range(measured):
            if is_cold:
                drop_from_page_cache(master.files())
            seconds, observed = query.run_batch()
            result.batch_s.append(seconds)
            for name, value in observed.items():
                result.observed[name] = result.observed.get(name, 0) + value
            after_batch(warm_up + number)
    except (PySparkException, AssertionError) as error:
        failure = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return PlanResult(master.rows, feed.batch_rows, plan.name, is_cold, failure=failure[:300])
    finally:
        if query is not None:
            query.stop()
    return result
