"""Finds keys in a clustered table: the pages that can hold them, and their rows in pages that were read."""

import numpy as np

from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCodes, bucket_ids
from semistream.kernels.pages.page_search import rows_of_ranges, search_words
from semistream.operators.window.matching import EqualityMatching
from semistream.storage import MasterTable
from semistream.storage.reading.raw_pages import PageShape, RowGather, SlottedPages

__all__ = ["KeySearch"]


class KeySearch:
    """Finds keys by their codes in pages that are sorted by them."""

    def __init__(self, table: MasterTable, matching: EqualityMatching) -> None:
        self._matching = matching
        self._pages = table.pages
        self._bucket_pages = [self._pages.for_bucket(bucket) for bucket in range(table.buckets)]
        self.shape = PageShape(table.schema, table.key)
        # Whether pages have the codes of their keys, in words.
        self._has_words = matching.coder.exact and self.shape.columns[0].field.type.bit_width == 64

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

    def find(self, pages: SlottedPages, slots: Int64s, rows_of: Int64s, wanted: Int64s) -> tuple[Int64s, Int64s]:
        """Return the first row with each code in its page, and the row behind its last one.

        ``rows_of`` has the rows of the page in every slot.
        """
        keyed = pages.shaped(self.shape)
        if self._has_words:
            lows, highs = np.empty_like(wanted), np.empty_like(wanted)
            has_nulls = keyed.begins(0, 0)[slots] != 0
            if not has_nulls.any():
                search_words(keyed.begins(0, 1), rows_of, np.zeros_like(rows_of), slots, wanted, lows, highs)
                return lows, highs
        lows = self._bisect(keyed, slots, np.zeros_like(wanted), rows_of[slots], wanted)
        # Most keys have few rows, so the end of them is near.
        highs = self._bisect(keyed, slots, lows, rows_of[slots], wanted, behind=True)
        return lows, highs

    def _bisect(
        self, pages: SlottedPages, slots: Int64s, lows: Int64s, ends: Int64s, wanted: Int64s, *, behind: bool = False
    ) -> Int64s:
        """Return the first row from ``lows`` on whose code is not below the one wanted, or is above it (``behind``).

        Only the keys that a search meets are hashed: a few of each page instead of all.
        """
        lows, ends = lows.copy(), ends.copy()
        active = np.flatnonzero(lows < ends)
        while active.size:
            middle = (lows[active] + ends[active]) // 2
            gather = RowGather(self.shape, active.size)
            gather.add(pages, slots[active], middle, np.arange(active.size))
            codes = self._matching.master_codes(gather.finish()).code
            goes_on = codes <= wanted[active] if behind else codes < wanted[active]
            lows[active[goes_on]] = middle[goes_on] + 1
            ends[active[~goes_on]] = middle[~goes_on]
            active = active[lows[active] < ends[active]]
        return lows
