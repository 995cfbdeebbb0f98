"""Cuts rows into batches whose bounds follow from the rows alone, however they were cut before.

What an operator is offered at once decides which rows it takes before its next step. Blobs are cut by the memory of
the program that runs, which may be another one when a micro-batch is replayed; so their rows are cut anew.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrow_views import varlen_parts

__all__ = ["regular_batches"]


def regular_batches(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of ``most_rows``, or fewer where their text exceeds ``most_bytes``.

    A batch ends before the row that would make it too large, so that a single row may be larger.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        text_bytes = _text_bytes(batch)
        start = 0
        while start < batch.num_rows:
            room = most_rows - held_rows
            sizes = text_bytes[start : start + room]
            fitting = int(np.searchsorted(held_bytes + np.cumsum(sizes), most_bytes, side="right"))
            if fitting == 0 and held_rows == 0:
                fitting = 1
            if fitting:
                held.append(batch.slice(start, fitting))
                held_rows += fitting
                held_bytes += int(sizes[:fitting].sum())
                start += fitting
            if held_rows == most_rows or start < batch.num_rows:
                yield pa.concat_batches(held)
                held, held_rows, held_bytes = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _text_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    total = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        dtype = column.type
        if pt.is_string(dtype) or pt.is_binary(dtype) or pt.is_large_string(dtype) or pt.is_large_binary(dtype):
            lengths = np.diff(varlen_parts(column)[0])
            # A NULL may have any length, and another one after it was copied.
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            total += np.where(valid, lengths, 0)
    return total
