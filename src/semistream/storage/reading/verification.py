"""Reads a whole version and compares it with the manifest and the indexes."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import DamagedTable
from semistream.kernels.keys.key_codes import KeyCoder, bucket_ids
from semistream.storage.reading.page_directory import PageDirectory
from semistream.storage.reading.page_reader import PageReader

if TYPE_CHECKING:
    from semistream.storage.table import MasterTable

__all__ = ["verify_table"]

_RUN_PAGES = 16
_RUN_BYTES = 1 << 20


def verify_table(table: "MasterTable") -> None:
    """Raise DamagedTable unless every byte, row count, bucket and the order of keys are as written."""
    for bucket in range(table.buckets):
        pages = table.pages.for_bucket(bucket)
        if pages.num_pages:
            _BucketCheck(table, bucket, pages).verify()


class _BucketCheck:
    """Reads the pages of a bucket in order, a few at a time."""

    def __init__(self, table: "MasterTable", bucket: int, pages: PageDirectory) -> None:
        self._table = table
        self._bucket = bucket
        self._pages = pages
        self._coder = KeyCoder(table.key, [table.schema.field(name).type for name in table.key])
        self._last_code: np.int64 | None = None  # of the page before in the same file

    def verify(self) -> None:
        first = 0
        with PageReader(self._table, pages=self._pages, columns=self._table.key) as reader:
            while first < self._pages.num_pages:
                count = self._run_length(first)
                self._verify_run(first, count, reader.read(first, count))
                first += count

    def _run_length(self, first: int) -> int:
        """Return how many pages to read together: large ones alone."""
        count = self._pages.run_length(first, _RUN_PAGES)
        ends = np.cumsum(self._pages.length[first : first + count])
        return max(1, int(np.searchsorted(ends, _RUN_BYTES, side="right")))

    def _verify_run(self, first: int, count: int, run: pa.Table) -> None:
        batches = run.to_batches()
        if len(batches) != count:
            raise self._wrong(first, f"begins {len(batches)} pages where {count} are due")
        for page, batch in enumerate(batches, first):
            self._verify_page(page, batch)

    def _verify_page(self, page: int, batch: pa.RecordBatch) -> None:
        pages = self._pages
        if batch.num_rows != pages.rows[page]:
            raise self._wrong(page, f"has {batch.num_rows} rows, the index says {pages.rows[page]}")
        codes, buckets = self._coder.codes(batch.columns), self._table.buckets
        if buckets > 1 and (bucket_ids(self._coder, codes, buckets) != self._bucket).any():
            raise self._wrong(page, f"has rows that do not belong to bucket {self._bucket}")
        code: npt.NDArray[np.int64] = codes.code
        if pages.first_code is not None:
            if code[0] != pages.first_code[page]:
                raise self._wrong(page, "does not begin with the key that the index says")
            begins_file = page == pages.file_bounds[pages.file[page]]
            before = None if begins_file else self._last_code
            if (code[1:] < code[:-1]).any() or (before is not None and code[0] < before):
                raise self._wrong(page, "is not sorted by key")
        self._last_code = np.int64(code[-1])

    def _wrong(self, page: int, problem: str) -> DamagedTable:
        file = int(self._pages.file[page])
        where = self._table.store.locate(self._pages.files[file].path)
        position = page - int(self._pages.file_bounds[file])
        return DamagedTable(f"page {position} of {where} {problem}: write it anew with replace()")
