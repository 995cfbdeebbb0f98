"""A pool of pages of R in a fixed number of bytes, least recently used out first."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.storage import PageReader, ReadPosition

__all__ = ["BufferPool", "PooledPage"]

_PAGE_OVERHEAD_BYTES = 512  # the objects around a decoded page


@dataclass(frozen=True)
class PooledPage:
    """A decoded page and the key codes of its rows."""

    rows: pa.RecordBatch
    codes: npt.NDArray[np.int64]
    nbytes: int


class BufferPool:
    """Pages of a table, read when they are asked for and kept while there is room.

    Parameters
    ----------
    page_codes
        Returns the key codes of a page's rows.
    """

    def __init__(
        self,
        reader: PageReader,
        capacity_bytes: int,
        page_codes: Callable[[pa.RecordBatch], npt.NDArray[np.int64]],
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.nbytes = 0
        self.pages_read = 0
        self.bytes_read = 0
        self._position = ReadPosition(reader.pages)
        self._reader = reader
        self._page_codes = page_codes
        self._pages: OrderedDict[int, PooledPage] = OrderedDict()

    @property
    def seeks(self) -> int:
        """Reads that did not begin where the one before ended."""
        return self._position.seeks

    @staticmethod
    def bytes_for(reader: PageReader, pages: slice) -> npt.NDArray[np.int64]:
        """Return what each of these pages takes in the pool."""
        codes_bytes = reader.pages.rows[pages].astype(np.int64) * 8
        return reader.pages.length[pages] + codes_bytes + (len(reader.header) + _PAGE_OVERHEAD_BYTES)

    def get(self, pages: Sequence[int]) -> list[PooledPage]:
        """Return the pages, in this order; the caller asks for no more at once than fit."""
        found = {page: self._pages[page] for page in pages if page in self._pages}
        for page in found:
            self._pages.move_to_end(page)
        for page in pages:
            if page not in found:
                found[page] = self._load(page)
        return [found[page] for page in pages]

    def _load(self, page: int) -> PooledPage:
        needed = int(self.bytes_for(self._reader, slice(page, page + 1))[0])
        while self.nbytes + needed > self.capacity_bytes:
            assert self._pages, "a single page fits: checked against the budget"
            _, evicted = self._pages.popitem(last=False)
            self.nbytes -= evicted.nbytes
        rows = self._reader.read(page).to_batches()[0]
        pooled = PooledPage(rows, self._page_codes(rows), needed)
        self.pages_read += 1
        self.bytes_read += self._reader.run_bytes(page, 1)
        self._position.read(page, 1)
        self._pages[page] = pooled
        self.nbytes += needed
        return pooled
