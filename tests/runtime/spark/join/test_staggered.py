"""Staggered completion on real Spark: rows wait in the state store, and each leaves once whatever happens."""

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import How
from semistream.storage import MasterTable
from tests.runtime.spark.join import staggered_driver
from tests.runtime.spark.join.staggered_cases import MASTER_ROWS, STREAM, expected, master, staged, stream_rows
from tests.runtime.spark.killed_driver import kill_driver, rows_written, write_batches
from tests.runtime.spark.knowing_sink import LONG_S, PROVIDER, ROCKSDB, KnowingSink

pytestmark = pytest.mark.usefixtures("rocksdb")


class Run:
    """A stream of files, joined."""

    def __init__(
        self, spark: SparkSession, folder: Path, table: MasterTable, how: How = "left", **options: Any
    ) -> None:
        self.spark, self.folder, self.table, self.how, self.options = spark, folder, table, how, options
        self.sink = KnowingSink()
        self.written: list[pa.RecordBatch] = []
        (folder / "in").mkdir(exist_ok=True)

    def write(self, rows: pa.RecordBatch) -> None:
        path = self.folder / "in" / f"{len(self.written):03d}.parquet"
        pq.write_table(pa.Table.from_batches([rows]), path.with_name(f".{path.name}"))
        os.utime(path.with_name(f".{path.name}"), (len(self.written), len(self.written)))
        path.with_name(f".{path.name}").rename(path)
        self.written.append(rows)

    def joined(self) -> DataFrame:
        stream = self.spark.readStream.schema("id bigint, n bigint").option("maxFilesPerTrigger", 1)
        return ss.join(
            stream.parquet(str(self.folder / "in")),
            self.table,
            on="id",
            how=self.how,
            completion="staggered",
            **{"algorithm": "cmeshjoin", "memory": "2MB", "b": 1, "cycle_batches": 3, **self.options},
        )

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self.joined().writeStream.foreachBatch(self.sink)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def run_to_end(self) -> StreamingQuery:
        query = self.start(availableNow=True)
        assert query.awaitTermination(LONG_S), "availableNow never ended"
        return query


def wait_for(query: StreamingQuery, condition: Any, what: str) -> None:
    for _ in range(LONG_S * 10):
        if condition():
            return
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))
        time.sleep(0.1)
    raise AssertionError(f"waited in vain for {what}")


def pending(query: StreamingQuery) -> int | None:
    metrics = ss.metrics(query)
    return None if metrics is None else metrics.pending


def _metrics(query: StreamingQuery) -> list[ss.JoinMetrics]:
    found = [ss.JoinMetrics.from_progress(progress) for progress in query.recentProgress]
    return [metrics for metrics in found if metrics is not None]


def hot_and_cold(seed: int) -> pa.RecordBatch:
    """Return a stream of which most rows have one of five keys."""
    chosen = random.Random(seed)
    ids = [chosen.randrange(5) if chosen.random() < 0.8 else chosen.randrange(MASTER_ROWS) for _ in range(400)]
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array([seed * 1000 + n for n in range(400)])], schema=STREAM)


@pytest.mark.slow  # a cache takes its time to learn; test_bucket_turn.py has the same without Spark
def test_hot_rows_leave_at_once_and_all_rows_in_the_end(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, staged(tmp_path / "table", "cmeshjoin"), cycle_batches=4)
    files = 11
    for seed in range(files):
        run.write(hot_and_cold(seed))
    query = run.run_to_end()
    assert run.sink.rows == expected(run.written, "left")
    assert pending(query) == 0
    # The last file's rows: hot ones in its own batch or the next, others while the pass goes on.
    late = Counter[int]()
    hot_late = Counter[int]()
    for batch, answers in run.sink.batches.items():
        for key, number, _ in answers:
            if number // 1000 >= files - 2:
                late[batch - number // 1000] += 1
                hot_late[batch - number // 1000] += key < 5
    assert sum(hot_late.values()) == hot_late[0] + hot_late[1]
    assert max(late) >= 3
    counted = _metrics(query)
    assert sum(metrics.tuples_in for metrics in counted) == files * 400
    assert sum(metrics.hits for metrics in counted) > 400
    assert all(metrics.memory_bytes <= metrics.budget_bytes <= 1_000_000 for metrics in counted if metrics.tuples_in)


@pytest.mark.slow  # the next test goes on without new rows too
def test_a_silent_stream_drains_then_rests_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, staged(tmp_path / "table", "ssbj"), "anti", algorithm="ssbj")
    run.write(stream_rows(300, 1))
    query = run.start()
    try:
        wait_for(query, lambda: run.sink.rows == expected(run.written, "anti"), "the rows of a silent stream")
        wait_for(query, lambda: pending(query) == 0, "nothing pending")
        batches = max(run.sink.batches)
        time.sleep(1.0)
        assert max(run.sink.batches) <= batches + 1, "batches go on with nothing to do"
        run.write(stream_rows(300, 2))
        wait_for(query, lambda: run.sink.rows == expected(run.written, "anti"), "the rows after a pause")
    finally:
        query.stop()


def test_a_restart_in_the_middle_of_a_pass_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = staged(tmp_path / "table", "cmeshjoin")
    run = Run(spark, tmp_path, table, cycle_batches=30)
    for seed in range(2):
        run.write(stream_rows(300, seed))
    query = run.start()
    wait_for(query, lambda: len(run.sink.batches) >= 3, "three batches")
    query.stop()
    old = expected(run.written, "left")
    assert sum(run.sink.rows.values()) < sum(old.values()), "nothing was pending: the test shows too little"
    # What waits keeps its version, what comes later gets the new one, and other settings hold from then on.
    table.replace(master(tag="town"))
    new = stream_rows(300, 7)
    run.write(new)
    run.options = {"cycle_batches": 2, "memory": "3MB"}
    run.run_to_end()
    assert run.sink.rows == old + expected([new], "left", "town")


def test_a_replayed_batch_lets_the_same_rows_out(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, staged(tmp_path / "table", "chybridjoin"), algorithm="chybridjoin", cycle_batches=4)
    for seed in range(2):
        run.write(stream_rows(300, seed))
    run.sink.fails_once_at = 1
    with pytest.raises(StreamingQueryException, match="the sink fails after it has written"):
        run.start(availableNow=True).awaitTermination(LONG_S)
    run.options["memory"] = "4MB"  # the batch goes by the settings that it began with
    run.run_to_end()
    assert run.sink.replayed == [1]
    assert run.sink.rows == expected(run.written, "left")


def test_a_checkpoint_of_another_join_is_refused_and_marks_can_be_kept_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, staged(tmp_path / "table", "cmeshjoin"), pins=tmp_path / "pins")
    run.write(stream_rows(200, 1))
    query = run.run_to_end()
    assert run.sink.rows == expected(run.written, "left")
    assert len([batch for batch in run.sink.batches.values() if batch]) > 1, "no row has waited"
    assert pending(query) == 0
    counted = _metrics(query)
    assert sum(metrics.tuples_in for metrics in counted) == sum(metrics.tuples_answered for metrics in counted) == 200
    assert all(metrics.memory_bytes <= metrics.budget_bytes <= 1_000_000 for metrics in counted if metrics.tuples_in)
    assert list((tmp_path / "pins").rglob(".known"))
    assert not list((tmp_path / "table").glob("_pending"))
    run.write(stream_rows(50, 2))
    run.how = "semi"
    with pytest.raises(StreamingQueryException, match=r"how 'left', this one has 'semi': .*checkpointLocation"):
        run.run_to_end()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": "stream"}, "order='stream' is not for completion='staggered'"),
        ({"shedding": "random"}, "shedding='random' is not for completion='staggered'"),
        ({"cycle_batches": 0}, "cycle_batches=0"),
        ({"exchange": "none"}, "exchange='none' is not for completion='staggered'"),
    ],
)
def test_what_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path, change: Any, message: str) -> None:
    run = Run(spark, tmp_path, staged(tmp_path / "table", "cmeshjoin"), **change)
    with pytest.raises(InvalidArgument, match=message):
        run.joined()


@pytest.mark.parametrize("algorithm", ["sweepjoin", "cinlj", "inlj"])
def test_algorithms_whose_rows_never_wait_are_refused(spark: SparkSession, tmp_path: Path, algorithm: str) -> None:
    table = ss.stage(master(), tmp_path / "table", key="id", page_bytes=1024, buckets=2)
    stream = spark.readStream.schema("id bigint, n bigint").parquet(str(tmp_path))
    with pytest.raises(InvalidArgument, match=f"{algorithm} answers every row in its own: use completion='batch'"):
        ss.join(stream, table, on="id", algorithm=algorithm, memory="4MB", completion="staggered")


def test_a_budget_that_is_told_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    table = staged(tmp_path / "table", "cmeshjoin")
    stream = spark.readStream.schema("id bigint, n bigint").parquet(str(tmp_path))

    def join(memory: int) -> None:
        ss.join(stream, table, on="id", algorithm="cmeshjoin", memory=memory, completion="staggered", b=1)

    with pytest.raises(
        BudgetTooSmall, match=r"which 2 tasks .* leaves each 10000 bytes, .* give at least \d+ bytes"
    ) as caught:
        join(20_000)
    told = int(str(caught.value).split("give at least ")[1].split()[0])
    join(told)
    with pytest.raises(BudgetTooSmall):
        join(told * 8 // 10)


def test_sessions_that_do_not_fit_are_told(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, staged(tmp_path / "table", "cmeshjoin", buckets=1))
    with pytest.warns(UserWarning, match=r"shuffle\.partitions is 2, the table has 1 buckets"):
        run.joined()
    spark.conf.unset(PROVIDER)
    with pytest.raises(InvalidArgument, match=r"needs the state store RocksDB.*spark\.conf\.set\('spark\.sql\.str"):
        run.joined()
    spark.conf.set(PROVIDER, ROCKSDB)
    with pytest.raises(InvalidArgument, match="needs a streaming DataFrame"):
        ss.join(spark.range(3), run.table, on="id", completion="staggered")


def test_a_killed_driver_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    staged(tmp_path / "table", "ssbj")
    (tmp_path / "in").mkdir()
    batches = [stream_rows(300, number) for number in range(6)]
    for number, rows in enumerate(batches):
        pq.write_table(pa.Table.from_batches([rows]), tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (number, number))
    kill_driver("join/staggered_driver.py", tmp_path)
    assert rows_written(tmp_path) < expected(batches)
    write_batches(staggered_driver.joined(spark, tmp_path), tmp_path)
    assert rows_written(tmp_path) == expected(batches)
