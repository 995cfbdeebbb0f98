"""Staggered beside batch completion on one heap: rows per second, and the delay of hot rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import semistream as ss
from semistream.bench.framework.measurement import Context, Point
from semistream.bench.measurements.spark.feed import FileFeed
from semistream.bench.measurements.spark.session import SparkSettings, run_to_end, use_state_store
from semistream.bench.measurements.spark.tables import MasterForms
from semistream.bench.measurements.spark.warm_tables import warm_tables
from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.metrics.join_metrics import JoinMetrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["StaggeredCompletion"]

_MEASURED_CYCLES = 2
_HOT_KEYS = 1000


@dataclass(frozen=True, kw_only=True)
class StaggeredCompletion:
    """Our join with both completions, on the table as a heap."""

    rows: int
    batch_rows: int
    first_sale: int
    cycle_batches: int  # micro-batches per scan
    cycles: int  # scans; the last two are measured
    settings: SparkSettings

    def __post_init__(self) -> None:
        if self.cycle_batches < 1 or self.cycles < _MEASURED_CYCLES:
            raise InvalidArgument(
                f"cycle_batches={self.cycle_batches} must be at least 1, "
                f"staggered_cycles={self.cycles} at least {_MEASURED_CYCLES}"
            )

    @property
    def name(self) -> str:
        return f"{self.rows:,} rows as a heap: staggered completion"

    @property
    def weight(self) -> float:
        return 5.0 + self.rows * 2e-6 + self._batches * (1.0 + self.rows * 1.5e-7)

    @property
    def _batches(self) -> int:
        return self.cycle_batches * self.cycles

    @property
    def _first_measured(self) -> int:
        return self._batches - self.cycle_batches * _MEASURED_CYCLES

    def run(self, context: Context) -> list[Point]:
        tables = warm_tables(context, self.settings)
        master = tables.forms(self.rows, context.report)
        use_state_store(tables.spark)
        feed = tables.feed(self.rows, self.batch_rows, first=self.first_sale)
        feed.add_batches(self._batches)
        points: list[Point] = []
        for completion in ("batch", "staggered"):
            context.report(f"{self.rows:,} rows as a heap: {completion} completion")
            rate, details = self._rate(feed, master, completion)
            if completion == "staggered":
                context.report(f"{self.rows:,} rows as a heap: how soon hot rows leave")
                details |= self._delays(feed, master)
            group = f"{self.rows:,} rows, heap"
            points.append(Point(f"{completion} completion", self.batch_rows, {"rows a second": rate}, details, group))
        return points

    def _rate(self, feed: FileFeed, master: MasterForms, completion: str) -> tuple[float, dict[str, Any]]:
        """Return the rows answered per second in the measured micro-batches, while there are rows to read."""
        query = run_to_end(self._join(feed, master, completion).writeStream.format("noop"), feed.folder)
        told = [(each, JoinMetrics.from_progress(each)) for each in query.recentProgress]
        measured = [each for each in told if self._first_measured <= each[0]["batchId"] < self._batches]
        assert all(each["numInputRows"] >= feed.batch_rows for each, _ in measured), "a batch of the feed in each"
        batches = [(each["durationMs"]["triggerExecution"] / 1000, found.counters) for each, found in measured if found]
        seconds = sum(seconds for seconds, _ in batches)
        answered = sum(counters["tuples_answered"] for _, counters in batches)
        details = {
            "cycle_batches": self.cycle_batches,
            "measured_batches": self._batches - self._first_measured,
            "mean_batch_s": seconds / len(batches),
            "hit_ratio": sum(counters["tuples_through_cache"] for _, counters in batches) / max(1, answered),
        }
        return answered / seconds, details

    def _delays(self, feed: FileFeed, master: MasterForms) -> dict[str, Any]:
        """Return the number of rows by their delay in micro-batches, for the hottest keys and for others."""
        from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

        keys, counts = np.unique(feed.keys(), return_counts=True)
        hot_keys = keys[np.argsort(-counts, kind="stable")[:_HOT_KEYS]].tolist()
        found: dict[bool, dict[int, int]] = {True: {}, False: {}}

        def see(rows: "DataFrame", batch: int) -> None:
            came = F.floor((F.col("sale") - feed.first) / feed.batch_rows).cast("int")
            grouped = rows.groupBy(came.alias("came"), F.col("key").isin(hot_keys).alias("hot")).count()
            for row in grouped.collect():
                if row["came"] >= self._first_measured:
                    by_delay, delay = found[row["hot"]], batch - row["came"]
                    by_delay[delay] = by_delay.get(delay, 0) + row["count"]

        run_to_end(self._join(feed, master, "staggered").writeStream.foreachBatch(see), feed.folder)
        soon = sum(rows for delay, rows in found[True].items() if delay <= 1)
        return {
            "hot_rows_soon_share": soon / max(1, sum(found[True].values())),
            "hot_rows_by_delay": {str(delay): rows for delay, rows in sorted(found[True].items())},
            "other_rows_by_delay": {str(delay): rows for delay, rows in sorted(found[False].items())},
        }

    def _join(self, feed: FileFeed, master: MasterForms, completion: str) -> "DataFrame":
        memory_bytes = int(master.ours.num_bytes * self.settings.memory_share)
        arguments: dict[str, Any] = {"completion": completion, "cycle_batches": self.cycle_batches}
        stream = feed.source(master.spark, one_by_one=True)
        return ss.join(stream, master.heap(), on="key", memory=memory_bytes, **arguments)
