"""Stages through Spark Connect; run by a test in a process of its own, because classic Spark does not go with it."""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semistream as ss
from semistream.core.errors import SchemaMismatch
from semistream.runtime.spark.buckets import bucket_column


def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on, and fail at the end of a task's first attempt."""
    from pyspark import TaskContext

    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise ValueError("the first attempt fails")


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2,2]").getOrCreate()
    assert type(spark.range(1)).__module__.startswith("pyspark.sql.connect")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
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
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
