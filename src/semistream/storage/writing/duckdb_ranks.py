"""Ranks of keys too many for memory, by DuckDB's out-of-core sort.

DuckDB sorts what a row is ordered by, not the row: its sort needs memory in proportion to the width of a row, and
would change the types of many columns. It answers two questions, each with one sort over a few bytes per row:
in which order do the rows stand, and, asked back in order of arrival, which place does each row have?
"""

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, MissingExtra
from semistream.core.sizes import format_bytes

__all__ = ["KEY_SCHEMA", "places_in_arrival_order"]

KEY_SCHEMA = pa.schema([("bucket", pa.int32()), ("code", pa.int64()), ("nbytes", pa.int64())])
_PLACE_SCHEMA = pa.schema([("rank", pa.int64()), ("partition", pa.int32())])

_RANKED_SCHEMA = pa.schema([("arrival", pa.int64()), *_PLACE_SCHEMA])
_ROWS_PER_BATCH = 1 << 16
_LEAST_BYTES = 64 << 20  # below this DuckDB's sort has been seen to fail whatever it sorts
_BYTES_PER_THREAD = 128 << 20


def places_in_arrival_order(
    keys_path: str, scratch: str, memory_bytes: int, partition_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the place of every row, in order of arrival.

    Parameters
    ----------
    keys_path
        An Arrow stream file of `KEY_SCHEMA`, one row per row in order of arrival.
    scratch
        A folder for temporary files.
    memory_bytes
        What the sort may take.
    partition_bytes
        Rows of successive ranks are put into one partition until their bytes exceed this.

    Yields
    ------
    Batches of `_PLACE_SCHEMA`: the row's rank by bucket, code and arrival, and its partition.
    """
    ranked_path = os.path.join(scratch, "ranked.arrow")
    in_order = _sorted(
        _with_arrival(keys_path),
        "SELECT arrival, nbytes FROM rows ORDER BY bucket, code, arrival",
        scratch,
        memory_bytes,
    )
    with pa.OSFile(ranked_path, "wb") as file, pa.ipc.new_stream(file, _RANKED_SCHEMA) as writer:
        for batch in _ranked(in_order, partition_bytes):
            writer.write_batch(batch)
    by_arrival = "SELECT rank, partition FROM rows ORDER BY arrival"
    for batch in _sorted(_read(ranked_path), by_arrival, scratch, memory_bytes):
        yield batch.cast(_PLACE_SCHEMA)
    os.unlink(ranked_path)


def _ranked(in_order: Iterator[pa.RecordBatch], partition_bytes: int) -> Iterator[pa.RecordBatch]:
    rank = bytes_before = 0
    for batch in in_order:
        ranks = np.arange(rank, rank + batch.num_rows)
        ends = bytes_before + np.cumsum(batch.column("nbytes").to_numpy())
        partitions = ((ends - 1) // partition_bytes).astype(np.int32)
        rank += batch.num_rows
        bytes_before = int(ends[-1]) if batch.num_rows else bytes_before
        columns = [batch.column("arrival"), pa.array(ranks), pa.array(partitions)]
        yield pa.RecordBatch.from_arrays(columns, schema=_RANKED_SCHEMA)


def _read(path: str) -> pa.RecordBatchReader:
    reader: pa.RecordBatchReader = pa.ipc.open_stream(pa.OSFile(path, "rb"))
    return reader


def _with_arrival(keys_path: str) -> pa.RecordBatchReader:
    arrival = pa.field("arrival", pa.int64())

    def numbered() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in _read(keys_path):
            numbers = pa.array(np.arange(first, first + batch.num_rows))
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=pa.schema([arrival, *KEY_SCHEMA]))

    return pa.RecordBatchReader.from_batches(pa.schema([arrival, *KEY_SCHEMA]), numbered())


def _sorted(rows: pa.RecordBatchReader, query: str, scratch: str, memory_bytes: int) -> Iterator[pa.RecordBatch]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra(
            "sorting a table larger than a quarter of memory= needs DuckDB: "
            "pip install 'semistream[clustered]', or raise memory="
        ) from None
    limit_bytes = max(_LEAST_BYTES, memory_bytes)
    connection = duckdb.connect(
        config={
            "memory_limit": f"{limit_bytes}B",
            "temp_directory": os.path.join(scratch, "duckdb"),
            "threads": max(1, min(os.cpu_count() or 1, limit_bytes // _BYTES_PER_THREAD)),
            "preserve_insertion_order": False,
        }
    )
    try:
        with connection:
            connection.register("rows", rows)
            yield from connection.sql(query).to_arrow_reader(_ROWS_PER_BATCH)
    except duckdb.OutOfMemoryException as error:
        reason = str(error).splitlines()[0]
        raise BudgetTooSmall(
            f"memory={format_bytes(memory_bytes)} is too small to sort this table ({reason}): raise memory="
        ) from None
