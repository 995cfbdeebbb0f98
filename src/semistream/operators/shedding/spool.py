"""Shed stream tuples on disk: first in, first out, with their arrival numbers, in a fixed share of memory and of disk.

::

    put ─ messages ─► segment n ┐            ┌ segment 0 ─ one message in memory ─► take
                                └─  …  ──────┘ (deleted when it was read)

In memory are one message that is being read, one that is being written, and two numbers per segment. Nothing that was
accepted waits in memory to be written.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument, OperatorMisuse, SpoolWriteFailed
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.spool_segments import HEADER_BYTES, SegmentReader, SegmentWriter
from semistream.storage.files.row_sizes import batch_overhead_bytes, row_bits

__all__ = ["DiskSpool"]

_SEGMENT_MESSAGES = 2048  # so that the smallest numbers of a segment's messages take little memory
_SEGMENTS_AT_LEAST = 8  # in a full spool: only whole segments give space back
_NO_NUMBER = np.iinfo(np.int64).max

_Int64s = npt.NDArray[np.int64]


@dataclass
class _Held:
    """The message that is being handed out."""

    batch: pa.RecordBatch
    numbers: _Int64s
    at: int = 0

    @property
    def rest(self) -> int:
        return self.batch.num_rows - self.at


class DiskSpool:
    """A bounded queue of stream tuples in files of its own.

    Parameters
    ----------
    schema
        The stream's.
    directory
        Where a private directory is made; the system's place for temporary files by default. On some systems that
        lies in memory.
    max_bytes
        The most bytes on disk.
    message_bytes
        The most bytes that are written and read at once, and so held in memory; a wider tuple goes alone.
    segment_bytes
        About how long a file becomes. Its space comes free when all of it was taken.

    Raises
    ------
    DamagedSpool
        When what is read is not what was written.
    SpoolWriteFailed
        When the disk takes nothing more; what was accepted before is safe and can be taken.

    Examples
    --------
    >>> schema = pa.schema([("k", pa.int64())])
    >>> with DiskSpool(schema, max_bytes="1MB") as spool:
    ...     accepted = spool.put(pa.record_batch({"k": [7, 8, 9]}, schema=schema), np.array([20, 10, 30]))
    ...     oldest = spool.oldest_number
    ...     batch, numbers = spool.take(2)
    >>> accepted, oldest, batch.column("k").to_pylist(), numbers.tolist()
    (3, 10, [7, 8], [20, 10])
    """

    def __init__(
        self,
        schema: pa.Schema,
        directory: str | os.PathLike[str] | None = None,
        max_bytes: SupportsIndex | str = "1GB",
        *,
        message_bytes: int = 64 << 10,
        segment_bytes: int = 4 << 20,
    ) -> None:
        StreamBuffer.require_supported(schema)
        self.max_bytes = parse_bytes(max_bytes, "max_bytes")
        self.num_rows = 0
        self.disk_bytes = 0
        # The numbers are the last column and found by position: the stream may use any name.
        self._schema = schema.append(pa.field("", pa.int64()))
        self._overhead_bytes = batch_overhead_bytes(self._schema) + HEADER_BYTES
        self._message_bytes = message_bytes
        self._segment_bytes = max(message_bytes, min(segment_bytes, self.max_bytes // _SEGMENTS_AT_LEAST))
        self._nothing = pa.RecordBatch.from_pylist([], self._schema)
        self._least_bytes = HEADER_BYTES + int(self._nothing.serialize().size)
        # By segment, in a ring: where it ends, and its smallest number unless it is being read.
        segments = self.max_bytes // min(self._segment_bytes, _SEGMENT_MESSAGES * self._least_bytes) + 2
        self._ends: _Int64s = np.zeros(segments, dtype=np.int64)
        self._smallest: _Int64s = np.full(segments, _NO_NUMBER, dtype=np.int64)
        # By message of the segment that is being read.
        self._unread_smallest: _Int64s = np.full(_SEGMENT_MESSAGES, _NO_NUMBER, dtype=np.int64)
        self._first = self._next = 0  # segments; the first is the one to read, the one before the next is written
        self._written_messages = 0
        self._read_messages = 0
        self._read_messages_of_segment = 0
        self._read_at = 0
        self._reader: SegmentReader | None = None
        self._writer: SegmentWriter | None = None
        self._held: _Held | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = _private_directory(directory)

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory, which never change: the index, and a message each for writing and reading.

        A tuple wider than a message is read when it is handed out, and then it is the caller's.
        """
        return self._ends.nbytes + self._smallest.nbytes + self._unread_smallest.nbytes + 2 * self._message_bytes

    @property
    def oldest_number(self) -> int | None:
        """The smallest arrival number inside; None when there is none."""
        if not self.num_rows:
            return None
        smallest = min(int(self._smallest.min()), int(self._unread_smallest.min()))
        return smallest if self._held is None else min(smallest, int(self._held.numbers[self._held.at :].min()))

    # --- in ---------------------------------------------------------------------------------------------------------

    def put(self, batch: pa.RecordBatch, numbers: _Int64s) -> int:
        """Append rows from the front of ``batch`` while there is space for them and return how many."""
        self._require_open("put")
        rows = self._numbered(batch, numbers)
        bits_before: _Int64s = np.zeros(rows.num_rows + 1, dtype=np.int64)
        np.cumsum(row_bits(rows), out=bits_before[1:])
        taken = 0
        while taken < rows.num_rows:
            body, count = self._message(rows, taken, bits_before)
            if body is None:
                break
            try:
                self._append(body, count, int(numbers[taken : taken + count].min()))
            except OSError as error:
                if taken:
                    break  # these are accepted; who comes again meets the error
                raise SpoolWriteFailed(
                    f"{self._path(self._next).parent} takes no more shed tuples ({error.strerror}), "
                    f"{self.num_rows} in {format_bytes(self.disk_bytes)} are safe: free space there, "
                    "or name another directory="
                ) from error
            taken += count
        return taken

    def _numbered(self, batch: pa.RecordBatch, numbers: _Int64s) -> pa.RecordBatch:
        columns = [*batch.columns, pa.array(numbers, pa.int64())]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _message(self, rows: pa.RecordBatch, start: int, bits_before: _Int64s) -> tuple[pa.Buffer | None, int]:
        """Return the next rows as the body of a message, and how many they are; None when there is no space."""
        free = self.max_bytes - self.disk_bytes
        if free < self._least_bytes:
            return None, 0
        target = min(self._message_bytes, free)
        room = bits_before[start] + 8 * (target - self._overhead_bytes)
        count = max(1, int(np.searchsorted(bits_before, room, side="right")) - 1 - start)
        while True:
            body = rows.slice(start, count).serialize()
            size = HEADER_BYTES + body.size
            if size <= target or (count == 1 and size <= free):
                return body, count
            if count == 1:
                return None, 0
            count = (count + 1) // 2  # nested values differ from their average

    def _append(self, body: pa.Buffer, rows: int, smallest: int) -> None:
        writer = self._writer
        if writer is None or writer.end >= self._segment_bytes or writer.messages == _SEGMENT_MESSAGES:
            writer = SegmentWriter(self._path(self._next))
        try:
            nbytes = writer.append(self._written_messages, smallest, rows, body)
        except BaseException:
            if writer is not self._writer:
                writer.remove()
            raise
        if writer is not self._writer:
            if self._writer is not None:
                self._writer.close()
            self._writer = writer
            self._next += 1
        self.num_rows += rows
        self.disk_bytes += nbytes
        self._written_messages += 1
        segment = self._next - 1
        assert self._next - self._first <= self._ends.size, "the ring is sized for the shortest segments"
        self._ends[self._slot(segment)] = writer.end
        if self._reader is not None and segment == self._first:
            self._unread_smallest[writer.messages - 1] = smallest
        else:
            slot = self._slot(segment)
            self._smallest[slot] = min(int(self._smallest[slot]), smallest)

    # --- out --------------------------------------------------------------------------------------------------------

    def take(self, max_rows: int) -> tuple[pa.RecordBatch, _Int64s]:
        """Remove and return up to ``max_rows`` of the rows put first, and their numbers.

        There are fewer when the message that they lie in ends before; there are none only in an empty spool.
        """
        self._require_open("take")
        if not self.num_rows or max_rows <= 0:
            return self._without_numbers(self._nothing), np.empty(0, dtype=np.int64)
        if self._held is None:
            self._held = self._next_message()
        held = self._held
        count = min(held.rest, max_rows)
        batch, numbers = held.batch.slice(held.at, count), held.numbers[held.at : held.at + count]
        held.at += count
        self.num_rows -= count
        if held.rest == 0:
            self._held = None
            if self._read_at == self._ends[self._slot(self._first)]:
                self._delete_first()
        return self._without_numbers(batch), numbers

    def _next_message(self) -> _Held:
        end = int(self._ends[self._slot(self._first)])
        if self._reader is None:
            self._open_first(end)
        assert self._reader is not None
        header, batch = self._reader.read(self._read_at, end, self._read_messages, self._schema)
        self._unread_smallest[self._read_messages_of_segment] = _NO_NUMBER
        self._read_messages_of_segment += 1
        self._read_messages += 1
        self._read_at += header.nbytes
        return _Held(batch, _numbers(batch))

    def _open_first(self, end: int) -> None:
        """Begin to read a segment: from here on the smallest number is kept by message."""
        reader = SegmentReader(self._path(self._first))
        try:
            smallest = self._unread_smallest.copy()
            at, message = 0, 0
            while at < end:
                header = reader.header(at, end, self._read_messages + message)
                smallest[message] = header.smallest_number
                at, message = at + header.nbytes, message + 1
        except BaseException:
            reader.close()
            raise
        self._reader = reader
        self._unread_smallest = smallest
        self._smallest[self._slot(self._first)] = _NO_NUMBER

    def _delete_first(self) -> None:
        assert self._reader is not None
        self._reader.close()
        self._reader = None
        if self._first == self._next - 1 and self._writer is not None:
            self._writer.close()
            self._writer = None
        with suppress(OSError):  # the rows are out; `close` tries again
            self._path(self._first).unlink(missing_ok=True)
        slot = self._slot(self._first)
        self.disk_bytes -= int(self._ends[slot])
        self._ends[slot] = 0
        self._first += 1
        self._read_at = self._read_messages_of_segment = 0

    # --- whole ------------------------------------------------------------------------------------------------------

    def state(self) -> pa.Table:
        """Return all rows in the order of `take`, with their numbers as last column, for a snapshot."""
        self._require_open("state")
        return pa.Table.from_batches(self._all_rows(), self._schema)

    def _all_rows(self) -> Iterator[pa.RecordBatch]:
        if self._held is not None:
            yield self._held.batch.slice(self._held.at)
        message, at = self._read_messages, self._read_at
        for segment in range(self._first, self._next):
            end = int(self._ends[self._slot(segment)])
            if at < end:
                with closing(SegmentReader(self._path(segment))) as reader:
                    while at < end:
                        header, batch = reader.read(at, end, message, self._schema)
                        yield batch
                        message, at = message + 1, at + header.nbytes
            at = 0

    def set_state(self, table: pa.Table) -> None:
        """Take over what `state` returned, into an empty spool."""
        assert self.num_rows == 0
        for batch in table.to_batches():
            if self.put(self._without_numbers(batch), _numbers(batch)) < batch.num_rows:
                raise InvalidArgument(
                    f"spool_bytes={self.max_bytes} is too small for the {table.num_rows} shed tuples of the snapshot: "
                    "give at least the spool_bytes it was taken with"
                )

    def close(self) -> None:
        """Delete everything; a second call does nothing."""
        self._held = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def __enter__(self) -> "DiskSpool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self, call: str) -> None:
        if self._directory is None:
            raise OperatorMisuse(f"{call}() on a closed spool: make a new one")

    def _slot(self, segment: int) -> int:
        return segment % self._ends.size

    def _path(self, segment: int) -> Path:
        assert self._directory is not None
        return Path(self._directory.name) / f"segment-{segment}.arrow"

    def _without_numbers(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(range(len(self._schema) - 1))

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self._directory is not None
        files = sorted(path.name for path in Path(self._directory.name).iterdir())
        assert files == sorted(self._path(segment).name for segment in range(self._first, self._next))
        sizes = [self._path(segment).stat().st_size for segment in range(self._first, self._next)]
        assert sizes == [int(self._ends[self._slot(segment)]) for segment in range(self._first, self._next)]
        assert self.disk_bytes == sum(sizes) <= self.max_bytes
        assert (self.num_rows == 0) == (not files)
        assert self._reader is not None or (self._unread_smallest == _NO_NUMBER).all()
        assert self._held is None or self._held.batch.get_total_buffer_size() <= self._message_bytes
        assert self.state().num_rows == self.num_rows


def _private_directory(parent: str | os.PathLike[str] | None) -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="semistream-spool-", dir=parent)
    except OSError as error:
        raise InvalidArgument(
            f"directory={str(parent)!r} cannot hold shed tuples ({error.strerror}): name a directory that is writable"
        ) from error


def _numbers(batch: pa.RecordBatch) -> _Int64s:
    return np.asarray(batch.column(batch.num_columns - 1).to_numpy())
