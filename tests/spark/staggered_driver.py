"""A program that joins all files of a folder and ends; to be killed while it runs."""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import semistream as ss


def main(folder: Path) -> None:
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

    def write(rows: DataFrame, batch: int) -> None:
        path = folder / "out" / f"{batch}.json"
        collected = [list(row) for row in rows.collect()]  # a replayed batch too: its state is committed by reading it
        if not path.exists():
            unfinished = folder / f"{batch}.unfinished"
            unfinished.write_text(json.dumps(collected))
            unfinished.rename(path)

    writer = joined.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
