"""What all generated streams share: tuples of 20 bytes, made batch by batch; each stream draws its own keys."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument

__all__ = ["ENDLESS", "STREAM_SCHEMA", "DrawKeys", "stream_of"]

_COLUMNS: dict[str, pa.DataType] = {"key": pa.int64(), "sale": pa.int64(), "quantity": pa.int32()}
STREAM_SCHEMA = pa.schema(_COLUMNS)
"""Columns of S; a tuple takes 20 bytes in Arrow. ``sale`` numbers the tuples."""

ENDLESS = 1 << 50
"""Tuples of a stream that is read for as long as one likes."""

DrawKeys = Callable[[int, int], npt.NDArray[np.int64]]
"""Returns the keys of ``count`` tuples from tuple number ``start`` on; called for one batch after the other."""


def stream_of(num_tuples: int, draw_keys: DrawKeys, seed: int, batch_rows: int) -> pa.RecordBatchReader:
    """Return a stream with these keys; batches are made as they are read."""
    if num_tuples < 0:
        raise InvalidArgument(f"num_tuples={num_tuples} must be 0 or more")
    if batch_rows < 1:
        raise InvalidArgument(f"batch_rows={batch_rows} must be at least 1")
    return pa.RecordBatchReader.from_batches(STREAM_SCHEMA, _batches(num_tuples, draw_keys, seed, batch_rows))


def _batches(num_tuples: int, draw_keys: DrawKeys, seed: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    quantities = np.random.default_rng(seed).spawn(3)[2]
    for start in range(0, num_tuples, batch_rows):
        count = min(batch_rows, num_tuples - start)
        columns = [
            pa.array(draw_keys(start, count)),
            pa.array(np.arange(start, start + count, dtype=np.int64)),
            pa.array(quantities.integers(1, 10, size=count, dtype=np.int32)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=STREAM_SCHEMA)
