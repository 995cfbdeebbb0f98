"""Orders rows by bucket and key code in bounded memory.

Rows that fit are sorted in memory. Others go to disk in order of arrival, with their keys in a file beside them. The
keys are sorted, by DuckDB if they do not fit either, to find the rank of each row. A second pass writes every row to
the partition of its rank. Each partition fits into memory: they are read one after the other and put in order.

::

    rows ──► arrival file ───────────────┐
      └─ keys ─► sort ──► places ────────┴─► partition 0, 1, 2 ... ─► rows in order

Rows only move between Arrow buffers, so every type keeps every bit of its values, and all disk access is sequential.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, MissingExtra
from semistream.core.sizes import format_bytes
from semistream.kernels.arrow_views import with_own_items
from semistream.storage.files.row_sizes import row_bits

__all__ = ["RowSorter"]

# Parts of the memory.
_COLLECTED_PART = 4  # rows are collected, then copied in order
_SORT_PART = 2
_PARTITION_PART = 8
_MIN_PARTITION_BYTES = 16 << 10
_MAX_PARTITION_BYTES = 1 << 30  # text has 32-bit offsets
_MAX_OPEN_PARTITIONS = 128
_ROW_OVERHEAD_BYTES = 24  # code, bucket and place
_KEY_COPIES = 4  # of what the file of keys holds, while they are sorted in memory

_KEY_SCHEMA = pa.schema([("bucket", pa.int32()), ("code", pa.int64()), ("nbytes", pa.int64())])
_PLACE_SCHEMA = pa.schema([("rank", pa.int64()), ("partition", pa.int32())])
_RANKED_SCHEMA = pa.schema([("arrival", pa.int64()), *_PLACE_SCHEMA])

# Of DuckDB.
_ROWS_PER_BATCH = 1 << 16
_LEAST_BYTES = 64 << 20  # below this its sort has been seen to fail whatever it sorts
_BYTES_PER_THREAD = 128 << 20


class RowSorter:
    """Sorts rows by (bucket, code); rows that are equal in both keep their order of arrival.

    Parameters
    ----------
    schema
        Of the rows.
    memory_bytes
        What sorting may take.
    make_scratch
        Called for a folder when rows have to go to disk.
    """

    def __init__(self, schema: pa.Schema, memory_bytes: int, make_scratch: Callable[[], str]) -> None:
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._make_scratch = make_scratch
        self._collected: list[pa.RecordBatch] = []
        self._keys: list[pa.RecordBatch] = []
        self._collected_bytes = 0
        self._arrivals: _Arrivals | None = None

    def add(self, batch: pa.RecordBatch, codes: npt.NDArray[np.int64], buckets: npt.NDArray[np.int32]) -> None:
        """Take rows in; ``codes`` may be all zero to keep the order of arrival inside a bucket."""
        nbytes = row_bits(batch) // 8 + _ROW_OVERHEAD_BYTES
        keys = pa.RecordBatch.from_arrays([pa.array(buckets), pa.array(codes), pa.array(nbytes)], schema=_KEY_SCHEMA)
        if self._arrivals is not None:
            self._arrivals.write(batch, keys)
            return
        self._collected.append(batch)
        self._keys.append(keys)
        self._collected_bytes += int(nbytes.sum())
        if self._collected_bytes > min(self._memory_bytes // _COLLECTED_PART, _MAX_PARTITION_BYTES):
            self._arrivals = _Arrivals(self._make_scratch(), self._schema)
            for waiting in zip(self._collected, self._keys, strict=True):
                self._arrivals.write(*waiting)
            self._collected, self._keys = [], []

    def sorted_buckets(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """Yield each bucket that has rows, ascending, with its sorted rows; use them before going on."""
        if self._arrivals is None:
            batches, rows_per_bucket = self._sorted_in_memory()
        else:
            batches, rows_per_bucket = self._arrivals.sorted(self._memory_bytes)
        rows = _RowStream(batches)
        for bucket in np.flatnonzero(rows_per_bucket).tolist():
            yield bucket, rows.take(int(rows_per_bucket[bucket]))

    def _sorted_in_memory(self) -> tuple[Iterator[pa.RecordBatch], npt.NDArray[np.int64]]:
        keys = pa.Table.from_batches(self._keys, _KEY_SCHEMA)
        buckets, codes = keys["bucket"].to_numpy(), keys["code"].to_numpy()
        # Equal keys keep their order: numpy's lexsort is stable.
        order = np.lexsort((codes, buckets))
        self._keys = []
        return iter([_take(self._collected, self._schema, order)]), np.bincount(buckets)


class _Arrivals:
    """Rows on disk in order of arrival, with their keys in a file beside them."""

    def __init__(self, scratch: str, schema: pa.Schema) -> None:
        self._scratch = scratch
        self._schema = schema
        self._paths = [os.path.join(scratch, name) for name in ("rows.arrow", "keys.arrow")]
        self._files = [pa.OSFile(path, "wb") for path in self._paths]
        self._writers = [
            pa.ipc.new_stream(file, schema) for file, schema in zip(self._files, (schema, _KEY_SCHEMA), strict=True)
        ]
        self._rows_per_bucket = np.zeros(1, dtype=np.int64)

    def write(self, rows: pa.RecordBatch, keys: pa.RecordBatch) -> None:
        self._writers[0].write_batch(with_own_items(rows))
        self._writers[1].write_batch(keys)
        counts = np.bincount(keys.column("bucket").to_numpy(), minlength=self._rows_per_bucket.size)
        counts[: self._rows_per_bucket.size] += self._rows_per_bucket
        self._rows_per_bucket = counts

    def sorted(self, memory_bytes: int) -> tuple[Iterator[pa.RecordBatch], npt.NDArray[np.int64]]:
        """Return the rows in order, and how many rows each bucket has."""
        for output in (*self._writers, *self._files):
            output.close()
        return self._partitions_in_order(memory_bytes), self._rows_per_bucket

    def _partitions_in_order(self, memory_bytes: int) -> Iterator[pa.RecordBatch]:
        partition_bytes = int(np.clip(memory_bytes // _PARTITION_PART, _MIN_PARTITION_BYTES, _MAX_PARTITION_BYTES))
        places = _places_in_arrival_order(self._paths[1], self._scratch, memory_bytes // _SORT_PART, partition_bytes)
        partitions = self._distribute(_RowStream(places))
        first_rank = 0
        for partition in partitions.numbers():
            batches = partitions.read(partition)
            ranks = np.concatenate([batch.column(len(self._schema)).to_numpy() for batch in batches])
            order = np.empty(ranks.size, dtype=np.int64)
            order[ranks - first_rank] = np.arange(ranks.size)
            first_rank += ranks.size
            rows = [batch.select(range(len(self._schema))) for batch in batches]
            batches.clear()
            yield _take(rows, self._schema, order)

    def _distribute(self, places: "_RowStream") -> "_PartitionFiles":
        """Write every row with its rank to its partition."""
        schema = self._schema.append(pa.field("", pa.int64()))
        files = _PartitionFiles(self._scratch, schema)
        with pa.OSFile(self._paths[0], "rb") as file:
            for batch in pa.ipc.open_stream(file):
                place = pa.Table.from_batches(places.take(batch.num_rows)).combine_chunks().to_batches()[0]
                partitions = place.column("partition").to_numpy()
                order = np.argsort(partitions, kind="stable")
                ranked = pa.RecordBatch.from_arrays([*batch.columns, place.column("rank")], schema=schema)
                ranked = ranked.take(pa.array(order))
                starts = np.flatnonzero(np.diff(partitions[order], prepend=-1)).tolist()
                for start, stop in zip(starts, [*starts[1:], order.size], strict=True):
                    files.write(int(partitions[order[start]]), ranked.slice(start, stop - start))
        files.close()
        os.unlink(self._paths[0])
        os.unlink(self._paths[1])
        return files


class _PartitionFiles:
    """One file per partition; only some are open at a time."""

    def __init__(self, scratch: str, schema: pa.Schema) -> None:
        self._scratch = scratch
        self._schema = schema
        self._open: OrderedDict[int, tuple[pa.OSFile, pa.RecordBatchStreamWriter]] = OrderedDict()
        self._numbers: set[int] = set()

    def numbers(self) -> list[int]:
        """Return the partitions that have rows, in order; a row larger than a partition leaves some empty."""
        return sorted(self._numbers)

    def _path(self, partition: int) -> str:
        return os.path.join(self._scratch, f"partition-{partition}.arrow")

    def write(self, partition: int, rows: pa.RecordBatch) -> None:
        self._numbers.add(partition)
        if partition in self._open:
            self._open.move_to_end(partition)
        else:
            if len(self._open) == _MAX_OPEN_PARTITIONS:
                self._close(self._open.popitem(last=False)[1])
            # A file opened again gets another Arrow stream at its end.
            file = pa.OSFile(self._path(partition), "ab")
            self._open[partition] = file, pa.ipc.new_stream(file, self._schema)
        self._open[partition][1].write_batch(with_own_items(rows))

    def _close(self, output: tuple[pa.OSFile, pa.RecordBatchStreamWriter]) -> None:
        file, writer = output
        writer.close()
        file.close()

    def close(self) -> None:
        while self._open:
            self._close(self._open.popitem()[1])

    def read(self, partition: int) -> list[pa.RecordBatch]:
        """Return the rows of a partition, and remove its file."""
        batches: list[pa.RecordBatch] = []
        with pa.OSFile(self._path(partition), "rb") as file:
            while file.tell() < file.size():
                batches.extend(pa.ipc.open_stream(file))
        os.unlink(self._path(partition))
        return batches


class _RowStream:
    """Batches read by numbers of rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the next ``rows`` rows."""
        while rows:
            batch = next(self._batches) if self._rest is None else self._rest
            part = batch.slice(0, rows)
            self._rest = batch.slice(part.num_rows) if part.num_rows < batch.num_rows else None
            rows -= part.num_rows
            yield part


def _take(batches: list[pa.RecordBatch], schema: pa.Schema, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Join ``batches``, emptying the list, and order their rows; at most one column is held twice."""
    table = pa.Table.from_batches(batches, schema)
    batches.clear()
    positions = pa.array(order)
    columns = []
    for _ in range(table.num_columns):
        columns.append(table.column(0).combine_chunks().take(positions))
        table = table.remove_column(0)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _places_in_arrival_order(
    keys_path: str, scratch: str, memory_bytes: int, partition_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rank of every row by bucket, code and arrival, and its partition, in order of arrival.

    A partition takes rows of successive ranks until their bytes exceed ``partition_bytes``.

    DuckDB sorts keys that do not fit into memory. It does not sort the rows: that would take memory in proportion to
    their width, and change the types of many columns. It sorts twice: by key, and then back by arrival.
    """
    with _read(keys_path) as keys:
        if os.path.getsize(keys_path) * _KEY_COPIES <= memory_bytes:
            yield _places_in_memory(keys.read_all(), partition_bytes)
            return
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


def _places_in_memory(keys: pa.Table, partition_bytes: int) -> pa.RecordBatch:
    order = np.lexsort((keys["code"].to_numpy(), keys["bucket"].to_numpy()))  # stable: equal keys keep their order
    ranks = np.empty_like(order)
    ranks[order] = np.arange(order.size)
    partitions = _partitions(np.cumsum(keys["nbytes"].to_numpy()[order]), partition_bytes)[ranks]
    return pa.RecordBatch.from_arrays([pa.array(ranks), pa.array(partitions)], schema=_PLACE_SCHEMA)


def _partitions(ends: npt.NDArray[np.int64], partition_bytes: int) -> npt.NDArray[np.int32]:
    return ((ends - 1) // partition_bytes).astype(np.int32)


def _ranked(in_order: Iterator[pa.RecordBatch], partition_bytes: int) -> Iterator[pa.RecordBatch]:
    rank = bytes_before = 0
    for batch in in_order:
        ranks = np.arange(rank, rank + batch.num_rows)
        ends = bytes_before + np.cumsum(batch.column("nbytes").to_numpy())
        partitions = _partitions(ends, partition_bytes)
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
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=pa.schema([arrival, *_KEY_SCHEMA]))

    return pa.RecordBatchReader.from_batches(pa.schema([arrival, *_KEY_SCHEMA]), numbered())


class _Interrupts:
    """Keeps what ends the process while DuckDB reads rows, such as Ctrl-C; DuckDB makes it an error of its own."""

    def __init__(self) -> None:
        self.met: BaseException | None = None

    def watch(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from rows
            except GeneratorExit:
                raise
            except BaseException as interrupt:
                self.met = interrupt
                raise

        return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _sorted(rows: pa.RecordBatchReader, query: str, scratch: str, memory_bytes: int) -> Iterator[pa.RecordBatch]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra(
            "sorting a table larger than a quarter of memory= needs DuckDB: "
            "pip install 'semistream[clustered]', or raise memory="
        ) from None
    interrupts = _Interrupts()
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
            connection.register("rows", interrupts.watch(rows))
            yield from connection.sql(query).to_arrow_reader(_ROWS_PER_BATCH)
    except duckdb.OutOfMemoryException as error:
        reason = str(error).splitlines()[0]
        raise BudgetTooSmall(
            f"memory={format_bytes(memory_bytes)} is too small to sort this table ({reason}): raise memory="
        ) from None
    except duckdb.Error:
        if interrupts.met is None:
            raise
        raise interrupts.met from None
