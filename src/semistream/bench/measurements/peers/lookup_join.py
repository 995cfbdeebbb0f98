"""A join on Spark as a user writes it: keys of a stream are looked up in a store from ``mapInArrow``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from semistream.bench.measurements.peers.stores.packed_rows import PackedRows
from semistream.bench.measurements.peers.stores.row_store import FoundRows, RowStore
from semistream.kernels.arrays import Int64s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["StoredTable", "look_up_task", "lookup_join"]

_ROWS_AT_ONCE = 262_144  # Spark's Arrow batches of 10,000 rows are looked up together

# Stores that this worker has opened: they stay open over tasks and micro-batches.
_OPENED: dict[str, Callable[[Int64s], FoundRows]] = {}


@dataclass(frozen=True)
class StoredTable:
    """A master table in a store; ``columns`` are those of its rows, all of fixed width, without the key."""

    store: RowStore
    folder: Path
    columns: pa.Schema

    @cached_property
    def form(self) -> PackedRows:
        return PackedRows(self.columns)

    def find(self, keys: Int64s) -> FoundRows:
        name = str(self.folder)
        if name not in _OPENED:
            _OPENED[name] = self.store.open(self.folder, self.form.width)
        return _OPENED[name](keys)


def lookup_join(stream: "DataFrame", table: StoredTable) -> "DataFrame":
    """Join on ``key``; rows without a match are dropped."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    blank = table.form.take(np.empty((0, table.form.width), dtype=np.uint8), np.empty(0, dtype=np.int64))
    added = pa.schema([(name, column.type) for name, column in zip(table.form.names, blank, strict=True)])
    schema = StructType([*stream.schema.fields, *from_arrow_schema(added).fields])
    return stream.mapInArrow(partial(look_up_task, table), schema)


def look_up_task(table: StoredTable, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the joined rows of a task."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _ROWS_AT_ONCE:
            yield _joined(table, waiting)
            waiting = []
    if waiting:
        yield _joined(table, waiting)


def _joined(table: StoredTable, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches).combine_chunks().to_batches()
    batch = rows[0] if rows else batches[0]
    found = table.find(np.asarray(batch.column("key")))
    matched = batch if found.place.size == batch.num_rows else batch.take(pa.array(found.place))
    columns = [*matched.columns, *table.form.take(found.rows, found.row)]
    return pa.RecordBatch.from_arrays(columns, [*batch.schema.names, *table.form.names])
