"""The kind ``punctuated on Spark``: MJoin against Spark's own join of two streams, with a watermark and without.

A watermark keeps Spark's join exact where both streams come in the order of their event times, as they do here: an
auction opens at a time, a bid is at most so many bids later. Spark's join runs with its default state store, in the
JVM's memory, and with RocksDB; ours is held against the faster one.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import semistream as ss
from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point, check_least, in_turns
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.spark.session import ROCKSDB, bench_session, run_to_end, use_state_store
from semistream.bench.measurements.two_streams.auction_files import BIDS, AuctionFiles
from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Course", "JoinsOnSpark", "punctuated_spark_measurements"]

_IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_MEMORY = "256MB"
_WARM_UP_BATCHES = 1


@dataclass(frozen=True)
class Course:
    """What one query took, micro-batch by micro-batch."""

    batch_s: list[float]
    state_rows: list[int]
    state_bytes: list[int]
    rows_out: int

    @property
    def warm_batch_s(self) -> float:
        """What a micro-batch takes once Spark is warm."""
        return median(self.batch_s[_WARM_UP_BATCHES:] or self.batch_s)


@dataclass(frozen=True, kw_only=True)
class JoinsOnSpark:
    """Queries that join the same auctions and bids, in turns."""

    plans: tuple[str, ...]  # names of `_PLANS`
    tuples: int  # auctions and bids together
    batch_tuples: int  # of a micro-batch, at the most
    repeats: int
    cores: int
    driver_memory: str

    @property
    def name(self) -> str:
        return f"batches of {self.batch_tuples:,}: {'; '.join(self.plans)}"

    @property
    def weight(self) -> float:
        return 10.0 + len(self.plans) * self.repeats * (1.5 * self.tuples / self.batch_tuples + 1e-5 * self.tuples)

    def run(self, context: Context) -> list[Point]:
        data_dir = context.data_dir.resolve()
        files = AuctionFiles(data_dir, tuples=self.tuples, batch_tuples=self.batch_tuples, seed=context.seed)
        context.report(f"making {files.batches} micro-batches of {files.batch_tuples:,} tuples")
        files.make()
        make = partial(bench_session, data_dir / "spark", cores=self.cores, driver_memory=self.driver_memory)
        spark = context.resource("Spark session", make)
        sides = {plan: partial(_run, spark, files, plan) for plan in self.plans}
        found = in_turns(sides, self.repeats, context.report)
        return [point for plan, courses in found.items() for point in _points(plan, courses, files.batch_tuples)]


def _points(plan: str, courses: list[Course], batch_tuples: int) -> list[Point]:
    """Return a point for each micro-batch; all runs have the same rows in the state."""
    state_rows = courses[0].state_rows
    group = f"batches of {batch_tuples:,} tuples"
    points = []
    for number, held in enumerate(state_rows):
        values = {MACHINE: median(course.batch_s[number] for course in courses)}
        if held:  # the last batch ends all auctions
            values["tuples in the state"] = held
        points.append(Point(plan, batch_tuples * (number + 1), values, {}, group))
    half = (len(state_rows) - 1) // 2
    points[half].details["most_tuples_in_half"] = max(state_rows[: half + 1])
    points[-1].details.update(
        most_tuples_in_half=max(state_rows[half + 1 : -1], default=0),
        # What the median of the rates comes to.
        warm_batch_s=1 / median(1 / course.warm_batch_s for course in courses),
        courses=[asdict(course) for course in courses],
    )
    return points


def punctuated_spark_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return the joins that forget at every size of micro-batch, and the one that does not at the last size."""
    sizes: list[int] = parameters["batch_tuples"]
    check_least(parameters, tuples=1000, repeats=1)
    if not sizes or min(sizes) < 100:
        raise InvalidArgument(f"batch_tuples={sizes} must have sizes of at least 100")
    shared = {name: parameters[name] for name in ("tuples", "cores", "driver_memory")}
    bounded, growing = tuple(_PLANS)[:-1], tuple(_PLANS)[-1:]
    return [
        *(JoinsOnSpark(plans=bounded, batch_tuples=size, repeats=parameters["repeats"], **shared) for size in sizes),
        JoinsOnSpark(plans=growing, batch_tuples=sizes[-1], repeats=1, **shared),
    ]


def _run(spark: "SparkSession", files: AuctionFiles, plan: str) -> Course:
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

    provider, build = _PLANS[plan]
    use_state_store(spark, provider)
    streams = [
        spark.readStream.schema(spark.read.parquet(files.path(stream)).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(files.path(stream))
        for stream in ("auctions", "bids")
    ]
    joined = build(files, *streams).observe("out", F.count(F.lit(1)).alias("rows"))
    query = run_to_end(joined.writeStream.format("noop"), files.folder)
    told = [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
    rows_out = sum(progress["observedMetrics"]["out"]["rows"] for progress in query.recentProgress)
    assert rows_out == files.num_bids, f"{plan}: {rows_out:,} rows left, the join has {files.num_bids:,}"
    course = Course([progress["durationMs"]["triggerExecution"] / 1000 for progress in told], [], [], rows_out)
    for progress in told:
        found, state = ss.StreamJoinMetrics.from_progress(progress), progress["stateOperators"][0]
        course.state_rows.append(state["numRowsTotal"] if found is None else found.rows_held)
        course.state_bytes.append(state["memoryUsedBytes"] if found is None else found.state_bytes)
    return course


def _ours(files: AuctionFiles, auctions: "DataFrame", bids: "DataFrame") -> "DataFrame":
    ends = {"left": "is_end", "right": "is_end"}
    return ss.punctuated_join(auctions, bids, "auction", punctuations=ends, relation="one-to-many", memory=_MEMORY)


def _tuples(auctions: "DataFrame", bids: "DataFrame") -> "tuple[DataFrame, DataFrame]":
    """Return both streams without punctuations, which Spark has no use for."""
    left, right = (stream.where("not is_end").drop("is_end") for stream in (auctions, bids))
    return left, right.withColumnRenamed("auction", "bid_on")


def _with_watermark(files: AuctionFiles, auctions: "DataFrame", bids: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

    left, right = _tuples(auctions, bids)
    # The number of a bid is its time in milliseconds, as fine as a watermark is; an auction opens with its first bid.
    # What happens at time 0, where the watermark begins, would be late.
    opened, at = F.col("auction") * BIDS + 1, F.col("bid") + 1
    left = left.withColumn("opened", F.timestamp_millis(opened)).withWatermark("opened", "0 seconds")
    right = right.withColumn("at", F.timestamp_millis(at)).withWatermark("at", "0 seconds")
    longest = f"interval {files.longest_open_bids} milliseconds"
    return left.join(right, F.expr(f"auction = bid_on and at >= opened and at <= opened + {longest}"))


def _without_watermark(files: AuctionFiles, auctions: "DataFrame", bids: "DataFrame") -> "DataFrame":
    left, right = _tuples(auctions, bids)
    return left.join(right, left["auction"] == right["bid_on"])


_PLANS: "dict[str, tuple[str, Callable[[AuctionFiles, DataFrame, DataFrame], DataFrame]]]" = {
    "punctuated_join, RocksDB": (ROCKSDB, _ours),
    "Spark, watermark, RocksDB": (ROCKSDB, _with_watermark),
    "Spark, watermark, in memory": (_IN_MEMORY, _with_watermark),
    "Spark, no watermark, RocksDB": (ROCKSDB, _without_watermark),
}
"""State store and query of each plan; the last one forgets nothing."""
