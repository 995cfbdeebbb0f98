"""Brings the blobs of a bucket into the order of the stream.

A shuffle brings blobs in the order in which map tasks happen to finish, and Spark sorts no stream. The order decides
which rows leave in this micro-batch and which wait, so a replayed batch needs the same order. All blobs are gathered
before the first is joined: in memory while there is room, then in a spill file.
"""

from collections.abc import Iterator

import pyarrow as pa

from semistream.state.spill_file import SpillFile

__all__ = ["BlobOrder"]


class BlobOrder:
    """Blobs under numbers, returned in the order of the numbers.

    Parameters
    ----------
    memory_bytes
        How many bytes of blobs stay in memory.
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
