"""The generators as Spark data sources, on real Spark."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from semistream.workloads import Bursts, Sales, master_table

SALES = "semistream-sales"
PRODUCTS = "semistream-products"
LIKE_EXPECTED: dict[str, Any] = {"keyDomain": 500, "seed": 3, "burstiness": 0.6, "missingShare": 0.1, "rate": 2000}


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    ss.register_sources(spark)


def expected_sales(rows: int) -> pa.Table:
    arrivals = Bursts(2000, burstiness=0.6, period_s=60, seed=3)
    start_us = 1_767_225_600_000_000
    sales = Sales(arrivals, key_domain=500, missing_share=0.1, start_us=start_us, seed=3)
    return pa.Table.from_batches([sales.part(0, rows)])


def by_sale(frame: DataFrame) -> pa.Table:
    rows: pa.Table = frame.toArrow()
    ordered: pa.Table = rows.sort_by("sale").combine_chunks()
    return ordered


def run_to_files(stream: DataFrame, folder: Path, **trigger: Any) -> StreamingQuery:
    return (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_a_batch_has_the_same_rows_for_any_partitions(spark: SparkSession, partitions: int) -> None:
    frame = spark.read.format(SALES).options(rows=40_001, partitions=partitions, **LIKE_EXPECTED).load()
    assert frame.rdd.getNumPartitions() == partitions
    assert by_sale(frame).equals(expected_sales(40_001))


@pytest.mark.parametrize(
    ("rows_per_batch", "partitions", "pacing"),
    [pytest.param(3000, 1, "none", marks=pytest.mark.slow), (6000, 3, "clock")],
)
def test_available_now_ends_with_the_same_rows(
    spark: SparkSession, tmp_path: Path, rows_per_batch: int, partitions: int, pacing: str
) -> None:
    options: dict[str, Any] = {
        "rows": 10_000,
        "rowsPerBatch": rows_per_batch,
        "partitions": partitions,
        "pacing": pacing,
    }
    stream = spark.readStream.format(SALES).options(**options, **LIKE_EXPECTED).load()
    query = run_to_files(stream, tmp_path, availableNow=True)
    assert query.awaitTermination(120)
    batch_rows = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    whole, rest = divmod(10_000, rows_per_batch)
    assert batch_rows == [rows_per_batch] * whole + [rest] * (rest > 0)
    assert by_sale(spark.read.parquet(str(tmp_path / "out"))).equals(expected_sales(10_000))


def test_a_stream_that_is_stopped_in_the_middle_goes_on_with_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    def read(partitions: int, rows_per_batch: int) -> DataFrame:
        options: dict[str, Any] = {"rows": 20_000, "rowsPerBatch": rows_per_batch, "partitions": partitions}
        options["pacing"] = "none"
        return spark.readStream.format(SALES).options(**options, **LIKE_EXPECTED).load()

    query = run_to_files(read(2, 500), tmp_path, processingTime="0 seconds")
    while not (query.lastProgress and query.lastProgress.batchId >= 2):
        assert query.exception() is None
        time.sleep(0.05)
    query.stop()
    begun = spark.read.parquet(str(tmp_path / "out")).count()
    assert 0 < begun < 20_000
    # A batch that is in the offset log but not in the commit log is run again.
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (tmp_path / "checkpoint" / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    again = run_to_files(read(3, 7000), tmp_path, availableNow=True)
    assert again.awaitTermination(120)
    assert by_sale(spark.read.parquet(str(tmp_path / "out"))).equals(expected_sales(20_000))


def test_a_replayed_batch_gives_the_rows_it_gave_before(spark: SparkSession, tmp_path: Path) -> None:
    seen: dict[int, list[pa.Table]] = {}

    def keep(frame: DataFrame, batch_id: int) -> None:
        seen.setdefault(batch_id, []).append(by_sale(frame))
        if batch_id == 2 and len(seen[2]) == 1:
            raise RuntimeError("the sink fails once")

    def start() -> StreamingQuery:
        # By the clock: how many rows a batch has cannot be known again, only read from the offset log.
        stream = spark.readStream.format(SALES).options(**LIKE_EXPECTED, rows=4000).load()
        options = {"checkpointLocation": str(tmp_path / "checkpoint")}
        return stream.writeStream.options(**options).foreachBatch(keep).start()

    with pytest.raises(Exception, match="the sink fails once"):
        start().awaitTermination(120)
    query = start()
    query.processAllAvailable()
    query.stop()
    assert seen[2][0].num_rows > 0
    assert seen[2][1].equals(seen[2][0])
    read = pa.concat_tables(runs[-1] for _, runs in sorted(seen.items())).combine_chunks()
    assert read.equals(expected_sales(read.num_rows))


def test_rows_appear_as_time_passes(spark: SparkSession) -> None:
    stream = spark.readStream.format(SALES).options(rate=1000, rows=3000, partitions=1).load()
    began_s = time.monotonic()
    query = stream.writeStream.format("noop").trigger(processingTime="500 milliseconds").start()
    try:
        while sum(progress.numInputRows for progress in query.recentProgress) < 3000:
            assert query.exception() is None
            time.sleep(0.1)
    finally:
        query.stop()
    # By the clock rows may come late, but never early.
    assert time.monotonic() - began_s >= 3.0
    assert query.recentProgress[0].numInputRows < 3000


def test_products_are_the_master_table_for_any_partitions(spark: SparkSession) -> None:
    table = master_table(30_000, seed=5, rows_per_key=3).read_all()
    for partitions in (1, 5):
        options = {"rows": 30_000, "seed": 5, "rowsPerKey": 3, "partitions": partitions}
        rows = spark.read.format(PRODUCTS).options(**options).load().toArrow().combine_chunks()
        assert rows.cast(table.schema).equals(table.combine_chunks())


def test_sales_find_their_products(spark: SparkSession) -> None:
    sales = spark.read.format(SALES).options(rows=5000, keyDomain=2000, missingShare=0.2).load()
    products = spark.read.format(PRODUCTS).options(rows=2000).load()
    matched = sales.join(products, "key").count()
    assert matched == sales.where("key < 2000").count()
    assert 0 < matched < 5000


@pytest.mark.parametrize(
    ("source", "option", "value"),
    [(SALES, "rate", "fast"), (SALES, "burstiness", "1"), (PRODUCTS, "keyOrder", "odd")],
)
def test_a_wrong_option_is_told_when_the_source_is_loaded(
    spark: SparkSession, source: str, option: str, value: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.read.format(source).option(option, value).load()
    told = [line for line in str(raised.value).splitlines() if f"option {option}='{value}' of {source}" in line]
    assert len(told) == 1


def test_what_cannot_be_read_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="has no option 'speed': use some of rate, pacing"):
        spark.read.format(SALES).option("speed", 1).load()
    with pytest.raises(Exception, match="needs the option rows in a batch query"):
        spark.read.format(SALES).load().count()
    with pytest.raises(Exception, match=r"leave out \.schema"):
        spark.read.format(SALES).schema("key STRING").option("rows", 1).load().count()
    endless = spark.readStream.format(SALES).load()
    with pytest.raises(Exception, match="never ends: give the option rows"):
        run_to_files(endless, tmp_path, availableNow=True).awaitTermination(120)
