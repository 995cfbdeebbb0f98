"""What leaves a bucket after its turn: blobs of joined rows, and one row with its metrics."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from semistream.runtime.spark.join.output_columns import as_declared
from semistream.runtime.spark.metrics.task_metrics import METRICS_COLUMN
from semistream.runtime.spark.stateful.packing import unpack

__all__ = ["TURN_COLUMNS", "turn_frame", "unpack_part"]

TURN_COLUMNS = f"blob binary, {METRICS_COLUMN} string"

_Frame: TypeAlias = Any  # a pandas.DataFrame, which has no types


def turn_frame(blob: bytes | None, metrics: str | None) -> _Frame:
    """Return one row of what leaves a bucket."""
    columns = [pa.array([blob], pa.binary()), pa.array([metrics], pa.string())]
    return pa.RecordBatch.from_arrays(columns, ["blob", METRICS_COLUMN]).to_pandas()


def unpack_part(schemas: tuple[pa.Schema, pa.Schema], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpack joined rows, and bring them from the first schema into the second; runs on executors."""
    joined, declared = schemas
    for batch in batches:
        for rows in unpack((blob.as_buffer() for blob in batch.column(0)), joined):
            yield pa.RecordBatch.from_arrays(as_declared(rows, declared), schema=declared)
