"""Disk-resident parts in spill files, which go with the join."""

from collections.abc import Iterator

import pyarrow as pa

from semistream.state.spill_file import SpillFile

__all__ = ["PartFiles"]


class PartFiles:
    """Makes a file for each part."""

    def __init__(self) -> None:
        self._parts: list[_PartFile] = []

    def new_part(self) -> "_PartFile":
        """Return a part without tuples."""
        self._parts = [part for part in self._parts if not part.is_removed]
        self._parts.append(_PartFile())
        return self._parts[-1]

    def old_part(self, reference: list[str]) -> "_PartFile":
        """Files do not outlast the join: a snapshot holds their tuples."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove all files."""
        for part in self._parts:
            part.remove()
        self._parts = []


class _PartFile:
    def __init__(self) -> None:
        self.is_removed = False
        self._file = SpillFile("a part of the state")

    def append(self, batch: pa.RecordBatch) -> None:
        self._file.append(batch.serialize())

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self._file.batches(schema)

    def reference(self) -> None:
        return None

    def remove(self) -> None:
        self.is_removed = True
        self._file.remove()
