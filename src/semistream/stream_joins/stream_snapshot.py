"""Parts of a join of two streams as tables, for its snapshot, and back."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch

__all__ = ["one_batch", "queue_tables", "queued_batch", "range_table", "table_ranges"]

_Int64s = npt.NDArray[np.int64]


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table in one piece."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def range_table(lows: _Int64s, highs: _Int64s) -> pa.Table:
    """Return ranges of codes as a table."""
    return pa.table({"low": lows, "high": highs})


def table_ranges(table: pa.Table) -> tuple[_Int64s, _Int64s]:
    """Return what `range_table` was given."""
    return np.array(table["low"], dtype=np.int64), np.array(table["high"], dtype=np.int64)


def queue_tables(
    queue: Iterable[PunctuatedBatch], schema: pa.Schema, key_type: pa.DataType
) -> tuple[pa.Table, pa.Table]:
    """Return what waits in a queue: the rows, and the punctuations among them."""
    rows, at, lows, highs = [], [np.empty(0, dtype=np.int64)], [pa.array([], key_type)], [pa.array([], key_type)]
    count = 0
    for batch in queue:
        rows.append(batch.rows)
        at.append(batch.marks.at + count)
        lows.append(batch.marks.low.cast(key_type))
        highs.append(batch.marks.high.cast(key_type))
        count += len(batch)
    marks = pa.table({"at": np.concatenate(at), "low": pa.concat_arrays(lows), "high": pa.concat_arrays(highs)})
    return pa.Table.from_batches(rows, schema), marks


def queued_batch(rows: pa.Table, marks: pa.Table) -> PunctuatedBatch:
    """Return what `queue_tables` was given, in one piece."""
    marks_batch = one_batch(marks)
    at = np.array(marks_batch.column(0), dtype=np.int64)
    return PunctuatedBatch(one_batch(rows), KeyMarks(at, marks_batch.column(1), marks_batch.column(2)))
