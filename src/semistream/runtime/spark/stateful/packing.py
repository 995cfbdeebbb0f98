"""Rows in blobs: how streams reach their bucket's state as few large values, in the stream's order.

A blob is a record batch as an Arrow IPC message without its schema, which both sides know.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.semantics import JoinSpec
from semistream.kernels.arrow_views import varlen_parts
from semistream.kernels.keys.key_codes import KeyCodes, bucket_ids
from semistream.operators.window.matching import EqualityMatching
from semistream.state.results import byte_portions
from semistream.state.spill_file import SpillFile
from semistream.storage import MasterTable, row_bits

__all__ = [
    "BlobOrder",
    "Bucketing",
    "cut_by_bucket",
    "in_portions",
    "pack",
    "packed_row",
    "regular_batches",
    "unpack",
]


# --- to the buckets ---------------------------------------------------------------------------------------------------


class Bucketing:
    """Cuts one part of a stream into the buckets of a table, after it has gathered ``held_bytes`` of it."""

    def __init__(self, spec: JoinSpec, table: MasterTable, part: int, held_bytes: int, most_bytes: int) -> None:
        self._spec = spec
        self._buckets = table.buckets
        self._keys = EqualityMatching(spec, key_order=table.key)
        self._part = part
        self._held_bytes = held_bytes
        self._most_bytes = most_bytes

    def blobs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield (bucket, blob); the same rows in the same order give the same blobs in the same order."""
        for rows in in_portions(map(self._spec.conform, batches), self._held_bytes):
            codes = self._keys.stream_codes(rows)
            ids = bucket_ids(self._keys.coder, codes, self._buckets)
            yield from cut_by_bucket(rows, codes, ids, self._buckets, self._part, self._most_bytes)


def in_portions(batches: Iterable[pa.RecordBatch], held_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all batches in larger ones, of ``held_bytes`` or somewhat more."""
    gathered: list[pa.RecordBatch] = []
    gathered_bytes = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            gathered_bytes += batch.nbytes
        if gathered and gathered_bytes >= held_bytes:
            yield pa.concat_batches(gathered)
            gathered, gathered_bytes = [], 0
    if gathered:
        yield pa.concat_batches(gathered)


def cut_by_bucket(
    rows: pa.RecordBatch, codes: KeyCodes, ids: npt.NDArray[np.integer], buckets: int, part: int, most_bytes: int
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield each bucket that has rows, with blobs of them in order.

    Rows with a NULL key match nothing anywhere. The part of the stream decides their bucket: none should get them all.
    """
    if codes.valid is not None:
        ids = np.where(codes.valid, ids, ids.dtype.type(part % buckets))
    order = np.argsort(ids, kind="stable")
    bounds = np.searchsorted(ids[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        chosen = order[bounds[bucket] : bounds[bucket + 1]]
        if chosen.size:
            for blob in pack([rows.take(pa.array(chosen))], most_bytes):
                yield bucket, blob


def pack(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Buffer]:
    """Yield the rows of all batches in blobs of at most ``most_bytes``, unless a single row is larger."""
    gathered: list[pa.RecordBatch] = []
    gathered_bytes = 0
    for batch in batches:
        for portion in _portions(batch, most_bytes):
            if gathered and gathered_bytes + portion.nbytes > most_bytes:
                yield pa.concat_batches(gathered).serialize()
                gathered, gathered_bytes = [], 0
            gathered.append(portion)
            gathered_bytes += portion.nbytes
    if gathered:
        yield pa.concat_batches(gathered).serialize()


def _portions(batch: pa.RecordBatch, most_bytes: int) -> list[pa.RecordBatch]:
    if batch.nbytes <= most_bytes:
        return [batch] if batch.num_rows else []
    portions = byte_portions(row_bits(batch) // 8, most_bytes)
    return [batch.slice(portion.start, portion.stop - portion.start) for portion in portions]


def packed_row(blob: pa.Buffer, number: int, **places: int) -> pa.RecordBatch:
    """Return one row with a blob, which is not copied, behind its places and its number."""
    columns = [pa.array([place], pa.int32()) for place in places.values()]
    offsets = pa.array([0, blob.size], pa.int32()).buffers()[1]
    content = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blob])
    return pa.RecordBatch.from_arrays([*columns, pa.array([number]), content], [*places, "number", "blob"])


def unpack(blobs: Iterable[bytes | pa.Buffer], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (pa.ipc.read_record_batch(pa.py_buffer(blob), schema) for blob in blobs)


# --- in the order of the stream ---------------------------------------------------------------------------------------


class BlobOrder:
    """Gathers blobs, in memory while there is room and then in a file, and returns them by number.

    A shuffle brings blobs in the order in which map tasks happen to finish, and Spark sorts no stream. The order
    decides which rows leave in this micro-batch and which wait, so a replayed batch needs the same order.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._held: dict[tuple[int, int], bytes] = {}
        self._offsets: dict[tuple[int, int], int] = {}
        self._file = SpillFile("blobs of the stream")

    def add(self, part: int, number: int, blob: bytes) -> None:
        """Take a blob; the numbers of a part differ."""
        place = (part, number)
        assert place not in self._held
        assert place not in self._offsets
        if len(blob) <= self._memory_bytes:
            self._memory_bytes -= len(blob)
            self._held[place] = blob
        else:
            self._offsets[place] = self._file.append(blob)

    def __iter__(self) -> Iterator[bytes | pa.Buffer]:
        """Yield all blobs, part by part, and let go of each."""
        for place in sorted([*self._held, *self._offsets]):
            yield self._held.pop(place) if place in self._held else self._file.read(self._offsets[place])[0]

    def close(self) -> None:
        self._file.remove()


def regular_batches(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of ``most_rows``, or fewer where their text exceeds ``most_bytes``.

    The bounds follow from the rows alone. The rows that an operator is offered at once decide its next step, and blobs
    are cut by the memory of the running program, which may be another one when a micro-batch is replayed. A single row
    may exceed ``most_bytes``.
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
            # The length of a NULL is arbitrary, and may differ in a copy.
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            total += np.where(valid, lengths, 0)
    return total
