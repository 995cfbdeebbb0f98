"""Brings the blobs of a bucket into the order in which the stream has them.

A shuffle brings blobs in the order in which map tasks happen to finish, and Spark sorts no stream. Which rows are
joined first decides which rows leave in this micro-batch and which wait, so the order has to be the same when the
batch is replayed. Blobs are gathered before the first of them is joined: in memory as far as there is room, else in a
file that vanishes with its task.
"""

import tempfile
from collections.abc import Iterator
from typing import IO

__all__ = ["BlobOrder"]


class BlobOrder:
    """Blobs under numbers, given back in the order of the numbers.

    Parameters
    ----------
    memory_bytes
        How many bytes of blobs are kept in memory.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._held: dict[tuple[int, int], bytes] = {}
        self._spilled: dict[tuple[int, int], tuple[int, int]] = {}
        self._file: IO[bytes] | None = None

    def add(self, part: int, number: int, blob: bytes) -> None:
        """Take a blob; the numbers of a part are different from each other."""
        place = (part, number)
        assert place not in self._held
        assert place not in self._spilled
        if len(blob) <= self._memory_bytes:
            self._memory_bytes -= len(blob)
            self._held[place] = blob
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="semistream-blobs-")  # noqa: SIM115 (closed by close)
        self._spilled[place] = self._file.tell(), len(blob)
        self._file.write(blob)

    def __iter__(self) -> Iterator[bytes]:
        """Yield all blobs, part by part, and let go of each."""
        for place in sorted([*self._held, *self._spilled]):
            if place in self._held:
                yield self._held.pop(place)
            else:
                assert self._file is not None
                start, length = self._spilled[place]
                self._file.seek(start)
                yield self._file.read(length)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
