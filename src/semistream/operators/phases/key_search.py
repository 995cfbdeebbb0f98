"""Finds keys in a clustered table: the pages that can hold them, and their rows in pages that were read."""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.keys.key_codes import KeyCodes, bucket_ids
from semistream.kernels.pages.page_search import rows_of_ranges
from semistream.operators.window.matching import EqualityMatching
from semistream.storage import MasterTable
from semistream.storage.reading.page_keys import PageKeys
from semistream.storage.reading.raw_pages import RawPages, SlottedPages

__all__ = ["KeySearch"]


class KeySearch:
    """Finds keys by their codes in pages that are sorted by them."""

    def __init__(self, table: MasterTable, matching: EqualityMatching) -> None:
        self._matching = matching
        self._pages = table.pages
        self._bucket_pages = [self._pages.for_bucket(bucket) for bucket in range(table.buckets)]
        self.keys = PageKeys(table.schema, table.key)

    def pages_of(self, codes: Int64s) -> tuple[Int64s, Int64s]:
        """Return (position of the code, page) for every page that can hold it, file by file."""
        keys: list[Int64s] = [np.empty(0, dtype=np.int64)]
        pages: list[Int64s] = [np.empty(0, dtype=np.int64)]
        buckets = bucket_ids(self._matching.coder, KeyCodes(codes, None), len(self._bucket_pages))
        for bucket, directory in enumerate(self._bucket_pages):
            asking = np.flatnonzero(buckets == bucket) if len(self._bucket_pages) > 1 else np.arange(codes.size)
            if not asking.size:
                continue
            found = directory.locate(codes[asking])
            for low, high in zip(found.lo, found.hi, strict=True):
                count = np.maximum(high - low, 0)
                keys.append(np.repeat(asking, count))
                pages.append(rows_of_ranges(low + self._pages.bucket_bounds[bucket], count))
        return np.concatenate(keys), np.concatenate(pages)

    def find(
        self, pages: RawPages | SlottedPages, numbers: Int64s | Int32s, page_of: Int64s, codes: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Find ``codes[i]`` in page ``page_of[i]`` of those that were read, and return its rows: the first, the end.

        ``numbers`` has the number in the table of each page that was read.
        """
        return self.keys.search(pages, numbers, self._pages, page_of, codes)
