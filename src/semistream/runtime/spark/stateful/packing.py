"""Rows in blobs: how streams reach their bucket's state as few large values, and how joined rows leave it.

::

    rows ─► pack by bucket ─► shuffle by state key ─► turn of a bucket ─► blobs and metrics ─► unpack ─► rows

A blob is a record batch as an Arrow IPC message without its schema, which both sides know.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.semantics import JoinSpec
from semistream.kernels.keys.key_codes import bucket_ids
from semistream.operators.window.matching import EqualityMatching
from semistream.runtime.spark.columns import cast_columns
from semistream.runtime.spark.metrics.task_metrics import METRICS_COLUMN
from semistream.state.results import byte_portions
from semistream.storage import MasterTable, row_bits

__all__ = [
    "TURN_COLUMNS",
    "Bucketing",
    "blob_array",
    "blob_bytes",
    "gathered_bytes",
    "in_portions",
    "operator_bytes",
    "pack",
    "rows_by_bucket",
    "state_keys",
    "task_bytes_for",
    "turn_frame",
    "unpack",
    "unpack_part",
]

TURN_COLUMNS = f"blob binary, {METRICS_COLUMN} string"
"""What leaves the turn of a bucket: blobs of joined rows, and one row with its metrics."""

_IO_BLOBS = 6  # held beside an operator: one coming in, results for one going out, and Spark's copies
_GATHERED_SHARE = 1 / 16
_LARGEST_BLOB_BYTES = 1 << 20
_BLOB_SHARE = 1 / 64
_STATE_PARTITIONS = 64
_SPARK_SEED = 42
_MASK = 0xFFFFFFFF

_Frame: TypeAlias = Any  # a pandas.DataFrame, which has no types


# --- a task's memory --------------------------------------------------------------------------------------------------


def blob_bytes(task_bytes: int) -> int:
    """Return the size limit of a blob; a single row may be larger."""
    return min(_LARGEST_BLOB_BYTES, max(1, int(task_bytes * _BLOB_SHARE)))


def gathered_bytes(task_bytes: int) -> int:
    """Return how many bytes of the stream a task gathers before it packs or joins them."""
    return int(task_bytes * _GATHERED_SHARE)


def operator_bytes(task_bytes: int) -> int:
    """Return the part of a task's memory that blobs leave for the operator."""
    return task_bytes - gathered_bytes(task_bytes) - _IO_BLOBS * blob_bytes(task_bytes)


def task_bytes_for(operator_bytes: int) -> int:
    """Return a task's memory of which blobs leave at least ``operator_bytes``."""
    return math.ceil(operator_bytes / (1 - _GATHERED_SHARE - _IO_BLOBS * _BLOB_SHARE)) + 1


# --- packing ----------------------------------------------------------------------------------------------------------


class Bucketing:
    """Cuts a stream into the buckets of a table.

    Parameters
    ----------
    part
        The number of the part of the stream. It decides the bucket of rows with a NULL key: they match nothing
        anywhere, and no bucket should get them all.
    held_bytes
        How many bytes of the stream are gathered before they are cut.
    most_bytes
        The size limit of a blob; a single row may be larger.
    """

    def __init__(self, spec: JoinSpec, table: MasterTable, part: int, held_bytes: int, most_bytes: int) -> None:
        self._spec = spec
        self._buckets = table.buckets
        self._keys = EqualityMatching(spec, key_order=table.key)
        self._null_bucket = np.int32(part % table.buckets)
        self._held_bytes = held_bytes
        self._most_bytes = most_bytes

    def blobs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield (bucket, blob); the same rows in the same order give the same blobs in the same order."""
        for rows in in_portions(map(self._spec.conform, batches), self._held_bytes):
            yield from self._cut(rows)

    def _cut(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.Buffer]]:
        codes = self._keys.stream_codes(rows)
        ids = bucket_ids(self._keys.coder, codes, self._buckets)
        if codes.valid is not None:
            ids = np.where(codes.valid, ids, self._null_bucket)
        for bucket, chosen in rows_by_bucket(ids, self._buckets):
            for blob in pack([rows.take(pa.array(chosen))], self._most_bytes):
                yield bucket, blob


def in_portions(batches: Iterable[pa.RecordBatch], held_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all batches in larger ones, of ``held_bytes`` or somewhat more."""
    gathered: list[pa.RecordBatch] = []
    gathered_so_far = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            gathered_so_far += batch.nbytes
        if gathered and gathered_so_far >= held_bytes:
            yield pa.concat_batches(gathered)
            gathered, gathered_so_far = [], 0
    if gathered:
        yield pa.concat_batches(gathered)


def rows_by_bucket(buckets: npt.NDArray[np.integer], count: int) -> Iterator[tuple[int, npt.NDArray[np.integer]]]:
    """Yield each bucket that has rows, with their positions in order, from the bucket of every row."""
    order = np.argsort(buckets, kind="stable")
    bounds = np.searchsorted(buckets[order], np.arange(count + 1))
    for bucket in range(count):
        chosen = order[bounds[bucket] : bounds[bucket + 1]]
        if chosen.size:
            yield bucket, chosen


def pack(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Buffer]:
    """Yield the rows of all batches in blobs of at most ``most_bytes``, unless a single row is larger."""
    gathered: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for portion in _portions(batch, most_bytes):
            if gathered and held_bytes + portion.nbytes > most_bytes:
                yield pa.concat_batches(gathered).serialize()
                gathered, held_bytes = [], 0
            gathered.append(portion)
            held_bytes += portion.nbytes
    if gathered:
        yield pa.concat_batches(gathered).serialize()


def _portions(batch: pa.RecordBatch, most_bytes: int) -> list[pa.RecordBatch]:
    if batch.nbytes <= most_bytes:
        return [batch] if batch.num_rows else []
    portions = byte_portions(row_bits(batch) // 8, most_bytes)
    return [batch.slice(portion.start, portion.stop - portion.start) for portion in portions]


def blob_array(blob: pa.Buffer) -> pa.Array:
    """Return an array that holds one blob, without copying it."""
    offsets = pa.array([0, blob.size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blob])


def unpack(blobs: Iterable[bytes | pa.Buffer], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each blob."""
    for blob in blobs:
        yield pa.ipc.read_record_batch(pa.py_buffer(blob), schema)


# --- turns of buckets -------------------------------------------------------------------------------------------------


def turn_frame(blob: bytes | None, metrics: str | None) -> _Frame:
    """Return one row of `TURN_COLUMNS`."""
    columns = [pa.array([blob], pa.binary()), pa.array([metrics], pa.string())]
    return pa.RecordBatch.from_arrays(columns, ["blob", METRICS_COLUMN]).to_pandas()


def unpack_part(schemas: tuple[pa.Schema, pa.Schema], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpack joined rows of the first schema and cast them to the second; runs on executors."""
    joined, declared = schemas
    for batch in batches:
        for rows in unpack((blob.as_buffer() for blob in batch.column(0)), joined):
            yield pa.RecordBatch.from_arrays(cast_columns(rows, declared), schema=declared)


def state_keys(buckets: int) -> list[int]:
    """Return the state key of each bucket: keys that spread evenly over any power of two of partitions, up to 64.

    Spark puts a key into the partition that its hash names. A run of bucket numbers would fall unevenly: of eight
    buckets one of two partitions may get six. So each bucket takes the first number whose hash suits it, the same for
    any number of partitions, which the checkpoint fixes.
    """
    free: dict[int, list[int]] = {partition: [] for partition in range(_STATE_PARTITIONS)}
    keys: list[int] = []
    candidate = 0
    for bucket in range(buckets):
        wanted = bucket % _STATE_PARTITIONS
        while not free[wanted]:
            free[_spark_hash(candidate) % _STATE_PARTITIONS].append(candidate)
            candidate += 1
        keys.append(free[wanted].pop(0))
    return keys


def _spark_hash(value: int) -> int:
    """Return Spark's hash of an int, 32-bit Murmur3, as a number that is not negative."""
    word = value * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    word = word * 0x1B873593 & _MASK
    mixed = _SPARK_SEED ^ word
    mixed = (mixed << 13 | mixed >> 19) & _MASK
    mixed = (mixed * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    return mixed ^ mixed >> 16
