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
from semistream.workloads.workload import Workload

__all__ = ["ParquetRows", "ShapeRows", "prefixed", "workload_of"]

_BATCH_ROWS = 16_384

ShapeRows = Callable[[pa.Table], pa.Table]
"""Renames, casts or computes columns; sees any part of the rows, and leaves none out."""


class ParquetRows:
    """The rows of a file that ``where`` selects, in its order, transformed by ``shape``.

    ``remedy`` ends the message about a missing file.
    """

    def __init__(
        self, path: Path, *, remedy: str, where: pc.Expression | None = None, shape: ShapeRows = lambda rows: rows
    ) -> None:
        if not path.is_file():
            raise MissingData(f"there is no {path}: {remedy}")
        self._path = path
        self._where = where
        self._shape = shape
        with pq.ParquetFile(path) as file:
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
        with pq.ParquetFile(self._path) as file:
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


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema without metadata, and with plain text in place of string views, which are slower here."""
    return pa.schema([(field.name, pa.string() if field.type == pa.string_view() else field.type) for field in schema])


def prefixed(prefix: str, *, key: str, name_in_file: str | None = None) -> ShapeRows:
    """Return a shape that gives the key its name in the stream, and every other column a prefix."""
    found = name_in_file or key

    def shape(rows: pa.Table) -> pa.Table:
        names = [key if name == found else prefix + name for name in rows.column_names]
        renamed: pa.Table = rows.rename_columns(names)
        return renamed

    return shape


def workload_of(
    stream: ParquetRows, master: ParquetRows, *, key: str, name: str, table_name: str, provenance: str
) -> Workload:
    """Return a workload of the rows of two files."""
    return Workload(
        name=name,
        table_name=table_name,
        provenance=provenance,
        key=key,
        num_rows=master.num_rows,
        master_schema=master.schema,
        stream_schema=stream.schema,
        master=master.reader,
        stream=stream.endless,
    )
