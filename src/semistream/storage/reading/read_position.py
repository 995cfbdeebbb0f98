"""Counts reads, and tells those that go on where the last one ended from those that have to seek."""

import numpy as np
import numpy.typing as npt

from semistream.storage.reading.page_directory import PageDirectory

__all__ = ["ReadPosition"]


class ReadPosition:
    """Counts reads, and seeks: those that do not begin where the one before ended; the first read is one of them.

    Files may lie anywhere on a disk, so the first page of a file never continues the file before.
    """

    def __init__(self, pages: PageDirectory) -> None:
        self._pages = pages
        self._end: int | None = None
        self.reads = self.seeks = 0

    def read(self, first: int, count: int) -> None:
        """Count a read of ``count`` pages from ``first``."""
        begins_file = first == self._pages.file_bounds[self._pages.file[first]]
        self.seeks += int(first != self._end or begins_file)
        self.reads += 1
        self._end = first + count

    def read_all(self, pages: npt.NDArray[np.int64]) -> None:
        """Count reads of different pages, ascending, neighbours in one go."""
        if pages.size == 0:
            return
        self.read(int(pages[0]), 1)
        files = self._pages.file[pages]
        further = int(((np.diff(pages) != 1) | (np.diff(files) != 0)).sum())
        self.reads += further
        self.seeks += further
        self._end = int(pages[-1]) + 1
