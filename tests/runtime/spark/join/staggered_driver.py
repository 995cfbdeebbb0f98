"""A program that joins all files of a folder and ends; to be killed while it runs."""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from tests.runtime.spark.killed_driver import rocksdb_session, write_batches


def joined(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the join of what lies in the folder."""
    stream = spark.readStream.schema("id bigint, n bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return ss.join(
        stream,
        folder / "table",
        on="id",
        algorithm="ssbj",
        memory="2MB",
        completion="staggered",
        cycle_batches=4,
        b=1,
    )


if __name__ == "__main__":
    here = Path(sys.argv[1])
    write_batches(joined(rocksdb_session(here), here), here)
