"""Cuts a stream of batches anew by measured size."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.storage.row_sizes import row_bits

__all__ = ["cut_batches"]


def cut_batches(batches: Iterable[pa.RecordBatch], target_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a stream of batches anew, so that each takes at most ``target_bytes``, or is a single row.

    What a cut batch takes when written is what its rows take, whatever it was cut from.
    """
    target_bits = 8 * target_bytes
    waiting: list[pa.RecordBatch] = []
    waiting_bits = 0
    for batch in batches:
        bits_before: npt.NDArray[np.int64] = np.zeros(batch.num_rows + 1, dtype=np.int64)
        np.cumsum(row_bits(batch), out=bits_before[1:])
        start = 0
        while start < batch.num_rows:
            room = bits_before[start] + target_bits - waiting_bits
            stop = int(np.searchsorted(bits_before, room, side="right")) - 1
            if stop == batch.num_rows:
                waiting.append(batch.slice(start))
                waiting_bits += int(bits_before[stop] - bits_before[start])
                break
            if stop <= start and not waiting:
                stop = start + 1
            if stop > start:
                waiting.append(batch.slice(start, stop - start))
            yield _joined(waiting)
            waiting, waiting_bits, start = [], 0, max(start, stop)
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        joined = batches[0]
    else:
        (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    views = [i for i, dtype in enumerate(joined.schema.types) if pt.is_string_view(dtype) or pt.is_binary_view(dtype)]
    for i in views:
        # Arrow would write the buffers of the whole parent for a slice of views.
        column = joined.column(i)
        wide = pa.large_string() if pt.is_string_view(column.type) else pa.large_binary()
        joined = joined.set_column(i, joined.schema.field(i), column.cast(wide).cast(column.type))
    return joined
