"""A stream of files: the rows of one micro-batch at a time are put where Spark's file source finds them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from semistream.bench.measurements.spark.session import SparkSettings
from semistream.workloads import Bursts, Sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FileFeed", "StreamPart", "sales_feed"]

StreamPart = Callable[[int, int], pa.RecordBatch]
"""Returns so many rows of a stream, from the row of this number on."""

_COLUMNS = ["key", "sale", "quantity"]  # 20 bytes


class FileFeed:
    """Gives a query its rows batch by batch, so that a batch has the same rows in every plan.

    Another ``first`` row gives other rows of the same stream. ``parts`` are the files of a batch, each for one task.
    """

    def __init__(self, folder: Path, part: StreamPart, batch_rows: int, parts: int, first: int) -> None:
        self.folder = folder
        self.batch_rows = batch_rows
        self.first = first
        self._made = self.folder / "made"
        self._made.mkdir(parents=True, exist_ok=True)
        self._watched = self.folder / "watched"
        self._part = part
        self._parts = parts
        self.rewind()

    def batch(self, number: int) -> pa.RecordBatch:
        """Return the rows of a batch, for another reader than Spark."""
        return self._part(self.first + number * self.batch_rows, self.batch_rows)

    def rewind(self) -> None:
        """Begin again with the first batch, for another query."""
        shutil.rmtree(self._watched, ignore_errors=True)
        self._watched.mkdir()
        self._next = 0

    def add_batch(self) -> None:
        """Put the next batch into the folder that the query watches."""
        part_rows = -(-self.batch_rows // self._parts)
        paths = [self._made / f"{self._next:06d}-{part}.parquet" for part in range(self._parts)]
        if not all(path.exists() for path in paths):
            first = self.first + self._next * self.batch_rows
            for part, path in enumerate(paths):
                rows = min(part_rows, self.batch_rows - part * part_rows)
                batch = self._part(first + part * part_rows, rows)
                unfinished = path.with_suffix(".tmp")
                pq.write_table(pa.Table.from_batches([batch]), unfinished, compression="none")
                unfinished.rename(path)
        for path in paths:
            os.link(path, self._watched / path.name)
        self._next += 1

    def add_batches(self, count: int) -> None:
        """Put the first ``count`` batches there at once, for a query that reads them one by one."""
        self.rewind()
        for _ in range(count):
            self.add_batch()

    def keys(self) -> npt.NDArray[np.int64]:
        """Return the keys of all sales that a query finds."""
        tables = [pq.read_table(path, columns=["key"]) for path in sorted(self._watched.iterdir())]
        return np.asarray(pa.concat_tables(tables)["key"], dtype=np.int64)

    def source(self, spark: "SparkSession", *, one_by_one: bool = False) -> "DataFrame":
        """Return the stream; a micro-batch reads all that is there, or one batch of the feed."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema: Any = from_arrow_schema(self._part(self.first, 1).schema)
        reader = spark.readStream.schema(schema)
        if one_by_one:
            reader = reader.option("maxFilesPerTrigger", self._parts)
        return reader.parquet(str(self._watched))


def sales_feed(
    data_dir: Path,
    settings: SparkSettings,
    rows: int,
    batch_rows: int,
    seed: int,
    first: int,
    missing_share: float = 0.0,
) -> FileFeed:
    """Return sales of the products in a table of ``rows`` rows; another ``first`` sale has the same hot keys."""
    missing = f"-missing-{missing_share:g}" if missing_share else ""
    stream = f"{rows}-rows-batches-of-{batch_rows}-skew-{settings.skew:g}{missing}-seed-{seed}-from-{first}"
    sales = Sales(Bursts(1000), key_domain=rows, zipf_exponent=settings.skew, missing_share=missing_share, seed=seed)
    return FileFeed(
        data_dir / f"spark-stream-{stream}",
        lambda start, count: sales.part(start, count).select(_COLUMNS),
        batch_rows,
        settings.cores,
        first,
    )
