"""The master table R of the papers' synthetic experiments: rows of 120 bytes, each key once or several times."""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.draws.permutation import Permutation

__all__ = ["MASTER_SCHEMA", "KeysOfRows", "master_rows", "master_table"]

_PAYLOAD_WORDS = 11

_COLUMNS: dict[str, pa.DataType] = {
    "key": pa.int64(),
    "supplier": pa.int64(),
    "price": pa.float64(),
    "weight": pa.float64(),
    "payload": pa.binary(_PAYLOAD_WORDS * 8),
}
MASTER_SCHEMA = pa.schema(_COLUMNS)
"""Columns of R; a row takes 120 bytes in Arrow."""

KeysOfRows = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]
"""Returns the keys of the rows with these numbers."""


def master_table(
    num_rows: int,
    *,
    key_order: Literal["permuted", "sequential"] = "permuted",
    rows_per_key: int = 1,
    part: range | None = None,
    seed: int = 0,
    batch_rows: int = 65_536,
) -> pa.RecordBatchReader:
    """Return a table with keys from 0 on, each in ``rows_per_key`` rows; batches are made as they are read.

    ``part`` makes only the rows of these numbers. The same seed gives the same rows, for any ``part`` and
    ``batch_rows``.

    Examples
    --------
    >>> table = master_table(1000, seed=7).read_all()
    >>> table.nbytes // table.num_rows
    120
    >>> master_table(1000, part=range(600, 700), seed=7).read_all().equals(table.slice(600, 100))
    True
    """
    if key_order not in ("permuted", "sequential"):
        raise InvalidArgument(f"key_order={key_order!r} is unknown: use 'permuted' or 'sequential'")
    if rows_per_key < 1:
        raise InvalidArgument(f"rows_per_key={rows_per_key} must be at least 1")
    if num_rows < 1:
        raise InvalidArgument(f"num_rows={num_rows} must be at least 1")
    permutation = Permutation(num_rows, seed) if key_order == "permuted" else None

    def keys_of(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        keys: npt.NDArray[np.int64] = (rows if permutation is None else permutation(rows)) // rows_per_key
        return keys

    return master_rows(num_rows, keys_of, part=part, seed=seed, batch_rows=batch_rows)


def master_rows(
    num_rows: int, keys_of: KeysOfRows, *, part: range | None = None, seed: int = 0, batch_rows: int = 65_536
) -> pa.RecordBatchReader:
    """Return a table with these keys; see `master_table` for the rest."""
    if num_rows < 1 or batch_rows < 1:
        raise InvalidArgument(f"num_rows={num_rows} and batch_rows={batch_rows} must be at least 1")
    part = range(num_rows) if part is None else part
    if part.step != 1 or not 0 <= part.start <= part.stop <= num_rows:
        raise InvalidArgument(f"part={part} must be a range in steps of 1 inside of range({num_rows})")
    return pa.RecordBatchReader.from_batches(MASTER_SCHEMA, _batches(num_rows, part, keys_of, seed, batch_rows))


def _batches(num_rows: int, part: range, keys_of: KeysOfRows, seed: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    # One generator per column, so that a row does not depend on the size of batches. A value takes one draw.
    suppliers, prices, weights, payloads = (
        np.random.Generator(np.random.PCG64(sequence).advance(part.start * draws))
        for sequence, draws in zip(np.random.SeedSequence(seed).spawn(4), (1, 1, 1, _PAYLOAD_WORDS), strict=True)
    )
    num_suppliers = max(1, num_rows // 1000)
    for start in range(part.start, part.stop, batch_rows):
        rows = min(batch_rows, part.stop - start)
        words = payloads.integers(0, 2**64, size=rows * _PAYLOAD_WORDS, dtype=np.uint64)
        columns = [
            pa.array(keys_of(np.arange(start, start + rows, dtype=np.int64))),
            pa.array((suppliers.random(rows) * num_suppliers).astype(np.int64)),
            pa.array(np.round(prices.random(rows) * 100, 2)),
            pa.array(weights.random(rows)),
            pa.Array.from_buffers(_COLUMNS["payload"], rows, [None, pa.py_buffer(words.data)]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=MASTER_SCHEMA)
