"""Stages and joins through Spark Connect; run by a test in a process of its own: a session is classic or Connect."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semistream as ss
from semistream.core.errors import SchemaMismatch
from semistream.runtime.spark.buckets import bucket_column
from tests.runtime.spark.join.joins import customers


def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on, and fail at the end of a task's first attempt."""
    from pyspark import TaskContext

    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise ValueError("the first attempt fails")


def stage(spark: SparkSession, folder: str) -> None:
    """Stage DataFrames, and append to them."""
    rows = spark.range(300).selectExpr("id", "if(id % 9 = 0, null, concat('key ', id % 40)) k")
    table = ss.stage(rows, f"{folder}/text", key="k", buckets=3, page_bytes="2KB")
    table = table.append(rows.mapInArrow(fail_once, rows.schema))
    try:
        table.append(rows.selectExpr("if(id = 5, null, id) id", "k"))
    except SchemaMismatch as error:
        print("refused:", error)
    bucket = bucket_column([F.col("k")], table)
    assert bucket is not None
    counts = {row[0]: row[1] for row in rows.groupBy(bucket).count().collect()}
    print("buckets:", sorted(counts.items()))
    wide = rows.selectExpr("cast(id as decimal(38, 3)) d", "k")
    ss.stage(wide, f"{folder}/wide", key="d", buckets=2)


def join(spark: SparkSession, folder: str) -> None:
    """Join orders with the tables that the test has staged, as a batch and as a stream."""
    source = spark.read.parquet(f"{folder}/orders")
    master = spark.createDataFrame(customers().select(["custkey", "name"]))
    theirs = Counter((row["order"], row["name"]) for row in source.join(master, "custkey", "left").collect())
    for layout, exchange in (("heap", "bucket"), ("clustered", "none")):
        table = f"{folder}/customers-{layout}"
        joined = ss.join(source, table, "custkey", "left", columns=["name"], exchange=exchange, memory="48MB")
        ours = Counter((row["order"], row["name"]) for row in joined.collect())
        assert ours == theirs, (layout, exchange)
        metrics = ss.metrics(joined)
        assert metrics is not None
        assert metrics.tuples_in == 300, metrics
    stream = spark.readStream.schema(source.schema).option("maxFilesPerTrigger", 2).parquet(f"{folder}/orders")
    joined = stream.transform(ss.enrich(table, "custkey", "left", memory="48MB"))
    query = (
        joined.writeStream.format("parquet")
        .option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.read.parquet(f"{folder}/out").count() == sum(theirs.values())
    counted = [found for p in query.recentProgress if (found := ss.JoinMetrics.from_progress(p))]
    assert sum(metrics.tuples_in for metrics in counted) == 300, query.recentProgress
    assert {metrics.version for metrics in counted} == {1}
    assert len(list(Path(table).glob(f"_pins/{query.id}/*"))) == 2
    print("joined in", len(counted), "batches")


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2,2]").getOrCreate()
    assert type(spark.range(1)).__module__.startswith("pyspark.sql.connect")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    stage(spark, folder)
    join(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
