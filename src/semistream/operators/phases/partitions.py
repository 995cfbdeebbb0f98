"""Fixed partitions of a clustered table: ranges of key codes, each with all the pages that can hold its keys.

S1's proof that no partition is read more often than MESHJOIN would (Theorem 1) needs partitions that do not depend on
the key that asks for them. A range of codes is one. It holds a key's rows whole, wherever they cross pages and in
however many sorted files they lie after an append, so that every tuple of the range is answered by one reading of it.

::

    codes      B0 ──────────── B1 ──────────── B2 ──────────── B3
    file 1     | page | page | page | page | page | page |
    file 2        |    page    |    page    |
                               └─ partition 1 ─┘   pages of all files that can hold codes from B1 to B2
"""

import numpy as np
import numpy.typing as npt

from semistream.storage import PageDirectory

__all__ = ["Partitions"]

_Int64s = npt.NDArray[np.int64]


class Partitions:
    """The partitions of all buckets of a clustered table, numbered through.

    One that begins or ends inside a page has more than ``pages_per_partition``, and so has one of a key that fills it.
    """

    def __init__(self, pages: PageDirectory, buckets: int, pages_per_partition: int) -> None:
        assert pages.first_code is not None
        self._pages = pages
        self._first_code = pages.first_code
        self._bucket_of_file = np.array([file.bucket for file in pages.files], dtype=np.int64)
        bounds = []
        self._first_of_bucket = np.zeros(buckets + 1, dtype=np.int64)
        for bucket in range(buckets):
            low, high = pages.bucket_bounds[bucket : bucket + 2]
            # Equal first codes are one key that fills pages: it cannot be cut.
            bounds.append(np.unique(np.sort(self._first_code[low:high])[::pages_per_partition]))
            self._first_of_bucket[bucket + 1] = self._first_of_bucket[bucket] + bounds[-1].size
        self._low_code = np.concatenate(bounds)

    @staticmethod
    def bytes_for(partitions: int, buckets: int, files: int) -> int:
        """Return the memory of so many partitions; there are never more of them than pages."""
        return 8 * (partitions + buckets + 1) + 8 * files

    def __len__(self) -> int:
        return self._low_code.size

    @property
    def nbytes(self) -> int:
        return self._low_code.nbytes + self._first_of_bucket.nbytes + self._bucket_of_file.nbytes

    def of(self, codes: _Int64s, buckets: npt.NDArray[np.int32]) -> _Int64s:
        """Return the partition of every code, or -1 where the code is below all codes of its bucket."""
        found = np.full(codes.size, -1, dtype=np.int64)
        for bucket in np.unique(buckets):
            first, end = self._first_of_bucket[bucket : bucket + 2]
            asking = np.flatnonzero(buckets == bucket)
            position = np.searchsorted(self._low_code[first:end], codes[asking], side="right") - 1
            found[asking] = np.where(position >= 0, first + position, -1)
        return found

    def code_range(self, partition: int) -> tuple[int, int | None]:
        """Return the first code of a partition and the first of the next; None when there is no next."""
        end = np.searchsorted(self._first_of_bucket, partition, side="right")
        last = partition + 1 == self._first_of_bucket[end]
        return int(self._low_code[partition]), None if last else int(self._low_code[partition + 1])

    def page_ranges(self, partition: int) -> list[tuple[int, int]]:
        """Return (first page, end) in every file that can hold codes of the partition."""
        low, high = self.code_range(partition)
        bucket = int(np.searchsorted(self._first_of_bucket, partition, side="right")) - 1
        ranges = []
        for file in np.flatnonzero(self._bucket_of_file == bucket):
            start, end = self._pages.file_bounds[file : file + 2]
            first_codes = self._first_code[start:end]
            # The page before the first that begins with the code may end with it.
            first = max(0, int(np.searchsorted(first_codes, low, side="left")) - 1)
            stop = int(end - start) if high is None else int(np.searchsorted(first_codes, high, side="left"))
            if stop > first:
                ranges.append((int(start) + first, int(start) + stop))
        return ranges
