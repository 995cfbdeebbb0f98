"""Rows in blobs: how a stream crosses a shuffle and the state store as few large values.

A blob is a record batch as an Arrow IPC message without its schema, which both sides know.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.semantics import JoinSpec
from semistream.kernels.keys.key_codes import bucket_ids
from semistream.operators.window.matching import EqualityMatching
from semistream.state.results import byte_portions
from semistream.storage import MasterTable, row_bits

__all__ = [
    "PACKED_COLUMNS",
    "Bucketing",
    "blob_array",
    "blob_bytes",
    "gathered_bytes",
    "in_portions",
    "operator_bytes",
    "pack",
    "rows_by_bucket",
    "task_bytes_for",
    "unpack",
]

PACKED_COLUMNS = "key int, part int, number bigint, blob binary"
"""A blob of the stream or a tick: the bucket's key, the part of the stream, and the blob's number in it."""

_IO_BLOBS = 6  # held beside an operator: one that came in, results for one that goes out, and copies at Spark's door
_GATHERED_SHARE = 1 / 16

_LARGEST_BLOB_BYTES = 1 << 20
_BLOB_SHARE = 1 / 64


def blob_bytes(task_bytes: int) -> int:
    """Return the most that a blob holds, unless a single row is larger."""
    return min(_LARGEST_BLOB_BYTES, max(1, int(task_bytes * _BLOB_SHARE)))


def gathered_bytes(task_bytes: int) -> int:
    """Return how many bytes of the stream a task holds before it does something with them."""
    return int(task_bytes * _GATHERED_SHARE)


def operator_bytes(task_bytes: int) -> int:
    """Return what blobs leave of a task's memory."""
    return task_bytes - gathered_bytes(task_bytes) - _IO_BLOBS * blob_bytes(task_bytes)


def task_bytes_for(operator_bytes: int) -> int:
    """Return a task's memory of which blobs leave at least ``operator_bytes``."""
    return math.ceil(operator_bytes / (1 - _GATHERED_SHARE - _IO_BLOBS * _BLOB_SHARE)) + 1


class Bucketing:
    """Cuts a stream into the buckets of a table.

    Parameters
    ----------
    part
        The number of the part of the stream. It decides where rows with a NULL key go: they match nothing, whichever
        bucket they are in, and no bucket should get them all.
    held_bytes
        How many bytes of the stream are held until they are cut.
    most_bytes
        The most that a blob holds, unless a single row is larger.
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
    """Yield the rows of all batches, ``held_bytes`` at a time or somewhat more, without those that have none."""
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
    """Yield each bucket that has rows, with their positions in order, when ``buckets`` has that of every row."""
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
