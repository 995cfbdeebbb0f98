"""All pages of a version as arrays: their place and size, and the index of their first keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument
from semistream.storage.files.manifest import DataFile
from semistream.storage.files.page_index import PageIndex

__all__ = ["PageDirectory", "PageRanges", "ReadPosition"]

_Number = TypeVar("_Number", np.int32, np.int64, np.uint64)


class PageRanges(NamedTuple):
    """Pages ``[lo, hi)`` that can hold a code: one row per sorted file, one column per code."""

    lo: npt.NDArray[np.int64]
    hi: npt.NDArray[np.int64]


@dataclass(frozen=True)
class PageDirectory:
    """The pages of a version, ordered by bucket, then file, then position in the file.

    A page's number is its position in these arrays.

    Attributes
    ----------
    files
        The data files in page order.
    file, offset, length, rows, checksum
        Per page: index into ``files``, place and size in bytes, tuples, xxh3_64 of its bytes.
    first_code
        Per page: the key code of its first tuple. None for a heap.
    file_bounds, bucket_bounds
        Pages of file (bucket) ``i`` are ``bounds[i]`` to ``bounds[i + 1]``.
    """

    files: tuple[DataFile, ...]
    file: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    checksum: npt.NDArray[np.uint64]
    first_code: npt.NDArray[np.int64] | None
    file_bounds: npt.NDArray[np.int64]
    bucket_bounds: npt.NDArray[np.int64]

    @classmethod
    def build(
        cls, files: Sequence[DataFile], indexes: Sequence[PageIndex], *, buckets: int, clustered: bool
    ) -> "PageDirectory":
        """Join the page indexes of ``files``, which are ordered by bucket."""
        pages = np.array([index.offset.size for index in indexes], dtype=np.int64)
        file_bounds = np.zeros(len(files) + 1, dtype=np.int64)
        np.cumsum(pages, out=file_bounds[1:])
        bucket_of_file = np.array([file.bucket for file in files], dtype=np.int64)
        first_code: npt.NDArray[np.int64] | None = None
        if clustered:
            first_code = _joined((index.first_code for index in indexes if index.first_code is not None), np.int64)
        return cls(
            files=tuple(files),
            file=np.repeat(np.arange(len(files), dtype=np.int32), pages),
            offset=_joined((index.offset for index in indexes), np.int64),
            length=_joined((index.length for index in indexes), np.int64),
            rows=_joined((index.rows for index in indexes), np.int32),
            checksum=_joined((index.checksum for index in indexes), np.uint64),
            first_code=first_code,
            file_bounds=file_bounds,
            bucket_bounds=file_bounds[np.searchsorted(bucket_of_file, np.arange(buckets + 1))],
        )

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return self.offset.size

    @property
    def num_bytes(self) -> int:
        """Bytes of the pages on disk."""
        return int(self.length.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of these arrays in memory."""
        in_memory = self.file.nbytes + self.offset.nbytes + self.length.nbytes + self.rows.nbytes + self.checksum.nbytes
        bounds = self.file_bounds.nbytes + self.bucket_bounds.nbytes
        return in_memory + bounds + (0 if self.first_code is None else self.first_code.nbytes)

    def for_bucket(self, bucket: int) -> "PageDirectory":
        """Return the directory of one bucket, over the same memory; its pages are numbered from 0."""
        if not 0 <= bucket < self.bucket_bounds.size - 1:
            raise InvalidArgument(f"bucket={bucket} is not in the table: give 0 to {self.bucket_bounds.size - 2}")
        lo, hi = int(self.bucket_bounds[bucket]), int(self.bucket_bounds[bucket + 1])
        first_file, last_file = (int(i) for i in np.searchsorted(self.file_bounds, (lo, hi)))
        return PageDirectory(
            files=self.files[first_file:last_file],
            file=self.file[lo:hi] - np.int32(first_file),
            offset=self.offset[lo:hi],
            length=self.length[lo:hi],
            rows=self.rows[lo:hi],
            checksum=self.checksum[lo:hi],
            first_code=None if self.first_code is None else self.first_code[lo:hi],
            file_bounds=self.file_bounds[first_file : last_file + 1] - lo,
            bucket_bounds=np.array([0, hi - lo], dtype=np.int64),
        )

    def run_length(self, first: int, wanted: int) -> int:
        """Return the number of pages from ``first`` to the end of its file, at most ``wanted``."""
        return min(wanted, int(self.file_bounds[self.file[first] + 1]) - first)

    def max_run_bytes(self, run_pages: int) -> int:
        """Return the most bytes that ``run_pages`` consecutive pages of one file take."""
        if run_pages < 1:
            raise InvalidArgument(f"run_pages={run_pages} must be at least 1")
        if self.num_pages == 0:
            return 0
        bytes_before = np.zeros(self.num_pages + 1, dtype=np.int64)
        np.cumsum(self.length, out=bytes_before[1:])
        first = np.arange(self.num_pages)
        end = np.minimum(first + run_pages, self.file_bounds[self.file + 1])
        return int((bytes_before[end] - bytes_before[first]).max())

    def locate(self, codes: npt.NDArray[np.int64]) -> PageRanges:
        """Return, for every file and code, the pages that can hold tuples with that code.

        These are the pages that begin with the code, and the page before them, where its tuples may begin.
        Use the directory of the codes' bucket: files of other buckets do not hold them.
        """
        if self.first_code is None:
            raise InvalidArgument("layout='heap' keeps no index to locate keys with: stage with layout='clustered'")
        lo = np.empty((len(self.files), codes.size), dtype=np.int64)
        hi = np.empty_like(lo)
        for number, (start, end) in enumerate(zip(self.file_bounds[:-1], self.file_bounds[1:], strict=True)):
            first_codes = self.first_code[start:end]
            lo[number] = start + np.maximum(np.searchsorted(first_codes, codes, side="left") - 1, 0)
            hi[number] = start + np.searchsorted(first_codes, codes, side="right")
        return PageRanges(lo, hi)


def _joined(parts: Iterable[npt.NDArray[_Number]], dtype: type[_Number]) -> npt.NDArray[_Number]:
    """Return the parts as one array, empty for a bucket without files."""
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


class ReadPosition:
    """Counts reads and seeks. A seek is a read that does not begin where the one before ended, or the first read.

    Files may lie anywhere on a disk: a read that begins a file is always a seek.
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

    def read_each(self, pages: npt.NDArray[np.int64]) -> None:
        """Count reads of one page each, in any order."""
        if pages.size == 0:
            return
        follows = pages[1:] == pages[:-1] + 1
        begins_file = pages[1:] == self._pages.file_bounds[self._pages.file[pages[1:]]]
        self.read(int(pages[0]), 1)
        self.reads += pages.size - 1
        self.seeks += int((~follows | begins_file).sum())
        self._end = int(pages[-1]) + 1

    def read_all(self, pages: npt.NDArray[np.int64]) -> None:
        """Count the reads of distinct pages in ascending order; neighbours are one read."""
        if pages.size == 0:
            return
        self.read(int(pages[0]), 1)
        files = self._pages.file[pages]
        further = int(((np.diff(pages) != 1) | (np.diff(files) != 0)).sum())
        self.reads += further
        self.seeks += further
        self._end = int(pages[-1]) + 1
