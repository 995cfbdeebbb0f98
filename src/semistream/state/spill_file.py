"""Spill files: what outgrows its share of memory waits on disk.

::

    ┌ length │ checksum ┐ Arrow IPC message ┌ length │ checksum ┐ Arrow IPC message …
    ▲ offset 0                              ▲ offset of the second message

A file keeps no index in memory: who reads it from the front needs one offset, who reads it in another order keeps the
offsets of the messages.
"""

import io
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import xxhash

from semistream.core.errors import DamagedSpool, SpoolWriteFailed

__all__ = ["HEADER_BYTES", "SpillFile"]

_HEADER = struct.Struct("<QQ")
HEADER_BYTES = _HEADER.size
"""Bytes on disk in front of each message."""


class SpillFile:
    """Messages of a temporary file, appended at the end and read at their offsets.

    Without a ``path``, where the first `append` makes the file, it has no name: it lies in the system's folder for
    temporary files and vanishes with the process, even if that is killed. Errors name what the messages are
    (``holds``) and the setting that chooses the disk (``disk_option``). A message that cannot be read, or is not what
    was written there, raises `DamagedSpool`, and a disk that takes no more `SpoolWriteFailed`: what it has is safe.
    """

    __slots__ = ("_disk_option", "_file", "_holds", "nbytes", "path")

    def __init__(self, holds: str, path: str | None = None, disk_option: str = "TMPDIR") -> None:
        self.path = path
        self.nbytes = 0
        self._holds = holds
        self._disk_option = disk_option
        self._file: io.FileIO | None = None

    def append(self, message: bytes | pa.Buffer) -> int:
        """Write a message and return its offset; if that fails, the file stays as it was."""
        offset, size = self.nbytes, len(message)
        try:
            self._write(_HEADER.pack(size, self._checksum(message, offset)), offset)
            self._write(message, offset + HEADER_BYTES)
        except OSError as error:
            with suppress(OSError):
                if offset:
                    os.ftruncate(self._descriptor(), offset)
                else:
                    self.remove()
            raise SpoolWriteFailed(
                f"{self._name} takes no more {self._holds} ({error.strerror}): free space there, give the join more "
                f"memory, or let {self._disk_option} name another disk"
            ) from error
        self.nbytes += HEADER_BYTES + size
        return offset

    def read(self, offset: int) -> tuple[pa.Buffer, int]:
        """Return the message at ``offset``, and the offset of the next."""
        size, checksum = _HEADER.unpack(self._read(HEADER_BYTES, offset))
        start = offset + HEADER_BYTES
        if start + size > self.nbytes:
            raise self._damaged(f"was altered near byte {offset}")
        message = self._read(size, start)
        if self._checksum(message, offset) != checksum:
            raise self._damaged(f"was altered after byte {offset}")
        return message, start + size

    def batches(self, schema: pa.Schema, offset: int = 0) -> Iterator[pa.RecordBatch]:
        """Read the messages from ``offset`` on as record batches."""
        while offset < self.nbytes:
            message, offset = self.read(offset)
            yield pa.ipc.read_record_batch(message, schema)

    def close_descriptor(self) -> None:
        """Close a file that has a path; the next `append` or `read` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Delete the file; a second call does nothing."""
        self.close_descriptor()
        self.nbytes = 0
        if self.path is not None:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def _descriptor(self) -> int:
        if self._file is None:
            if self.path is not None:
                self._file = io.FileIO(self.path, "r+" if self.nbytes else "w+")
            else:
                self._file = tempfile.TemporaryFile(buffering=0, prefix="semistream-")  # noqa: SIM115 (see remove)
        return self._file.fileno()

    def _write(self, content: bytes | pa.Buffer, offset: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._descriptor(), view, offset)
            view, offset = view[written:], offset + written

    def _read(self, size: int, offset: int) -> pa.Buffer:
        content: pa.Buffer = pa.allocate_buffer(size)
        view = memoryview(content)
        while view:
            try:
                got = os.preadv(self._descriptor(), [view], offset)
            except OSError as error:
                raise self._damaged(f"cannot be read ({error.strerror})") from error
            if got == 0:
                raise self._damaged(f"ends at byte {offset}, before what was written")
            view, offset = view[got:], offset + got
        return content

    def _checksum(self, message: bytes | pa.Buffer, offset: int) -> int:
        """Return the checksum of a message in this place: one of another file or offset has another."""
        place = xxhash.xxh3_64_intdigest((self.path or "").encode()) ^ offset
        return xxhash.xxh3_64_intdigest(message, place)

    @property
    def _name(self) -> str:
        return self.path or f"a file in {tempfile.gettempdir()}"

    def _damaged(self, how: str) -> DamagedSpool:
        return DamagedSpool(
            f"{self._name}, which holds {self._holds}, {how}: restore the last snapshot into a new operator, "
            f"with {self._disk_option} on a disk that is sound"
        )
