"""Which stream chunk began at which position of the cyclic scan: when a chunk has met all of R."""

from collections.abc import Sequence

import numpy as np

__all__ = ["CHUNK_BYTES", "ChunkQueue"]

CHUNK_BYTES = 16


class ChunkQueue:
    """A ring of (start page, tuples) in scan order. Pages are counted from the first scan on, without wrapping."""

    def __init__(self, capacity: int) -> None:
        self._ring = np.zeros((max(2, capacity), 2), dtype=np.int64)
        self._first = 0
        self._size = 0

    @classmethod
    def holding(cls, chunks: Sequence[tuple[int, int]], capacity: int) -> "ChunkQueue":
        """Return a queue with these chunks and room for ``capacity``, or for all of them and one more."""
        queue = cls(max(capacity, len(chunks) + 1))
        for start_page, tuples in chunks:
            queue.push(start_page, tuples)
        return queue

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes

    @property
    def capacity(self) -> int:
        return len(self._ring)

    @property
    def is_full(self) -> bool:
        return self._size == len(self._ring)

    def push(self, start_page: int, tuples: int) -> None:
        assert not self.is_full, "the plan sizes the ring for a whole cycle"
        self._ring[(self._first + self._size) % len(self._ring)] = start_page, tuples
        self._size += 1

    def oldest(self) -> tuple[int, int]:
        start, tuples = self._ring[self._first].tolist()
        return start, tuples

    def first_start_after(self, page: int) -> int | None:
        """Return where the oldest chunk that began after ``page`` began."""
        for at in range(self._size):
            start = int(self._ring[(self._first + at) % len(self._ring), 0])
            if start > page:
                return start
        return None

    def pop(self) -> None:
        self._first = (self._first + 1) % len(self._ring)
        self._size -= 1

    def items(self) -> list[tuple[int, int]]:
        """Return (start page, tuples) of every chunk, oldest first."""
        rows = np.roll(self._ring, -self._first, axis=0)[: self._size].tolist()
        return [(start, tuples) for start, tuples in rows]
