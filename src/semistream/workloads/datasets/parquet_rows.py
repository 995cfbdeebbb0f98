"""The rows of a Parquet file, read batch by batch: once, or without end."""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semistream.core.errors import EmptyTable, MissingData
from semistream.workloads.draws.splitmix import SplitMix

__all__ = ["ParquetRows", "ShapeRows"]

_BATCH_ROWS = 16_384

ShapeRows = Callable[[pa.Table], pa.Table]
"""Renames, casts or computes columns; sees any part of the rows, and leaves none out."""


class ParquetRows:
    """Rows of a file in its order, in the shape that a workload wants.

    Parameters
    ----------
    path
        Path of the file.
    remedy
        What to do about a missing file; ends the message of `MissingData`.
    where
        Selects rows; all by default.
    shape
        Transforms rows; as they are by default.
    """

    def __init__(
        self,
        path: Path,
        *,
        remedy: str,
        where: pc.Expression | None = None,
        shape: ShapeRows = lambda rows: rows,
    ) -> None:
        if not path.is_file():
            raise MissingData(f"there is no {path}: {remedy}")
        self._path = path
        self._where = where
        self._shape = shape
        with self._open() as file:
            self._rows_in_file: int = file.metadata.num_rows
            self.schema = _plain(shape(file.schema_arrow.empty_table()).schema)

    @cached_property
    def num_rows(self) -> int:
        """Number of rows; reads the file if ``where`` selects some of them."""
        if self._where is None:
            return self._rows_in_file
        return sum(batch.num_rows for batch in self._batches(0))

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows once."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(0))

    def endless(self, seed: int) -> Iterator[pa.RecordBatch]:
        """Return the rows in their order, again and again: from the first on for seed 0, else from a random row."""
        if self.num_rows == 0:
            raise EmptyTable(f"{self._path} has no rows for the stream")
        place = 0.0 if seed == 0 else float(SplitMix(seed, "begin").uniform(np.zeros(1, dtype=np.int64))[0])
        yield from self._batches(int(place * self._rows_in_file))
        while True:
            yield from self._batches(0)

    def _batches(self, first_row: int) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            groups = range(file.num_row_groups)
            ends = np.cumsum([file.metadata.row_group(group).num_rows for group in groups])
            first_group = int(np.searchsorted(ends, first_row, side="right"))
            to_skip = first_row - (int(ends[first_group - 1]) if first_group else 0)
            for batch in file.iter_batches(_BATCH_ROWS, list(groups[first_group:])):
                skipped = min(to_skip, batch.num_rows)
                to_skip -= skipped
                rows = pa.Table.from_batches([batch.slice(skipped)])
                if self._where is not None:
                    rows = rows.filter(self._where)
                yield from self._shape(rows).cast(self.schema).combine_chunks().to_batches()

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema without metadata, and with plain text in place of string views, which are slower here."""
    return pa.schema([(field.name, pa.string() if field.type == pa.string_view() else field.type) for field in schema])
