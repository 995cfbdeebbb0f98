"""A pool of pages of R in a fixed piece of memory, least recently used out first.

::

    requests, in order ─► slot with the page ───────────────────────────────────► searched and copied where it lies
                           └ none: slots of the page unused for longest ◄─ read, all that is missing in one go

Pages stay as they are in their file. Memory is cut into slots, of which most pages take one. A larger page takes
several side by side: pages leave in the order of their last use until so many are free.
"""

from dataclasses import dataclass

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt8s
from semistream.kernels.pages.page_slots import FREE, place_pages
from semistream.operators.phases.read_counts import PageReads
from semistream.storage import PageReader
from semistream.storage.files.uncached_reads import SECTOR_BYTES
from semistream.storage.reading.raw_pages import PageShape, SlottedPages

__all__ = ["BufferPool", "SlotSizes"]

_SLOT_BYTES_BESIDE = 40  # links, page, place, last use
_BUFFER_BYTES = 8  # of the address of each buffer of a page
_CANDIDATES = (1.0, 0.99, 0.9, 0.5)  # sizes of slots to choose from: shares of the pages that fit one


@dataclass(frozen=True)
class SlotSizes:
    """How large slots are, with all that is kept beside each, and how many the largest page takes."""

    slot_bytes: int
    bytes_beside: int
    most_slots: int

    @staticmethod
    def of(reader: PageReader, shape: PageShape) -> "SlotSizes":
        """Choose the size with which all pages together would take least."""
        needed = _needed_bytes(reader)
        sizes = sorted({int(np.quantile(needed, share, method="higher")) for share in _CANDIDATES}, reverse=True)
        slot_bytes = min(sizes, key=lambda size: size * int((-(-needed // size)).sum()))
        return SlotSizes(slot_bytes, SlotSizes.beside(shape.num_buffers), -(-int(needed.max()) // slot_bytes))

    @staticmethod
    def beside(buffers: int) -> int:
        """Return the bytes beside a slot, for pages of so many buffers."""
        return _SLOT_BYTES_BESIDE + buffers * _BUFFER_BYTES

    @property
    def bytes_in_all(self) -> int:
        return self.slot_bytes + self.bytes_beside

    @property
    def least_bytes(self) -> int:
        """The memory in which any page has room."""
        return self.bytes_for(self.most_slots)

    def bytes_for(self, slots: int) -> int:
        """Return the memory of so many slots."""
        return slots * self.bytes_in_all + SECTOR_BYTES

    def slots_in(self, nbytes: int) -> int:
        """Return how many slots this memory has room for."""
        return (nbytes - SECTOR_BYTES) // self.bytes_in_all


class BufferPool:
    """Pages of a table, read when they are asked for and kept while there is room.

    Attributes
    ----------
    pages
        The pages, by the number of their first slot.
    page_in
        The number in the table of the page in each slot, or `FREE`.
    """

    BYTES_PER_PAGE = 8  # kept for every page of the table, in the pool or not

    def __init__(self, reader: PageReader, shape: PageShape, sizes: SlotSizes, capacity_bytes: int) -> None:
        self._slots_needed = (-(-_needed_bytes(reader) // sizes.slot_bytes)).astype(np.int32)
        slots = min(sizes.slots_in(capacity_bytes), int(self._slots_needed.sum()))
        self._reader = reader
        self._sizes = sizes
        self._memory = _aligned(slots * sizes.slot_bytes)
        self.pages = SlottedPages(shape, self._memory, slots)
        self.reads = PageReads(reader.pages)
        self._portion = 0
        self._used_in: Int64s = np.zeros(slots, dtype=np.int64)
        self._slot_of: Int32s = np.full(reader.pages.num_pages, FREE, dtype=np.int32)
        self.page_in: Int32s = np.full(slots, FREE, dtype=np.int32)
        self._older = np.empty(slots + 1, dtype=np.int32)
        self._newer = np.empty(slots + 1, dtype=np.int32)
        self._clear()

    def _clear(self) -> None:
        slots = self.page_in.size
        self._slot_of[:] = FREE
        self.page_in[:] = FREE
        self._older[:] = np.roll(np.arange(slots + 1), 1)
        self._newer[:] = np.roll(np.arange(slots + 1), -1)

    @property
    def num_slots(self) -> int:
        return self.page_in.size

    @property
    def nbytes(self) -> int:
        return self._sizes.bytes_for(self.num_slots)

    def fetch(self, requests: Int64s) -> Int64s:
        """Bring pages into the pool, as many of the first requests as fit together, and return their slots."""
        missing = np.empty(min(requests.size, self.num_slots), dtype=np.int64)
        self._portion += 1
        followed, misses = place_pages(
            requests,
            self._slots_needed,
            self._portion,
            self._slot_of,
            self.page_in,
            self._used_in,
            self._older,
            self._newer,
            missing,
        )
        assert followed or not requests.size, "any page fits: checked against the budget"
        self._read(missing[:misses])
        return self._slot_of[requests[:followed]].astype(np.int64)

    def _read(self, pages: Int64s) -> None:
        """Read pages into their slots; they are counted in the order in which they were asked for."""
        if not pages.size:
            return
        ascending = np.sort(pages)
        slots = self._slot_of[ascending].astype(np.int64)
        try:
            starts = self._reader.read_into_slots(ascending, self._memory, slots * self._sizes.slot_bytes)
            self.pages.place(slots, starts)
        except BaseException:
            self._clear()  # no page is in the pool whose content is not there
            raise
        self.reads.read_each(pages)
        self.reads.pages_read += pages.size
        self.reads.bytes_read += int(self._reader.pages.length[pages].sum())

    def pages_by_age(self) -> list[int]:
        """Return the pages in the pool, the one unused for longest first."""
        slots, pages = self.page_in.size, []
        slot = int(self._newer[slots])
        while slot != slots:
            if self.page_in[slot] != FREE:
                pages.append(int(self.page_in[slot]))
            slot = int(self._newer[slot])
        return pages

    def check(self) -> None:
        """Assert that each page in the pool has its slots, and each slot its place among the others."""
        pages = self.pages_by_age()
        assert sorted(pages) == np.flatnonzero(self._slot_of != FREE).tolist()
        used = 0
        for page in pages:
            first, slots = int(self._slot_of[page]), int(self._slots_needed[page])
            assert (self.page_in[first : first + slots] == page).all()
            used += slots
        assert used == int((self.page_in != FREE).sum())


def _needed_bytes(reader: PageReader) -> Int64s:
    return reader.slot_bytes(reader.pages.length)


def _aligned(nbytes: int) -> UInt8s:
    memory = np.empty(nbytes + SECTOR_BYTES, dtype=np.uint8)
    shift = -memory.ctypes.data % SECTOR_BYTES
    return memory[shift : shift + nbytes]
