"""Where the last read ended: tells reads that go on from there from those that have to seek."""

from semistream.storage.page_directory import PageDirectory

__all__ = ["ReadPosition"]


class ReadPosition:
    """Counts reads that do not begin where the one before ended; the first read is one of them.

    Files may lie anywhere on a disk, so the first page of a file never continues the file before.
    """

    def __init__(self, pages: PageDirectory) -> None:
        self._pages = pages
        self._end: int | None = None
        self.seeks = 0

    def read(self, first: int, count: int) -> None:
        """Count a read of ``count`` pages from ``first``."""
        begins_file = first == self._pages.file_bounds[self._pages.file[first]]
        self.seeks += int(first != self._end or begins_file)
        self._end = first + count
