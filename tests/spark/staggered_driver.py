"""A program that joins all files of a folder and ends; to be killed while it runs."""

import sys
from pathlib import Path

import semistream as ss
from tests.spark.killed_driver import rocksdb_session, written_batches


def main(folder: Path) -> None:
    spark = rocksdb_session(folder)
    stream = spark.readStream.schema("id bigint, n bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    joined = ss.join(
        stream,
        folder / "table",
        on="id",
        algorithm="ssbj",
        memory="2MB",
        completion="staggered",
        cycle_batches=4,
        b=1,
    )
    written_batches(joined, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
