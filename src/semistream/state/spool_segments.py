"""Segment files of a spool: messages one behind the other, each behind a header; checksums cover every byte.

::

    ┌ header: bytes of the body, rows, smallest arrival number, number of the message, two checksums ┐ body ┐ header …

The number of the message tells a file that took another's place. How long a file is, its reader has to know: one that
was cut between two messages looks whole.
"""

import io
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.core.errors import DamagedSpool

__all__ = ["HEADER_BYTES", "MessageHeader", "SegmentReader", "SegmentWriter"]

_FIELDS = struct.Struct("<QQqQQ")
_CHECKSUM = struct.Struct("<Q")
HEADER_BYTES = _FIELDS.size + _CHECKSUM.size


@dataclass(frozen=True)
class MessageHeader:
    """What is known of a message before its body is read."""

    body_bytes: int
    rows: int
    smallest_number: int
    sequence: int
    body_checksum: int

    @property
    def nbytes(self) -> int:
        """Bytes of the whole message."""
        return HEADER_BYTES + self.body_bytes

    def pack(self) -> bytes:
        fields = _FIELDS.pack(self.body_bytes, self.rows, self.smallest_number, self.sequence, self.body_checksum)
        return fields + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))


class SegmentWriter:
    """A new file that grows by whole messages."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = io.FileIO(path, "xb")
        self.end = 0
        self.messages = 0

    def append(self, sequence: int, smallest_number: int, rows: int, body: pa.Buffer) -> int:
        """Write a message and return its bytes; after an `OSError` the file ends where it ended before."""
        header = MessageHeader(body.size, rows, smallest_number, sequence, xxhash.xxh3_64_intdigest(body))
        try:
            self._write(header.pack(), self.end)
            self._write(body, self.end + HEADER_BYTES)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), self.end)
            raise
        self.end += header.nbytes
        self.messages += 1
        return header.nbytes

    def _write(self, content: bytes | pa.Buffer, offset: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._file.fileno(), view, offset)
            view, offset = view[written:], offset + written

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Close the file and delete it."""
        self.close()
        self._path.unlink(missing_ok=True)


class SegmentReader:
    """A file of messages, read at offsets that the caller keeps.

    Raises
    ------
    DamagedSpool
        From every method, when the file is not what was written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = io.FileIO(path, "rb")
        except OSError as error:
            raise self._damaged(f"cannot be opened ({error.strerror})") from error

    def header(self, offset: int, end: int, sequence: int) -> MessageHeader:
        """Return the header at ``offset`` of message ``sequence``, in a file of which ``end`` bytes were written."""
        raw = self._read(HEADER_BYTES, offset)
        fields = raw[: _FIELDS.size].tobytes()
        header = MessageHeader(*_FIELDS.unpack(fields))
        if raw[_FIELDS.size :].tobytes() != _CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields)):
            raise self._damaged(f"was altered near byte {offset}")
        if header.sequence != sequence or offset + header.nbytes > end:
            raise self._damaged(f"has message {header.sequence} where {sequence} was written")
        return header

    def read(self, offset: int, end: int, sequence: int, schema: pa.Schema) -> tuple[MessageHeader, pa.RecordBatch]:
        """Return the message at ``offset``; its memory is that of the batch alone."""
        header = self.header(offset, end, sequence)
        body = self._read(header.body_bytes, offset + HEADER_BYTES)
        if xxhash.xxh3_64_intdigest(body.data) != header.body_checksum:
            raise self._damaged(f"was altered after byte {offset}")
        batch = pa.ipc.read_record_batch(pa.py_buffer(body), schema)
        assert batch.num_rows == header.rows
        return header, batch

    def _read(self, length: int, offset: int) -> npt.NDArray[np.uint8]:
        content = np.empty(length, dtype=np.uint8)
        view = content.data
        while view:
            try:
                got = os.preadv(self._file.fileno(), [view], offset)
            except OSError as error:
                raise self._damaged(f"cannot be read ({error.strerror})") from error
            if got == 0:
                raise self._damaged(f"ends at byte {offset}, before what was written")
            view, offset = view[got:], offset + got
        return content

    def _damaged(self, how: str) -> DamagedSpool:
        return DamagedSpool(
            f"{self._path}, which holds shed tuples, {how}: restore the last snapshot into a new operator, "
            "with directory= on a disk that is sound"
        )

    def close(self) -> None:
        self._file.close()
