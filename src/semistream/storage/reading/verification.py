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


def verify_table(table: "MasterTable") -> None:
    """Raise DamagedTable unless every byte, row count, bucket and the order of keys are as written."""
    for bucket in range(table.buckets):
        pages = table.pages.for_bucket(bucket)
        if pages.num_pages:
            _verify_bucket(table, bucket, pages)


def _verify_bucket(table: "MasterTable", bucket: int, pages: PageDirectory) -> None:
    coder = KeyCoder(table.key, [table.schema.field(name).type for name in table.key])
    with PageReader(table, pages=pages, columns=table.key) as reader:
        last_code: np.int64 | None = None
        first = 0
        while first < pages.num_pages:
            count = pages.run_length(first, _RUN_PAGES)
            batches = reader.read(first, count).to_batches()
            if len(batches) != count:
                raise _wrong(table, pages, first, f"begins {len(batches)} pages where {count} are due")
            for page, batch in enumerate(batches, first):
                if page == pages.file_bounds[pages.file[page]]:
                    last_code = None
                last_code = _verify_page(table, pages, page, batch, coder, bucket, last_code)
            first += count


def _verify_page(
    table: "MasterTable",
    pages: PageDirectory,
    page: int,
    batch: pa.RecordBatch,
    coder: KeyCoder,
    bucket: int,
    last_code: np.int64 | None,
) -> np.int64:
    if batch.num_rows != pages.rows[page]:
        raise _wrong(table, pages, page, f"has {batch.num_rows} rows, the index says {pages.rows[page]}")
    codes = coder.codes(batch.columns)
    if table.buckets > 1 and (bucket_ids(coder, codes, table.buckets) != bucket).any():
        raise _wrong(table, pages, page, f"has rows that do not belong to bucket {bucket}")
    code: npt.NDArray[np.int64] = codes.code
    if pages.first_code is not None:
        if code[0] != pages.first_code[page]:
            raise _wrong(table, pages, page, "does not begin with the key that the index says")
        if (code[1:] < code[:-1]).any() or (last_code is not None and code[0] < last_code):
            raise _wrong(table, pages, page, "is not sorted by key")
    return np.int64(code[-1])


def _wrong(table: "MasterTable", pages: PageDirectory, page: int, problem: str) -> DamagedTable:
    file = int(pages.file[page])
    where = table.store.locate(pages.files[file].path)
    position = page - int(pages.file_bounds[file])
    return DamagedTable(f"page {position} of {where} {problem}: write it anew with replace()")
