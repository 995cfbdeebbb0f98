"""The rows that Spark gets, as files of rows of fixed width: nothing that Flink reads is faster."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semistream.bench.measurements.peers.stores.packed_rows import PackedRows
from semistream.bench.measurements.spark.feed import FileFeed
from semistream.bench.measurements.spark.tables import MasterForms
from semistream.workloads import MASTER_SCHEMA

__all__ = ["matched_rows", "product_rows", "sale_rows"]

_KEY_BYTES = 8


def product_rows(master: MasterForms) -> Path:
    """Return the folder of the table's rows, with a file for each of Parquet."""
    folder = master.folder / "raw-rows"
    if not folder.exists():
        master.report(f"writing {master.rows:,} rows for Flink")
        form = PackedRows(MASTER_SCHEMA)
        files = [pq.ParquetFile(path) for path in sorted(master.parquet.glob("*.parquet"))]
        _write(folder, ((form.pack(batch).tobytes() for batch in file.iter_batches()) for file in files))
    return folder


def sale_rows(feed: FileFeed, batches: int, parts: int) -> Path:
    """Return the folder of the first batches of a feed, each in so many files."""
    folder = feed.folder / f"raw-rows-of-{batches}-batches"
    if not folder.exists():
        chunks = (_parts(feed.batch(number), parts) for number in range(batches))
        _write(folder, ([content] for batch in chunks for content in batch))
    return folder


def matched_rows(folder: Path, table_rows: int, row_bytes: int) -> int:
    """Return the number of sales that have a row in the table; its keys are 0 to ``table_rows - 1``."""
    total = 0
    for path in folder.iterdir():
        rows = np.fromfile(path, dtype=np.uint8).reshape(-1, row_bytes)
        keys = np.ascontiguousarray(rows[:, :_KEY_BYTES]).view(np.int64)
        total += int((keys < table_rows).sum())
    return total


def _parts(batch: pa.RecordBatch, parts: int) -> list[bytes]:
    rows = PackedRows(batch.schema).pack(batch)
    return [part.tobytes() for part in np.array_split(rows, parts)]


def _write(folder: Path, files: Iterable[Iterable[bytes]]) -> None:
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for number, chunks in enumerate(files):
        with (unfinished / f"{number:06d}").open("wb") as file:
            file.writelines(chunks)
    os.replace(unfinished, folder)
