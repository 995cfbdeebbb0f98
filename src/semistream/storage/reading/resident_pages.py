"""Pages that lie in the page cache: searched and copied from where they lie, without reading them.

A page is used in place once it is *ready*: found in memory, and its checksum and form checked, once by this process. The
system may evict it later. What it evicted is found out by samples and read again in batches, never by faults one at a
time. The memory is the page cache's: the budget does not count it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semistream.kernels.arrays import Bools, Int64s, UInt8s, UInt64s
from semistream.kernels.pages.in_place import NOT_READY, buffers_of, find_in_place
from semistream.kernels.pages.row_gather import find_lists
from semistream.storage.files.mapped_file import MappedFile
from semistream.storage.reading.page_reader import PageReader
from semistream.storage.reading.raw_pages import PageShape

__all__ = ["PageRows", "ResidentPages", "RowsInPlace"]

_READY, _ODD = 1, 2  # odd pages are never used in place; of others nothing is known
_SAMPLE = 32
_EVICTED_SHARE = 1 / 16


class PageRows(NamedTuple):
    """For each key the page with its rows, the first of them and their number, which may be `NOT_READY`."""

    page: Int64s
    first: Int64s
    count: Int64s


class ResidentPages:
    """The ready pages of a clustered table whose key is one column of 64-bit integers.

    Parameters
    ----------
    reader
        Reads the table; it opens and verifies the files.
    shape
        The columns wanted.
    key
        The name of the key column.
    """

    def __init__(self, reader: PageReader, shape: PageShape, key: str) -> None:
        self._reader = reader
        self._pages = reader.pages
        self.shape = shape
        self._key_buffer = PageShape(shape.message_schema, [key]).columns[0].first_buffer + 1
        self._list_at = -1
        self._is_ready = np.zeros(self._pages.num_pages, dtype=np.uint8)
        self._files: dict[int, MappedFile | None] = {}
        self._bases = np.zeros(len(self._pages.files), dtype=np.uint64)
        self._has_buffer = np.zeros(shape.num_buffers, dtype=np.bool_)  # in any ready page
        self._random = np.random.default_rng(0)

    @property
    def nbytes(self) -> int:
        return self._is_ready.nbytes + self._bases.nbytes

    def find(self, codes: Int64s, places: Int64s, files: Sequence[int], out: PageRows) -> None:
        """Find ``codes[place]`` for the places in some files; each adds to what was found in others."""
        for number in files:
            first, stop = (int(bound) for bound in self._pages.file_bounds[number : number + 2])
            mapped = self._files.get(number)
            if mapped is None or not self._is_ready[first:stop].any():
                out.count[places] = NOT_READY
                return
            assert self._pages.first_code is not None
            find_in_place(
                codes,
                places,
                self._pages.first_code[first:stop],
                first,
                self._bases[number],
                self._pages.offset[first:stop],
                self._pages.length[first:stop],
                self._pages.rows[first:stop],
                self._is_ready[first:stop],
                self._list_at,
                self._key_buffer,
                *out,
            )

    def admit(self, pages: Int64s) -> None:
        """Make those of some distinct pages ready that are resident."""
        unknown = pages[self._is_ready[pages] == 0]
        files = self._pages.file[unknown]
        for number in np.unique(files).tolist():
            mapped = self._mapped(number)
            if mapped is None:
                continue
            here = unknown[files == number]
            here = here[mapped.are_resident(self._pages.offset[here], self._pages.length[here])]
            if here.size:
                self._reader.verify_in_place(here, mapped.content)
                self._admit(here, mapped.content)

    def _mapped(self, number: int) -> MappedFile | None:
        if number not in self._files:
            mapped = self._files[number] = self._reader.map_file(number)
            self._bases[number] = 0 if mapped is None else mapped.address
        return self._files[number]

    def _admit(self, pages: Int64s, content: UInt8s) -> None:
        starts = self._pages.offset[pages]
        lists = np.empty(pages.size, dtype=np.int64)
        find_lists(content, starts, self.shape.num_buffers, lists)
        if self._list_at < 0:
            self._list_at = int(lists[0])
        is_plain = lists == self._list_at
        words = content[: content.size // 8 * 8].view(np.int64)
        lengths_at = (starts[is_plain] + self._list_at) // 8 + 1
        has_buffer = np.array([words[lengths_at + 2 * buffer] > 0 for buffer in range(self.shape.num_buffers)])
        has_null_keys = has_buffer[self._key_buffer - 1]
        self._is_ready[pages] = _ODD
        self._is_ready[pages[is_plain][~has_null_keys]] = _READY
        self._has_buffer |= has_buffer.any(axis=1)

    def notice_evictions(self, codes: Int64s) -> None:
        """Sample the pages that keys would go to; where too many were evicted, find out which."""
        if not codes.size:
            return
        sample = codes[self._random.integers(0, codes.size, _SAMPLE)]
        for number, mapped in self._files.items():
            if mapped is None:
                continue
            first, stop = (int(bound) for bound in self._pages.file_bounds[number : number + 2])
            assert self._pages.first_code is not None
            at = np.maximum(np.searchsorted(self._pages.first_code[first:stop], sample, side="right") - 1, 0) + first
            at = at[self._is_ready[at] == _READY]
            if self._is_evicted(mapped, at).sum() > _EVICTED_SHARE * at.size:
                ready = first + np.flatnonzero(self._is_ready[first:stop] == _READY)
                self._is_ready[ready[self._is_evicted(mapped, ready)]] = 0

    def _is_evicted(self, mapped: MappedFile, pages: Int64s) -> Bools:
        return ~mapped.are_resident(self._pages.offset[pages], self._pages.length[pages])

    def rows(self, pages: Int64s) -> "RowsInPlace":
        """Return these ready pages, in any order and as often as wanted, to copy rows from."""
        return RowsInPlace(self, pages)

    def require_whole(self) -> None:
        """Raise `DamagedTable` if a file was cut off or its disk failed while its pages were used."""
        for number, mapped in self._files.items():
            if mapped is not None and not mapped.is_whole:
                raise self._reader.damaged(number, "was truncated, or its disk failed, while it was read")

    def close(self) -> None:
        for mapped in self._files.values():
            if mapped is not None:
                mapped.close()
        self._files.clear()
        self._is_ready[:] = 0


class RowsInPlace:
    """Pages to copy rows from where they lie: a `RowSource`."""

    def __init__(self, resident: ResidentPages, pages: Int64s) -> None:
        directory = resident._pages
        self.shape = resident.shape
        self._resident = resident
        self._pages = pages
        self._rows = directory.rows[pages].astype(np.int64)
        self._begins = resident._bases[directory.file[pages]] + directory.offset[pages].astype(np.uint64)
        self.ends = self._begins + directory.length[pages].astype(np.uint64)

    def begins(self, column: int, number: int) -> UInt64s:
        """Return where a buffer of a column begins in every page, 0 for an empty one."""
        wanted = self.shape.columns[column]
        buffer = wanted.first_buffer + number
        out = np.zeros(self._begins.size, dtype=np.uint64)
        if self._resident._has_buffer[buffer]:
            rows = self._rows + 1 if number == 1 and wanted.has_offsets else self._rows
            needed = -(-rows * wanted.bits(number) // 8)
            wrong = buffers_of(self._begins, self.ends, self._resident._list_at, buffer, needed, out)
            if wrong >= 0:
                raise self._resident._reader.damaged_page(int(self._pages[wrong]), "was changed while it was read")
        return out

    def batch(self, page: int) -> pa.RecordBatch:
        """Return a page decoded."""
        number = int(self._pages[page])
        mapped = self._resident._files[int(self._resident._pages.file[number])]
        assert mapped is not None
        begin = int(self._resident._pages.offset[number])
        content = mapped.content[begin : begin + int(self._resident._pages.length[number])]
        batch: pa.RecordBatch = pa.ipc.read_record_batch(pa.py_buffer(content), self.shape.message_schema)
        return batch
