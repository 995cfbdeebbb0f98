"""A pool of pages of R in a fixed number of bytes, least recently used out first."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.operators.phases.read_counts import PageReads
from semistream.storage import PageReader, decoded_overhead_bytes

__all__ = ["BufferPool", "PooledPage"]

_Number = TypeVar("_Number", float, npt.NDArray[np.int64])


@dataclass(frozen=True)
class PooledPage:
    """A decoded page and the key codes of its rows."""

    rows: pa.RecordBatch
    codes: npt.NDArray[np.int64]
    nbytes: int


class BufferPool:
    """Pages of a table, read when they are asked for and kept while there is room."""

    def __init__(
        self,
        reader: PageReader,
        capacity_bytes: int,
        page_codes: Callable[[pa.RecordBatch], npt.NDArray[np.int64]],
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.page_bytes = self.bytes_for(reader.schema, reader.pages.length, reader.pages.rows.astype(np.int64))
        self.nbytes = 0
        self.reads = PageReads(reader.pages)
        self._reader = reader
        self._page_codes = page_codes
        self._pages: OrderedDict[int, PooledPage] = OrderedDict()

    @staticmethod
    def bytes_for(schema: pa.Schema, length: _Number, rows: _Number) -> _Number:
        """Return what a page of so many bytes and rows takes, with the objects around it and the codes of its keys."""
        return length + 8 * rows + decoded_overhead_bytes(schema)

    def get(self, pages: Sequence[int]) -> list[PooledPage]:
        """Return the pages, in this order; the caller asks for no more at once than fit."""
        found = {page: self._pages[page] for page in pages if page in self._pages}
        for page in found:
            self._pages.move_to_end(page)
        missing = [page for page in dict.fromkeys(pages) if page not in found]
        self._make_room(int(self.page_bytes[missing].sum()))
        # All are read before one is decoded: waiting for the disk, a core forgets the code and data it worked with.
        raw = [self._read(page) for page in missing]
        for page, content in zip(missing, raw, strict=True):
            rows = self._reader.decode_page(page, content)
            pooled = PooledPage(rows, self._page_codes(rows), int(self.page_bytes[page]))
            found[page] = self._pages[page] = pooled
            self.nbytes += pooled.nbytes
        return [found[page] for page in pages]

    def _make_room(self, needed_bytes: int) -> None:
        while self.nbytes + needed_bytes > self.capacity_bytes:
            assert self._pages, "what is asked for at once fits: checked against the budget"
            _, evicted = self._pages.popitem(last=False)
            self.nbytes -= evicted.nbytes

    def _read(self, page: int) -> memoryview:
        content = self._reader.read_page(page)
        self.reads.read(page, 1)
        self.reads.pages_read += 1
        self.reads.bytes_read += len(content)
        return content
