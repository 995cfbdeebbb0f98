"""A query over rows with a marker, and a search for it on Spark's disk: ``python -m tests.runtime.spark.marked_rows``.

Arguments: a folder, and true or false for ``spark.io.encryption.enabled``. Writes ``answer.json``: new files with the
marker in ``spark.local.dir`` while the workers of a completion were alive, but for those of Spark's own state store.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from tests.runtime.spark.knowing_sink import CHANGELOG, PROVIDER, ROCKSDB
from tests.runtime.spark.sessions import quick_builder

__all__: list[str] = []

_MARKER = "a-text-of-the-master-rows"
_KEYS = 500


def _marked_files(local: Path) -> set[str]:
    found = set()
    for path in local.rglob("*"):
        if path.is_file() and not any(part.startswith("StateStoreId") for part in path.parts):
            content = path.read_bytes()
            if _MARKER.encode() in content:
                found.add(str(path.relative_to(local)))
    return found


def _search(spark: SparkSession, folder: Path, completion: str) -> dict[str, Any]:
    table = ss.open_table(folder / "master")
    stream = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=2000, numPartitions=2)
        .load()
        .selectExpr("value number", f"pmod(value, {_KEYS}) id")
    )
    options: dict[str, Any] = (
        # Pages that stay in the page cache are used there, and leave the cache empty.
        {"algorithm": "sweepjoin", "io": "drop_behind"}
        if completion == "batch"
        else {"algorithm": "ssbj", "completion": completion}
    )
    joined = ss.join(stream, table, on="id", memory="32MB", **options)
    before = _marked_files(folder / "local")
    found: set[str] = set()
    rows = 0

    def sink(batch_rows: DataFrame, batch: int) -> None:
        nonlocal rows
        rows += batch_rows.count()
        found.update(_marked_files(folder / "local") - before)

    query = joined.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / completion)).start()
    while len(query.recentProgress) < 4 and query.isActive:
        query.awaitTermination(1)
    error = query.exception()
    query.stop()
    return {"files": sorted(found), "rows": rows, "error": error and str(error)}


def main() -> None:
    folder, encrypts = Path(sys.argv[1]), sys.argv[2]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    ids = list(range(_KEYS))
    rows = pa.table({"id": ids, "label": [f"{_MARKER}-{key}" for key in ids]})
    ss.stage(rows, folder / "master", key="id", buckets=2, page_bytes="4KB")
    spark = (
        quick_builder(folder)
        .config("spark.driver.memory", "768m")
        .config("spark.io.encryption.enabled", encrypts)
        .config(PROVIDER, ROCKSDB)
        .config(CHANGELOG, "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    answer = {completion: _search(spark, folder, completion) for completion in ("batch", "staggered")}
    spark.stop()
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
