"""Measures one plan: a query that gets one micro-batch after the other."""

import os
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from semistream.bench.framework.measurement import MACHINE, Point
from semistream.bench.measurements.spark.feed import FileFeed
from semistream.bench.measurements.spark.plans import Master, Plan
from semistream.bench.measurements.spark.session import SparkSettings, checkpoint_in
from semistream.runtime.spark.metrics.join_metrics import JoinMetrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MicroBatches", "measure_plan"]

_MOST_START_S = 120.0
_MOST_ATTEMPTS = 3
_HOST = re.compile(r"\(\S+ executor ")


@dataclass
class MicroBatches:
    """The micro-batches of a query."""

    load_average: float
    batch_s: list[float] = field(default_factory=list)  # of each measured one from trigger to commit, by Spark
    observed: dict[str, int] = field(default_factory=dict)  # counters of our join in them
    failure: str | None = None  # why the plan did not run, in one line; there are no times then

    def as_point(self, series: str, batch_rows: int, group: str, **details: Any) -> Point:
        times = {MACHINE: statistics.median(self.batch_s)} if self.batch_s else {}
        return Point(series, batch_rows, times, {**asdict(self), **details}, group)


class _Query:
    """A running query to the noop sink."""

    def __init__(self, frame: "DataFrame", feed: FileFeed, checkpoint: str) -> None:
        self._feed = feed
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).outputMode("append")
        self._query = writer.start()
        self.stop = self._query.stop
        self._last_batch = -1

    def run_batch(self) -> tuple[float, dict[str, Any]]:
        """Give the query a batch, and return Spark's time in seconds and the observed counters."""
        for _ in range(_MOST_ATTEMPTS):
            told = self._give_batch()
            if told[0]["numInputRows"] == self._feed.batch_rows:
                found = JoinMetrics.from_progress(told[0])
                return told[0]["durationMs"]["triggerExecution"] / 1000, {} if found is None else found.counters
            # Spark looked between two files of the batch and made two micro-batches of them: their times do not count.
        raise AssertionError(f"a batch of the feed was {_MOST_ATTEMPTS} times not a micro-batch")

    def _give_batch(self) -> list[Any]:
        """Add a batch of the feed, and return the progress of its micro-batches."""
        self._feed.add_batch()
        self._query.processAllAvailable()
        deadline_s = time.monotonic() + _MOST_START_S
        while True:
            # Spark reports the progress of a batch a little later.
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


def measure_plan(
    spark: "SparkSession",
    settings: SparkSettings,
    plan: Plan,
    feed: FileFeed,
    master: Master,
    *,
    warm_up_batches: int | None = None,
    measured_batches: int | None = None,
    before_measured_batch: Callable[[], None] = lambda: None,
    after_batch: Callable[[], None] = lambda: None,
) -> MicroBatches:
    """Return the times of a plan; a slow plan is measured on fewer batches, and a failed one has the reason.

    Numbers of batches override those of the settings.
    """
    from pyspark.errors import PySparkException

    warm_up = settings.warm_up_batches if warm_up_batches is None else warm_up_batches
    measured = settings.measured_batches if measured_batches is None else measured_batches
    found = MicroBatches(round(os.getloadavg()[0], 2))
    query = None
    with checkpoint_in(feed.folder) as checkpoint:
        try:
            feed.rewind()
            frame = plan.build(feed.source(spark), master, settings.memory_share)
            query = _Query(frame, feed, checkpoint)
            for number in range(warm_up):
                seconds, _ = query.run_batch()
                if seconds > settings.slow_batch_s and number > 0:  # a first batch compiles and opens files
                    measured = min(measured, settings.slow_batches)
                    break
                after_batch()
            for _ in range(measured):
                before_measured_batch()
                seconds, observed = query.run_batch()
                found.batch_s.append(seconds)
                for name, value in observed.items():
                    found.observed[name] = found.observed.get(name, 0) + value
                after_batch()
        except (PySparkException, AssertionError) as error:
            return MicroBatches(found.load_average, failure=_in_a_line(error))
        finally:
            if query is not None:
                query.stop()
    return found


def _in_a_line(error: Exception) -> str:
    """Return the error in one line, without the name of the host."""
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return _HOST.sub("(executor ", line)[:300]
