"""Memory needs of looking tuples up one by one, and the pages' share of the rest."""

from dataclasses import dataclass

import numpy as np

from semistream.state.results import batch_bytes_for

__all__ = ["LookupMemory", "LookupSplit"]

_SEARCH_SHARE = 1 / 8
_PAIR_BYTES = 12
_ACCESS_BYTES = 64  # which tuple asks for which page, sorted, and what was found there
_COPIES_OF_RESULTS = 4  # rows by page, joined, in stream order, beside the stream's columns
_PAGE_SIZE_BYTES = 8  # of the list of what each page takes in the pool


@dataclass(frozen=True)
class LookupSplit:
    """Shares of a budget, beside what is fixed.

    Attributes
    ----------
    pages_bytes
        For the buffer pool and the space to search pages in.
    """

    stream_buffer_bytes: int
    cache_bytes: int
    pages_bytes: int


@dataclass(frozen=True, kw_only=True)
class LookupMemory:
    """Memory needs of the look-up phase.

    Attributes
    ----------
    index_bytes
        Memory of the directory of where pages lie, and their first keys.
    num_pages, largest_page_bytes
        Of the table; what the largest page takes in the pool.
    """

    budget_bytes: int
    index_bytes: int
    num_pages: int
    largest_page_bytes: int

    @property
    def pair_rows(self) -> int:
        """How many pairs of a tuple and a row are found at once."""
        return int(np.clip(self.budget_bytes // 256 // _PAIR_BYTES, 256, 65536))

    @property
    def max_accesses(self) -> int:
        """For how many pages tuples can ask in a step."""
        return int(np.clip(self.budget_bytes // 64 // _ACCESS_BYTES, 64, 1 << 20))

    @property
    def max_batch_bytes(self) -> int:
        """How large a batch of results may be."""
        return batch_bytes_for(self.budget_bytes) // 2

    @property
    def building_bytes(self) -> int:
        """What a step takes beside the pages: accesses, pairs, and results being built."""
        return (
            self.pair_rows * _PAIR_BYTES + self.max_accesses * _ACCESS_BYTES + self.max_batch_bytes * _COPIES_OF_RESULTS
        )

    @property
    def index_and_sizes_bytes(self) -> int:
        """The directory of pages, and what each takes in the pool."""
        return self.index_bytes + self.num_pages * _PAGE_SIZE_BYTES

    @property
    def fixed_bytes(self) -> int:
        """What it takes whatever its share is."""
        return self.index_and_sizes_bytes + self.building_bytes

    @property
    def least_pages_bytes(self) -> int:
        """The pool holds the largest page, and so does the space to search pages in."""
        return 2 * self.largest_page_bytes

    def search_bytes(self, pages_bytes: int) -> int:
        """Return how much of the memory for pages is for those that are searched together; they also fit the pool."""
        return min(max(self.largest_page_bytes, int(pages_bytes * _SEARCH_SHARE)), pages_bytes // 2)
