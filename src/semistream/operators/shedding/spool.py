"""Shed stream tuples on disk: first in, first out, with their arrival numbers, in a fixed share of memory and of disk.

::

    put ─ messages ─► segment n ┐            ┌ segment 0 ─ one message in memory ─► take
                                └─  …  ──────┘ (deleted once read)

Memory holds the message being read, the message being written, and an entry per segment. No accepted tuple waits in
memory to be written.
"""

import os
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import SupportsIndex

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument, OperatorMisuse, SpoolWriteFailed
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.kernels.arrays import Int64s
from semistream.operators.shedding.shed_store import ArrivalCounts, numbered, split_numbers
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.spill_file import HEADER_BYTES, SpillFile
from semistream.storage.files.row_sizes import batch_overhead_bytes, row_bits

__all__ = ["DiskSpool"]

_SEGMENTS_AT_LEAST = 8  # in a full spool: only whole segments give space back
_SEGMENT_ENTRY_BYTES = 256  # a SpillFile with its path


class DiskSpool:
    """A bounded queue of stream tuples in files of its own, in a private directory inside ``directory``.

    A message is what is written, read and held in memory at once; a tuple wider than ``message_bytes`` goes alone. A
    segment is a file of about ``segment_bytes``. If the disk takes no more, tuples accepted before are safe.
    """

    def __init__(
        self,
        schema: pa.Schema,
        directory: str | os.PathLike[str] | None = None,
        max_bytes: SupportsIndex | str = "1GB",
        *,
        message_bytes: int = 64 << 10,
        segment_bytes: int = 16 << 20,
    ) -> None:
        StreamBuffer.require_supported(schema)
        self.max_bytes = parse_bytes(max_bytes, "max_bytes")
        self.num_rows = 0
        self.disk_bytes = 0
        self._schema = schema.append(pa.field("", pa.int64()))  # found by position: the stream may use any name
        self._nothing = pa.RecordBatch.from_pylist([], self._schema)
        self._least_bytes = HEADER_BYTES + int(self._nothing.serialize().size)
        self._overhead_bytes = HEADER_BYTES + batch_overhead_bytes(self._schema)
        self._message_bytes = message_bytes
        self._segment_bytes = max(message_bytes, min(segment_bytes, self.max_bytes // _SEGMENTS_AT_LEAST))
        self._segments: deque[SpillFile] = deque()  # the first is read, the last is written
        self._segments_made = 0
        self._read_at = 0
        self._held: pa.RecordBatch | None = None  # the rest of the message last read
        self._inside = ArrivalCounts()
        self._directory: tempfile.TemporaryDirectory[str] | None
        try:
            self._directory = tempfile.TemporaryDirectory(prefix="semistream-spool-", dir=directory)
        except OSError as error:
            raise InvalidArgument(
                f"directory={str(directory)!r} cannot hold shed tuples ({error.strerror}): "
                "name a directory that is writable"
            ) from error

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory, which never change: the most segments, the counts, a message each for writing and reading.

        A tuple wider than a message is read when it is handed out, and then it is the caller's.
        """
        most_segments = self.max_bytes // self._segment_bytes + 2
        return most_segments * _SEGMENT_ENTRY_BYTES + self._inside.nbytes + 2 * self._message_bytes

    @property
    def oldest_number(self) -> int | None:
        """No tuple inside has a smaller arrival number; None if there is no tuple."""
        return self._inside.lower_bound

    # --- in ---------------------------------------------------------------------------------------------------------

    def put(self, batch: pa.RecordBatch, numbers: Int64s) -> int:
        """Take rows from the front of ``batch`` while they fit and return how many."""
        self._require_open("put")
        rows = numbered(batch, numbers, self._schema)
        bits_before: Int64s = np.zeros(rows.num_rows + 1, dtype=np.int64)
        np.cumsum(row_bits(rows), out=bits_before[1:])
        taken = 0
        while taken < rows.num_rows:
            message, count = self._message(rows, taken, bits_before)
            if message is None:
                break
            try:
                self._append(message)
            except SpoolWriteFailed as error:
                if taken:
                    break  # these are accepted; the next call meets the error
                raise SpoolWriteFailed(
                    f"{error}; the {self.num_rows} in {format_bytes(self.disk_bytes)} there are safe"
                ) from error.__cause__
            self._inside.add(numbers[taken : taken + count])
            self.num_rows += count
            taken += count
        return taken

    def _message(self, rows: pa.RecordBatch, start: int, bits_before: Int64s) -> tuple[pa.Buffer | None, int]:
        """Return the next rows as a message, and how many they are; None if there is no space."""
        free = self.max_bytes - self.disk_bytes
        if free < self._least_bytes:
            return None, 0
        target = min(self._message_bytes, free)
        room = bits_before[start] + 8 * (target - self._overhead_bytes)
        count = max(1, int(np.searchsorted(bits_before, room, side="right")) - 1 - start)
        while True:
            message = rows.slice(start, count).serialize()
            size = HEADER_BYTES + message.size
            if size <= target or (count == 1 and size <= free):
                return message, count
            if count == 1:
                return None, 0
            count = (count + 1) // 2  # nested values differ from their average

    def _append(self, message: pa.Buffer) -> None:
        if not self._segments or self._segments[-1].nbytes >= self._segment_bytes:
            assert self._directory is not None
            path = f"{self._directory.name}/segment-{self._segments_made}.arrow"
            segment = SpillFile("shed tuples", path, "directory=")
            segment.append(message)
            if self._segments:
                self._segments[-1].close_descriptor()
            self._segments.append(segment)
            self._segments_made += 1
        else:
            self._segments[-1].append(message)
        self.disk_bytes += HEADER_BYTES + message.size

    # --- out --------------------------------------------------------------------------------------------------------

    def take(self, max_rows: int) -> tuple[pa.RecordBatch, Int64s]:
        """Remove and return up to ``max_rows`` of the rows put first; fewer if their message ends before."""
        self._require_open("take")
        if not self.num_rows or max_rows <= 0:
            return split_numbers(self._nothing)
        if self._held is None:
            message, self._read_at = self._segments[0].read(self._read_at)
            self._held = pa.ipc.read_record_batch(message, self._schema)
        batch, numbers = split_numbers(self._held.slice(0, max_rows))
        self._held = self._held.slice(max_rows) if max_rows < self._held.num_rows else None
        self.num_rows -= batch.num_rows
        self._inside.remove(numbers)
        if self._held is None and self._read_at == self._segments[0].nbytes:
            self._delete_first()
        return batch, numbers

    def _delete_first(self) -> None:
        first = self._segments.popleft()
        self.disk_bytes -= first.nbytes
        self._read_at = 0
        with suppress(OSError):  # the rows are out; `close` tries again
            first.remove()

    # --- whole ------------------------------------------------------------------------------------------------------

    def state(self) -> pa.Table:
        """Return all rows in the order of `take`, with their numbers as last column."""
        self._require_open("state")
        return pa.Table.from_batches(self._all_rows(), self._schema)

    def _all_rows(self) -> Iterator[pa.RecordBatch]:
        if self._held is not None:
            yield self._held
        offset = self._read_at
        for segment in self._segments:
            yield from segment.batches(self._schema, offset)
            segment.close_descriptor()
            offset = 0

    def set_state(self, table: pa.Table) -> None:
        assert self.num_rows == 0
        for batch in table.to_batches():
            if self.put(*split_numbers(batch)) < batch.num_rows:
                raise InvalidArgument(
                    f"spool_bytes={self.max_bytes} is too small for the {table.num_rows} shed tuples of the snapshot: "
                    "give at least the spool_bytes it was taken with"
                )

    def close(self) -> None:
        self._held = None
        for segment in self._segments:
            segment.close_descriptor()
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

    def _check(self) -> None:
        assert self._directory is not None
        files = {str(path): path.stat().st_size for path in Path(self._directory.name).iterdir()}
        assert files == {segment.path: segment.nbytes for segment in self._segments}
        assert self.disk_bytes == sum(files.values()) <= self.max_bytes
        assert (self.num_rows == 0) == (not files)
        assert all(segment.nbytes >= self._segment_bytes for segment in list(self._segments)[:-1])
        assert self._held is None or self._held.get_total_buffer_size() <= self._message_bytes
        numbers = self.state().column(len(self._schema) - 1).to_numpy()
        assert len(numbers) == self.num_rows
        assert self.oldest_number is None if not self.num_rows else self.oldest_number <= numbers.min()
