"""Sizes of R's pages, real or assumed, for planning memory."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semistream.storage import PageReader, ReadAhead

__all__ = ["PageSizes"]


@dataclass(frozen=True, kw_only=True)
class PageSizes:
    """Sizes of the pages that a join reads.

    Attributes
    ----------
    pages_per_file
        Pages of each file, one after the other; a read never crosses a file.
    rows_per_page
        Of the page with most rows.
    index_bytes
        Memory of the directory of where pages lie.
    header_bytes
        What precedes pages in a buffer that is to be decoded.
    run_bytes
        Returns the most bytes that so many consecutive pages of one file take.
    """

    pages_per_file: tuple[int, ...]
    rows_per_page: int
    index_bytes: int
    header_bytes: int
    run_bytes: Callable[[int], int]

    @staticmethod
    def of(reader: PageReader) -> "PageSizes":
        """Return the sizes of the pages that ``reader`` reads."""
        pages = reader.pages
        return PageSizes(
            pages_per_file=tuple(np.diff(pages.file_bounds).tolist()),
            rows_per_page=int(pages.rows.max()),
            index_bytes=pages.nbytes,
            header_bytes=len(reader.header),
            run_bytes=pages.max_run_bytes,
        )

    @property
    def num_pages(self) -> int:
        return sum(self.pages_per_file)

    def reads(self, b: int) -> int:
        """Return how many reads of up to ``b`` pages a scan of all pages takes."""
        return sum(-(-pages // b) for pages in self.pages_per_file)

    def reading_bytes(self, read_pages: int) -> int:
        """Return the memory of reading so many pages at a time, those in use included."""
        return ReadAhead.bytes_for(self.header_bytes, self.run_bytes(read_pages))
