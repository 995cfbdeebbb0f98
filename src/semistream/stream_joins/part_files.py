"""Disk-resident parts as files: messages one behind the other, in a folder that goes with the join."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from semistream.core.errors import SpoolWriteFailed
from semistream.state.spool_segments import SegmentReader, SegmentWriter

__all__ = ["PartFiles"]


class PartFiles:
    """Makes a file for each part."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._parts: list[_PartFile] = []

    def new_part(self) -> "_PartFile":
        """Return a part without tuples."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="semistream-parts-")
        self._parts = [part for part in self._parts if not part.is_removed]
        self._files += 1
        self._parts.append(_PartFile(Path(self._folder.name) / f"part-{self._files}"))
        return self._parts[-1]

    def old_part(self, reference: list[str]) -> "_PartFile":
        """Files are not there any more when a join goes on elsewhere: their tuples are in its snapshot."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove all files."""
        for part in self._parts:
            part.remove()
        self._parts = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class _PartFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_removed = False
        self._sizes: list[int] = []
        self._writer: SegmentWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        try:
            if self._writer is None:
                self._writer = SegmentWriter(self._path)
            self._sizes.append(self._writer.append(len(self._sizes), 0, batch.num_rows, batch.serialize()))
        except OSError as error:
            raise SpoolWriteFailed(
                f"{self._path} cannot take a part of the state ({error.strerror}): make room on that disk, or give the "
                "join more memory, or let TMPDIR name another disk"
            ) from error

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if not self._sizes:
            return
        end, offset = sum(self._sizes), 0
        reader = SegmentReader(self._path)
        try:
            for number, size in enumerate(self._sizes):
                yield reader.read(offset, end, number, schema)[1]
                offset += size
        finally:
            reader.close()

    def reference(self) -> None:
        return None

    def remove(self) -> None:
        self.is_removed = True
        if self._writer is not None:
            self._writer.remove()
