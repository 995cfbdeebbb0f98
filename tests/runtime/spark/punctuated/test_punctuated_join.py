"""Two streams on real Spark: the join is that of all rows, and state goes when punctuations say so."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semistream as ss
from semistream.core.errors import (
    BudgetTooSmall,
    InvalidArgument,
    KeyTypeMismatch,
    SchemaMismatch,
    UnknownColumn,
    UnsupportedType,
)
from tests.runtime.spark.killed_driver import kill_driver, rows_written, write_batches
from tests.runtime.spark.knowing_sink import LONG_S, PROVIDER, KnowingSink
from tests.runtime.spark.punctuated.punctuated_cases import LEFT_COLUMNS, PunctuatedFiles, Row

pytestmark = pytest.mark.usefixtures("rocksdb")


def run(joined: DataFrame, folder: Path, sink: KnowingSink) -> list[ss.StreamJoinMetrics]:
    writer = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(LONG_S), "availableNow never ended"
    found = [ss.StreamJoinMetrics.from_progress(progress) for progress in query.recentProgress]
    return [metrics for metrics in found if metrics is not None]


@pytest.mark.parametrize("how", [pytest.param("inner", marks=pytest.mark.slow), "left"])
def test_rows_are_those_of_the_batch_join_and_state_stays_small(spark: SparkSession, tmp_path: Path, how: str) -> None:
    files, sink = PunctuatedFiles(tmp_path), KnowingSink()
    for _ in range(3):
        files.write(seed=1)
    counted = run(files.join(spark, how), tmp_path, sink)
    assert sink.rows == files.joined(how)
    assert sum(metrics.rows_out for metrics in counted) == sum(sink.rows.values())
    assert [metrics.left_in for metrics in counted] == [150] * 3
    assert counted[-1].rows_held == files.open_tuples()
    assert counted[-1].memory_bytes <= counted[-1].budget_bytes
    # Restarted with other settings that may change, and more data.
    files.write(seed=2)
    counted = run(files.join(spark, how, memory="9MB", goal="memory"), tmp_path, sink)
    assert sink.rows == files.joined(how)
    assert counted[-1].rows_held == files.open_tuples()
    # Another join does not go on with the checkpoint.
    files.write(seed=4)
    with pytest.raises(StreamingQueryException, match=r"the checkpoint is of a join with buckets 3, this one has 4"):
        run(files.join(spark, how, buckets=4), tmp_path, sink)


@pytest.mark.slow
def test_state_beyond_the_memory_is_worked_on_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    files, sink = PunctuatedFiles(tmp_path, window=3000, step=300, rows=3000), KnowingSink()
    for _ in range(3):
        files.write(seed=3)
    sink.fails_once_at = 1
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(files.join(spark, "left", memory="700KB"), tmp_path, sink)
    counted = run(files.join(spark, "left", memory="1MB"), tmp_path, sink)
    assert sink.replayed == [1]
    assert sink.rows == files.joined("left")
    assert counted[-1].rows_held == files.open_tuples() > 10_000
    assert counted[-1].memory_bytes <= counted[-1].budget_bytes
    assert counted[-1].state_bytes > 10 * counted[-1].budget_bytes // 8


def test_ranges_orders_and_expressions(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Row] = [(key, key, False) for key in range(40)]
    files, sink = PunctuatedFiles(tmp_path), KnowingSink()
    files.write_rows("left", rows)
    files.write_rows("right", [(key, key, False) for key in range(0, 30, 3)])
    left = spark.readStream.schema(LEFT_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "left"))
    right = spark.readStream.schema("id bigint, m bigint, is_end boolean").option("maxFilesPerTrigger", 1)
    right_rows = right.parquet(str(tmp_path / "right")).withColumnRenamed("id", "ref")
    upto = ss.PunctuatedRows(F.col("m") == -1, high=F.col("ref"))
    joined = ss.punctuated_join(
        left.drop("is_end").withColumn("n", F.col("n").cast("int")),
        right_rows.drop("is_end"),
        {"id": "ref"},
        "left",
        punctuations={"right": upto},
        left_arrival="ascending",
        memory="8MB",
        buckets=3,
    )
    assert joined.columns == ["id", "n", "ref", "m"]
    assert [field.dataType.simpleString() for field in joined.schema] == ["bigint", "int", "bigint", "bigint"]
    run(joined, tmp_path, sink)
    matches = Counter({(key, key, key, key): 1 for key in range(0, 30, 3)})
    assert sink.rows == matches
    files.write_rows("right", [(19, -1, False)])  # no more key up to 19
    counted = run(joined, tmp_path, sink)
    alone = {(key, key, None, None): 1 for key in range(20) if key % 3}
    assert sink.rows == matches + Counter(alone)
    # All buckets know that 39 is the last key of the left stream: right tuples before it are forgotten.
    assert counted[-1].counters["right_held"] == 0
    assert counted[-1].rows_held == sum(key >= 20 for key in range(40))


def test_punctuations_alone_let_rows_of_a_large_state_leave(spark: SparkSession, tmp_path: Path) -> None:
    files, sink = PunctuatedFiles(tmp_path), KnowingSink()
    files.write_rows("left", [(key, key, False) for key in range(12_000)])
    files.write_rows("right", [(20_000, 1, False)])
    files.write_rows("right", [(key, None, True) for key in range(12_000)])
    counted = run(files.join(spark, "left", memory="700KB"), tmp_path, sink)
    assert [metrics.rows_out for metrics in counted] == [0, 12_000]
    assert [metrics.rows_held for metrics in counted] == [12_001, 1]


def test_a_contradicting_tuple_stops_the_query_or_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    files, sink = PunctuatedFiles(tmp_path), KnowingSink()
    files.write_rows("left", [(1, 10, False), (2, 20, False), (1, None, True)])
    files.write_rows("right", [(1, 11, False)])
    files.write_rows("left", [(1, 99, False), (2, 21, False)])
    with pytest.raises(StreamingQueryException, match=r"a tuple with id=1 came after a punctuation that excludes it"):
        run(files.join(spark), tmp_path, sink)
    aside = tmp_path / "aside"
    counted = run(files.join(spark, contradiction="aside", aside=aside), tmp_path, sink)
    assert sink.rows == Counter({(1, 10, 11): 1})
    assert counted[-1].contradicting == 1
    [file] = (aside / "left").iterdir()
    assert pq.read_table(file).to_pylist() == [{"id": 1, "n": 99}]


@pytest.mark.slow  # a query that fails takes its Python workers along
def test_bad_punctuations_are_told(spark: SparkSession, tmp_path: Path) -> None:
    files, sink = PunctuatedFiles(tmp_path), KnowingSink()
    files.write_rows("left", [(7, 3, True)])
    files.write_rows("right", [])
    between = ss.PunctuatedRows("is_end", low="id", high="n")
    with pytest.raises(StreamingQueryException, match=r"a punctuation excludes keys from 7 to 3"):
        run(files.join(spark, punctuations={"left": between}), tmp_path, sink)
    files.write_rows("left", [(None, 3, True)])
    with pytest.raises(StreamingQueryException, match=r"a punctuation row has NULL in 'id'"):
        run(files.join(spark), tmp_path / "other", sink)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on": "nothing"}, UnknownColumn, "the left stream has no column 'nothing'"),
        ({"how": "full"}, InvalidArgument, "how='full' is unknown for two streams"),
        ({"punctuations": "is_end"}, InvalidArgument, "punctuations='is_end' must say which rows"),
        ({"punctuations": {"both": "is_end"}}, InvalidArgument, "must say which rows of 'left', 'right'"),
        ({"punctuations": {"left": "ended"}}, UnknownColumn, "the left stream has no column 'ended'"),
        ({"punctuations": {"left": "n"}}, InvalidArgument, "must be a boolean column"),
        ({"punctuations": {"left": 5}}, InvalidArgument, "when=5 of punctuations must be a column's name"),
        ({"left_arrival": "clustered"}, InvalidArgument, "where a micro-batch has no order"),
        ({"relation": "some-to-many"}, InvalidArgument, "relation='some-to-many' is unknown"),
        ({"goal": "speed"}, InvalidArgument, "goal='speed' is unknown"),
        ({"contradiction": "aside"}, InvalidArgument, "go together"),
        ({"buckets": 0}, InvalidArgument, "buckets=0"),
        ({"memory": "10KB"}, BudgetTooSmall, "give at least"),
    ],
)
def test_bad_arguments(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    PunctuatedFiles(tmp_path)
    left, right = (
        spark.readStream.schema(f"id bigint, {name} bigint, is_end boolean").parquet(str(tmp_path / side))
        for side, name in (("left", "n"), ("right", "m"))
    )
    given: dict[str, Any] = {"on": "id", "punctuations": {"left": "is_end", "right": "is_end"}, **arguments}
    with pytest.raises(error, match=message):
        ss.punctuated_join(left, right, **given)


def test_streams_that_do_not_fit_are_told(spark: SparkSession, tmp_path: Path) -> None:
    PunctuatedFiles(tmp_path)
    stream = spark.readStream.schema("id bigint, name string").parquet(str(tmp_path / "left"))
    with pytest.raises(InvalidArgument, match="right is a batch DataFrame"):
        ss.punctuated_join(stream, spark.range(3), "id")
    with pytest.raises(InvalidArgument, match="left is a list"):
        ss.punctuated_join([], stream, "id")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedType, match="'name' has type string"):
        ss.punctuated_join(stream, stream, "name")
    with pytest.raises(SchemaMismatch, match="column 'name' is in both streams"):
        ss.punctuated_join(stream, stream, "id")
    lossy = ss.PunctuatedRows(F.col("id") > 0, high=F.col("id") + 0.5)
    with pytest.raises(KeyTypeMismatch, match=r"high of the punctuations of the left stream has type double, its key"):
        ss.punctuated_join(stream, stream.withColumnRenamed("name", "other"), "id", punctuations={"left": lossy})
    spark.conf.unset(PROVIDER)
    with pytest.raises(InvalidArgument, match="punctuated_join needs the state store RocksDB"):
        ss.punctuated_join(stream, stream.withColumnRenamed("name", "other"), "id")


@pytest.mark.slow
def test_a_killed_driver_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    files = PunctuatedFiles(tmp_path / "in", window=2000, step=400, rows=4000)
    for _ in range(6):
        files.write(seed=6)
    # A part of the state is on disk.
    kill_driver("punctuated/punctuated_driver.py", tmp_path, "left", "1MB")
    assert rows_written(tmp_path) < files.joined("left")
    write_batches(files.join(spark, "left", memory="1MB"), tmp_path)
    assert rows_written(tmp_path) == files.joined("left")
