"""A program that joins two streams of files and ends; to be killed while it runs."""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.spark.punctuated_cases import PunctuatedFiles


def main(folder: Path, how: str, memory: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )

    def write(rows: DataFrame, batch: int) -> None:
        path = folder / "out" / f"{batch}.json"
        collected = [list(row) for row in rows.collect()]  # a replayed batch too: its state is committed by reading it
        if path.exists():
            before = json.loads(path.read_text())
            order = [sorted(map(repr, some)) for some in (before, collected)]
            assert order[0] == order[1], f"batch {batch} let other rows out when it was replayed"
        else:
            unfinished = folder / f"{batch}.unfinished"
            unfinished.write_text(json.dumps(collected))
            unfinished.rename(path)

    joined = PunctuatedFiles(folder / "in").join(spark, how, memory=memory)
    writer = joined.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
