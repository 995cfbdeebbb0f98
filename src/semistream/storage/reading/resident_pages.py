"""Pages that lie in the page cache: searched and copied from where they lie, without reading them.

A page is used in place once this process has read and verified it. When one is wanted that the page cache holds, its
neighbours there are verified with it: pages in a row cost a fifth of pages here and there. The system may evict a page
later: samples find that out, and it is read again, in a batch with others, not by faults one at a time. The memory is
the page cache's: the budget counts only the addresses.

::

    codes ─► first keys of pages ─► page, if it is verified and still there ─► rows ─► values
                                     └─► otherwise the key is looked up in another way
"""

import resource
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semistream.kernels.arrays import Bools, Int8s, Int32s, Int64s, UInt8s, UInt64s
from semistream.kernels.pages.in_place import (
    NO_LAYOUT,
    NO_PAGE,
    NOT_IN_PLACE,
    PagesInPlace,
    RowPlaces,
    copy_texts,
    find_pages,
    find_rows,
    gather_flags,
    gather_texts,
    gather_values,
    gather_words,
    locate_rows,
    number_layouts,
)
from semistream.kernels.pages.key_search import find_keys
from semistream.kernels.pages.page_runs import page_runs
from semistream.storage.files.mapped_file import MappedFile
from semistream.storage.reading.page_keys import PageKeys
from semistream.storage.reading.page_reader import PageReader
from semistream.storage.reading.raw_pages import PageColumn, PageShape, RawPages, flag_bits

__all__ = ["PageRows", "ResidentPages"]

_PAGE_ENTRY_BYTES = 10  # address, layout, and whether it is refused
_MOST_LAYOUTS = 64
_EXTENT_BYTES = 1 << 19  # of a file, whose pages are verified when one of them is wanted
_MOST_AHEAD_BYTES = 1 << 30  # that a window verifies beyond the pages wanted: about 0.15 s
_MOST_TOGETHER_BYTES = 1 << 22  # read between two looks at them
_SAMPLE = 64
_SHORT_SHARE = 1 / 64  # of the pages wanted: if more were evicted, memory is short
_FEW_FAULTS = 8
_WHOSE_FAULTS: int = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # macOS counts whole processes only


class PageRows(NamedTuple):
    """For each key the page with its first row, that row, and how many there are: in this page and the next ones."""

    page: Int32s
    row: Int32s
    rows: Int32s


class ResidentPages:
    """The verified pages of a clustered table that are in memory.

    Parameters
    ----------
    reader
        Reads the table; it opens and verifies files and pages.
    shape
        The columns wanted of each row, none of them nested.
    keys
        The key columns, by whose codes pages are sorted.

    Attributes
    ----------
    num_known
        How many pages can be used in place, unless they are evicted.
    is_short
        Whether memory is short: many of the pages wanted lately had been evicted.
    """

    def __init__(self, reader: PageReader, shape: PageShape, keys: PageKeys) -> None:
        self._reader = reader
        self._directory = reader.pages
        self.shape = shape
        self._keys = keys
        self._has_buffer = np.zeros(shape.num_buffers, dtype=np.bool_)  # in any of the pages
        self._list_at = -1
        self._layouts: Int32s = np.empty((_MOST_LAYOUTS, shape.num_buffers), dtype=np.int32)
        self._num_layouts = 0
        self._layout: Int8s = np.full(self._directory.num_pages, NO_LAYOUT)
        self._addresses: UInt64s = np.zeros(self._directory.num_pages, dtype=np.uint64)
        self._is_refused = np.zeros(self._directory.num_pages, dtype=np.bool_)  # cannot be used in place
        self._first_file: Int64s = np.searchsorted(self._directory.file_bounds, self._directory.bucket_bounds)
        self._files: dict[int, MappedFile | None] = {}
        self._random = np.random.default_rng(0)
        self._faults = resource.getrusage(_WHOSE_FAULTS).ru_majflt
        self._memory: UInt8s = np.empty(0, dtype=np.uint8)
        self.num_known = 0
        self.is_short = False

    def use(self, memory: UInt8s) -> None:
        """Verify pages in this memory, which is anybody's between two calls."""
        self._memory = memory

    @classmethod
    def of(cls, reader: PageReader, columns: list[str], keys: PageKeys) -> "ResidentPages | None":
        """Return the pages of a reader; None if the values of a column cannot be copied one by one."""
        shape = PageShape(reader.page_schema, columns)
        return cls(reader, shape, keys) if _can_be_copied(shape) else None

    @staticmethod
    def bytes_for(shape: PageShape, pages: int) -> int:
        """Return the `nbytes` of so many pages; 0 where `of` returns None."""
        return pages * _PAGE_ENTRY_BYTES + _MOST_LAYOUTS * shape.num_buffers * 4 if _can_be_copied(shape) else 0

    @property
    def nbytes(self) -> int:
        of_pages = self._addresses.nbytes + self._layout.nbytes + self._is_refused.nbytes
        return of_pages + self._layouts.nbytes

    @property
    def in_place(self) -> PagesInPlace:
        directory = self._directory
        return PagesInPlace(
            self._addresses, directory.length, directory.rows, self._layout, self._layouts, self._list_at
        )

    @property
    def row_counts(self) -> Int32s:
        """How many rows each page has."""
        return self._directory.rows

    @property
    def files_per_bucket(self) -> int:
        return int(np.diff(self._first_file).max(initial=0))

    def add(self, pages: Int64s, raw: RawPages) -> Bools:
        """Use distinct pages in place from now on, whose content ``raw`` was just verified; tell which can be.

        A page with a NULL key, or one without a layout whose buffers are listed elsewhere than in others, is left out.
        """
        lists = raw.list_offsets()
        if self._list_at < 0 and lists.size:
            self._list_at = int(lists[0])
        layout = np.empty(pages.size, dtype=np.int8)
        self._num_layouts = number_layouts(raw.buffers, raw.addresses(), self._layouts, self._num_layouts, layout)
        self._layout[pages] = layout
        has_buffer = raw.buffers != 0
        self._has_buffer |= has_buffer.any(axis=0)
        is_plain = ((layout != NO_LAYOUT) | (lists == self._list_at)) & ~self._keys.may_be_null(raw)
        self._is_refused[pages] = ~is_plain
        plain = pages[is_plain & (self._addresses[pages] == 0)]
        files = self._directory.file[plain]
        for number in np.unique(files).tolist():
            mapped = self._mapped(number)
            if mapped is not None:
                here = plain[files == number]
                self._addresses[here] = (mapped.address + self._directory.offset[here]).astype(np.uint64)
                self.num_known += here.size
        is_known: Bools = self._addresses[pages] != 0
        return is_known

    def _mapped(self, number: int) -> MappedFile | None:
        if number not in self._files:
            self._files[number] = self._reader.map_file(number)
        return self._files[number]

    # --- where rows lie ---------------------------------------------------------------------------------------------

    def find(self, codes: Int64s, places: Int64s, bucket_of: Int32s) -> tuple[list[PageRows], Int64s]:
        """Find the rows with ``codes[place]`` in the files of their bucket, and return the places left to others.

        There is one result for each number that a file has in its bucket; a key has no rows in a bucket without it.
        """
        found: list[PageRows] = []
        directory = self._directory
        assert directory.first_code is not None
        is_left = np.zeros(codes.size, dtype=np.bool_)
        for ordinal in range(self.files_per_bucket):
            page = np.full(codes.size, NO_PAGE)
            bounds = directory.file_bounds
            find_pages(codes, places, bucket_of, self._first_file, ordinal, bounds, directory.first_code, page)
            self._forget_evicted(page[places])
            self._verify_cached(page[places])
            row, count = np.zeros_like(page), np.zeros_like(page)
            self._find_rows(codes, places, page, row, count)
            is_left |= count == NOT_IN_PLACE
            found.append(PageRows(page, row, count))
        self.require_whole()  # that a key has no rows is an answer, too
        left = np.flatnonzero(is_left)
        for place in found:
            place.rows[left] = NOT_IN_PLACE
        return found, left

    def _find_rows(self, codes: Int64s, places: Int64s, page: Int32s, row: Int32s, count: Int32s) -> None:
        directory, keys = self._directory, self._keys
        assert directory.first_code is not None
        where = codes, places, page, directory.file, directory.file_bounds, directory.first_code
        if keys.are_words:
            find_rows(*where, self.in_place, keys.word_buffer, row, count)
        else:
            find_keys(*where, self.in_place, keys.parts, keys.hash_bits, row, count)

    def _verify_cached(self, pages: Int32s) -> None:
        """Verify those of the pages wanted that the page cache holds, and others behind them, once."""
        if self.num_known == self._directory.num_pages or not self._memory.size:
            return
        wanted = np.unique(pages[self._is_open(pages) & (pages >= 0)]).astype(np.int64)
        longest = int(self._directory.length.max())
        room_bytes = min(self._memory.size, _MOST_TOGETHER_BYTES) - longest
        if not self.is_short and room_bytes > 0:
            self._verify_runs(wanted, min(_EXTENT_BYTES, room_bytes), longest)
            # The page cache may lack a page between the begin of a run and the page wanted.
            wanted = wanted[self._is_open(wanted)]
        self._verify_runs(wanted, 1, longest)

    def _is_open(self, pages: Int32s | Int64s) -> Bools:
        """Tell which pages are neither in use nor refused."""
        is_open: Bools = (self._addresses[pages] == 0) & ~self._is_refused[pages]
        return is_open

    def _verify_runs(self, wanted: Int64s, extent_bytes: int, longest_bytes: int) -> None:
        """Verify pages wanted, each with the others of its extent; no page is longer than ``longest_bytes``."""
        if not wanted.size:
            return
        directory, first, count = self._directory, np.empty_like(wanted), np.empty_like(wanted)
        where = self._addresses, self._is_refused, directory.file, directory.offset, directory.length
        runs = page_runs(wanted, *where, extent_bytes, _MOST_AHEAD_BYTES, first, count)
        room_bytes = min(self._memory.size, _MOST_TOGETHER_BYTES)
        together = max(1, room_bytes // (extent_bytes + longest_bytes))
        for start in range(0, runs, together):
            part = slice(start, min(start + together, runs))
            pages, starts = self._reader.read_cached(first[part], count[part], self._memory)
            if pages.size:
                self.add(pages, self.shape.pages(self._memory, starts))

    def _forget_evicted(self, pages: Int32s) -> None:
        """Look at a sample of the pages wanted, or at all of them where memory is short, and forget evicted ones."""
        faults = resource.getrusage(_WHOSE_FAULTS).ru_majflt
        self.is_short |= faults - self._faults > _FEW_FAULTS
        self._faults = faults
        pages = pages[pages >= 0]
        if not self.is_short:
            chosen = pages if pages.size <= _SAMPLE else pages[self._random.integers(0, pages.size, _SAMPLE)]
            self.is_short = self._evicted_share(chosen) > 0
        if self.is_short:
            self.is_short = self._evicted_share(pages) > _SHORT_SHARE

    def _evicted_share(self, pages: Int32s) -> float:
        """Forget which of these pages were evicted, and return their share of those that were known."""
        wanted = np.unique(pages).astype(np.int64)
        known = wanted[self._addresses[wanted] != 0]
        evicted = known[~self._reader.are_cached(known)]
        self._addresses[evicted] = 0
        self.num_known -= evicted.size
        return float(evicted.size / max(1, known.size))

    def require_whole(self) -> None:
        """Raise `DamagedTable` if a file was cut off or its disk failed while its pages were used."""
        for number, mapped in self._files.items():
            if mapped is not None and not mapped.is_whole:
                raise self._reader.damaged(number, "was cut off, or its disk failed, while it was read")

    # --- their values -----------------------------------------------------------------------------------------------

    def gather(self, pages: Int32s, rows: Int32s) -> "RowsInPlace":
        """Return rows to be copied; one of `NO_PAGE` is NULL."""
        return RowsInPlace(self, pages, rows)

    def close(self) -> None:
        self._addresses[:] = 0
        self.num_known = 0
        for mapped in self._files.values():
            if mapped is not None:
                mapped.close()
        self._files.clear()


def _can_be_copied(shape: PageShape) -> bool:
    return not any(column.is_nested for column in shape.columns)


class RowsInPlace:
    """Rows of verified pages, one by one: their sizes and their values."""

    def __init__(self, resident: ResidentPages, pages: Int32s, rows: Int32s) -> None:
        self._resident = resident
        self._pages = pages
        self._is_whole = bool((pages != NO_PAGE).all())
        begins, layouts = np.empty(pages.size, dtype=np.uint64), np.empty(pages.size, dtype=np.int8)
        in_place = resident.in_place
        locate_rows(pages, in_place, begins, layouts)
        self._places = RowPlaces(pages, rows, begins, layouts), in_place
        self._texts: dict[int, tuple[UInt64s, Int64s]] = {}

    def row_bytes(self) -> Int64s:
        """Return the bytes of each row."""
        total = np.zeros(self._pages.size, dtype=np.int64)
        for column in self._resident.shape.columns:
            width = column.offset_bytes
            if width is None:
                total += -(-column.field.type.bit_width // 8)
            else:
                total += self._text_places(column, width)[1] + width
        return total

    def finish(self) -> pa.RecordBatch:
        """Return the rows."""
        schema = self._resident.shape.schema
        columns = [self._column(column) for column in self._resident.shape.columns]
        self._resident.require_whole()
        if not self._is_whole:
            schema = pa.schema([field.with_nullable(True) for field in schema])
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, column: PageColumn) -> pa.Array:
        dtype, values = column.field.type, column.first_buffer + 1
        width = column.offset_bytes
        buffers: tuple[pa.Buffer, ...]
        if width is not None:
            buffers = self._text(column, width)
        elif dtype.bit_width == 1:
            buffers = (flag_bits(self._flags(values, absent=False)),)
        elif dtype.bit_width == 64:
            words = np.empty(self._pages.size, dtype=np.int64)
            self._require_inside(gather_words(*self._places, values, words))
            buffers = (pa.py_buffer(words),)
        else:
            width = dtype.bit_width // 8
            content = np.empty(self._pages.size * width, dtype=np.uint8)
            self._require_inside(gather_values(*self._places, values, width, content))
            buffers = (pa.py_buffer(content),)
        array: pa.Array = pa.Array.from_buffers(dtype, self._pages.size, [self._validity(column), *buffers])
        return array

    def _validity(self, column: PageColumn) -> pa.Buffer | None:
        if self._is_whole and not self._resident._has_buffer[column.first_buffer]:
            return None
        valid = self._flags(column.first_buffer, absent=True)
        return None if valid.all() else flag_bits(valid)

    def _flags(self, buffer: int, *, absent: bool) -> Bools:
        flags = np.empty(self._pages.size, dtype=np.bool_)
        self._require_inside(gather_flags(*self._places, buffer, absent, flags))
        return flags

    def _text_places(self, column: PageColumn, width: int) -> tuple[UInt64s, Int64s]:
        if column.position not in self._texts:
            sources = np.empty(self._pages.size, dtype=np.uint64)
            sizes = np.empty(self._pages.size, dtype=np.int64)
            self._require_inside(gather_texts(*self._places, column.first_buffer + 1, width, sources, sizes))
            self._texts[column.position] = sources, sizes
        return self._texts[column.position]

    def _text(self, column: PageColumn, width: int) -> tuple[pa.Buffer, pa.Buffer]:
        sources, sizes = self._text_places(column, width)
        offsets = np.zeros(sizes.size + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        copy_texts(sources, offsets, data)
        return pa.py_buffer(offsets.astype(np.int32) if width == 4 else offsets), pa.py_buffer(data)

    def _require_inside(self, wrong: int) -> None:
        """Raise `DamagedTable` for the row that a kernel found outside of its page."""
        if wrong >= 0:
            self._resident.require_whole()
            raise self._resident._reader.damaged_page(int(self._pages[wrong]), "was changed while it was read")
