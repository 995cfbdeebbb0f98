"""A program that joins two streams of files and ends; to be killed while it runs."""

import sys
from pathlib import Path

from tests.runtime.spark.killed_driver import rocksdb_session, write_batches
from tests.runtime.spark.punctuated.punctuated_cases import PunctuatedFiles


def main(folder: Path, how: str, memory: str) -> None:
    spark = rocksdb_session(folder)
    write_batches(PunctuatedFiles(folder / "in").join(spark, how, memory=memory), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
