"""Parts of the state of a join of two streams as record batches, and back."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.punctuated_batch import KeyMarks

__all__ = ["gathered", "mark_rows", "marks_of_rows", "range_rows", "ranges_of_rows"]

_Int64s = npt.NDArray[np.int64]


def gathered(
    header: dict[str, Any], portions: Iterable[tuple[str, pa.RecordBatch]]
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return the header, and portions of one name as one table."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in portions:
        batches.setdefault(name, []).append(rows)
    return header, {name: pa.Table.from_batches(several) for name, several in batches.items()}


def range_rows(lows: _Int64s, highs: _Int64s) -> pa.RecordBatch:
    """Return ranges of codes as rows."""
    return pa.record_batch({"low": lows, "high": highs})


def ranges_of_rows(rows: pa.RecordBatch) -> tuple[_Int64s, _Int64s]:
    """Return what `range_rows` was given."""
    return np.array(rows.column(0), dtype=np.int64), np.array(rows.column(1), dtype=np.int64)


def mark_rows(marks: KeyMarks, key_type: pa.DataType) -> pa.RecordBatch:
    """Return punctuations as rows."""
    return pa.record_batch({"at": marks.at, "low": marks.low.cast(key_type), "high": marks.high.cast(key_type)})


def marks_of_rows(rows: pa.RecordBatch) -> KeyMarks:
    """Return what `mark_rows` was given."""
    return KeyMarks(np.array(rows.column(0), dtype=np.int64), rows.column(1), rows.column(2))
