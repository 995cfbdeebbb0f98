"""Reads pages; none is used before its checksum and its layout were checked.

Runs of pages: `read`, `read_into` and `decode`. Scattered ones: `read_scattered`, and `read_into_slots` for pages that
are kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.core.errors import DamagedTable, InvalidArgument, UnknownColumn
from semistream.kernels.pages.page_reads import first_altered
from semistream.storage.files.c_functions import DIGEST
from semistream.storage.files.mapped_file import MappedFile
from semistream.storage.files.random_file import Access, RandomFile, are_cached
from semistream.storage.files.store import LocalStore
from semistream.storage.files.uncached_reads import SECTOR_BYTES
from semistream.storage.reading.page_check import PageCheck
from semistream.storage.reading.page_directory import PageDirectory

if TYPE_CHECKING:
    from semistream.storage.table import MasterTable

__all__ = ["PLACING_BYTES", "Io", "PageReader", "drop_pages"]

Io = Literal["buffered", "drop_behind"]
"""Whether pages that were read may stay in the page cache, or are kept out of it."""

_MAX_OPEN_FILES = 128
PLACING_BYTES = 4096
_PIECE_BYTES = 1 << 20
_ALIGNMENT = 8
_REMEDY = "restore it from a copy, or write it anew with replace()"


class _Stretches(NamedTuple):
    """Pages that lie side by side: their file, their place in it, and their range in memory."""

    files: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


class PageReader:
    """Reads pages of one version.

    Arrow decodes a stream without copying: the schema message, then the pages as they lie in the file. So a buffer for
    a run begins with `header`, and the pages are read in behind it.

    Parameters
    ----------
    table
        The version to read.
    pages
        The pages to read, with their numbers; all of ``table.pages`` by default.
    columns
        Names of the columns to decode, in the order wanted; all by default. Pages are read whole anyway.
    io
        ``"buffered"``, or ``"drop_behind"``, which drops what was read from the operating system's page cache or reads
        past it, so that the next read measures the disk.
    access
        A hint for the operating system: ``"scan"``, from end to end; ``"sweep"``, forward with gaps; or ``"lookup"``,
        at random and without read-ahead.

    Attributes
    ----------
    header
        The schema message; its size is a multiple of 8.
    schema
        The schema of decoded runs.
    page_schema
        That of the pages, with all columns.
    """

    def __init__(
        self,
        table: "MasterTable",
        *,
        pages: PageDirectory | None = None,
        columns: Sequence[str] | None = None,
        io: str = "buffered",
        access: Access = "scan",
    ) -> None:
        if io not in ("buffered", "drop_behind"):
            raise InvalidArgument(f"io={io!r} is not a way to read: choose 'buffered' or 'drop_behind'")
        if access not in get_args(Access):
            raise InvalidArgument(f"access={access!r} is not a pattern: choose 'scan', 'sweep' or 'lookup'")
        self.pages = table.pages if pages is None else pages
        self._store = table.store
        self._drop_behind = io == "drop_behind"
        self._access = access
        self.page_schema = table.schema
        self._check = PageCheck(table.schema)
        self.header = bytes(table.schema.serialize())
        # Threads inside Arrow would cost more than they save on pages that need no decompression.
        self._options = pa.ipc.IpcReadOptions(use_threads=False)
        self._select: list[str] | None = None
        self.schema = table.schema
        if columns is not None:
            self._project(table.schema, list(columns))
        self._files: OrderedDict[int, RandomFile] = OrderedDict()
        self._opening = threading.Lock()

    def _project(self, schema: pa.Schema, columns: list[str]) -> None:
        unknown = [name for name in columns if name not in schema.names]
        if unknown:
            raise UnknownColumn(f"column {unknown[0]!r} is not in the table: its columns are {', '.join(schema.names)}")
        if not columns or len(set(columns)) < len(columns):
            raise InvalidArgument(f"columns={columns!r} must name at least one column, and each only once")
        positions = sorted(schema.get_field_index(name) for name in columns)
        self._options = pa.ipc.IpcReadOptions(included_fields=positions, use_threads=False)
        if [schema.names[position] for position in positions] != columns:
            self._select = columns
        self.schema = pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)

    def run_bytes(self, first: int, count: int) -> int:
        """Return how many bytes ``count`` pages from ``first`` take in their file."""
        return self._end(first + count - 1) - int(self.pages.offset[first])

    def _end(self, page: int) -> int:
        return int(self.pages.offset[page]) + int(self.pages.length[page])

    def read(self, first: int, count: int = 1) -> pa.Table:
        """Read a run into memory of its own and return it decoded, one chunk per page."""
        buffer: memoryview = np.empty(len(self.header) + self.run_bytes(first, count), dtype=np.uint8).data
        buffer[: len(self.header)] = self.header
        self.read_into(first, count, buffer[len(self.header) :])
        return self.decode(first, count, buffer)

    def new_buffer(self, run_bytes: int) -> memoryview:
        """Return memory for any run of up to ``run_bytes``, to be placed with `place`."""
        buffer: memoryview = np.empty(len(self.header) + run_bytes + PLACING_BYTES, dtype=np.uint8).data
        return buffer

    def place(self, first: int, count: int, buffer: memoryview) -> memoryview:
        """Return the part of a new buffer to read a run into, beginning with `header`.

        The operating system copies at a fifth of its speed if the address in memory is just ahead of the offset in
        the file, modulo 4 KB. Half a block away it copies at full speed.
        """
        pages_at = np.frombuffer(buffer, dtype=np.uint8).ctypes.data + len(self.header)
        shift = (int(self.pages.offset[first]) + PLACING_BYTES // 2 - pages_at) % PLACING_BYTES
        shift -= shift % 8  # Arrow wants aligned words
        placed = buffer[shift : shift + len(self.header) + self.run_bytes(first, count)]
        placed[: len(self.header)] = self.header
        return placed

    def read_into(self, first: int, count: int, view: memoryview) -> int:
        """Read ``count`` consecutive pages of one file into ``view``, verify them, and return their bytes."""
        length = self._load(first, count, view)
        self._verify(first, count, view)
        return length

    def _load(self, first: int, count: int, view: memoryview) -> int:
        """Read as `read_into` does, without verifying."""
        file_number = int(self.pages.file[first])
        assert first + count <= self.pages.file_bounds[file_number + 1], "a run crosses a file boundary"
        start = int(self.pages.offset[first])
        length = self.run_bytes(first, count)
        if len(view) < length:
            raise InvalidArgument(f"a buffer of {len(view)} bytes cannot hold a run of {length}: give a larger one")
        file = self._files.get(file_number) or self._open(file_number)
        if file.read_into(start, view[:length]) < length:
            raise self.damaged(file_number, "is truncated")
        if self._drop_behind:
            file.drop(start, length)
        return length

    def _verify(self, first: int, count: int, view: memoryview) -> None:
        """Raise unless ``view`` begins with exactly the bytes written as these pages."""
        run = slice(first, first + count)
        starts = self.pages.offset[run] - self.pages.offset[first]
        begins = starts.tolist()
        ends = [*begins[1:], self.run_bytes(first, count)]
        digest = xxhash.xxh3_64_intdigest
        for at, (begin, end, checksum) in enumerate(zip(begins, ends, self.pages.checksum[run].tolist(), strict=True)):
            if digest(view[begin:end]) != checksum:
                raise self.damaged_page(first + at, "has been altered (its checksum does not match)")
        self._require_sound(np.arange(first, first + count), np.frombuffer(view, dtype=np.uint8), starts)

    def _require_sound(
        self, pages: npt.NDArray[np.int64], raw: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]
    ) -> None:
        wrong = self._check.first_malformed(raw, starts, self.pages.length[pages], self.pages.rows[pages])
        if wrong >= 0:
            raise self.damaged_page(int(pages[wrong]), "is not a record batch of the table's schema")

    def read_scattered(
        self, pages: npt.NDArray[np.int64], memory: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Read and verify distinct pages in ascending order into ``memory``.

        Returns where each begins, and which had been in the page cache.

        Neighbours are one read. Pages that are not in the page cache are fetched from the disk all at once.
        """
        lengths = self.pages.length[pages]
        starts = np.cumsum(lengths) - lengths
        files, offsets = self.pages.file[pages], self.pages.offset[pages]
        breaks = np.flatnonzero((np.diff(files) != 0) | (offsets[1:] != (offsets + lengths)[:-1])) + 1
        first = np.concatenate([np.zeros(min(1, pages.size), dtype=np.int64), breaks])
        stretches = _Stretches(files[first], offsets[first], starts[first], np.append(starts[breaks], lengths.sum()))
        was_cached = np.repeat(self._read_stretches(stretches, memory), np.diff(first, append=pages.size))
        self.verify(pages, memory, starts)
        return starts, was_cached

    def slot_bytes(self, page_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sizes of slots for pages of so many bytes."""
        if not self._drop_behind:
            return -(-page_bytes // _ALIGNMENT) * _ALIGNMENT
        return -(-page_bytes // SECTOR_BYTES) * SECTOR_BYTES + SECTOR_BYTES

    def read_into_slots(
        self, pages: npt.NDArray[np.int64], memory: npt.NDArray[np.uint8], slots: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Read and verify distinct pages in ascending order, each into a slot of `slot_bytes` that begins at ``slots``.

        Returns where each page begins. The memory begins at a multiple of `SECTOR_BYTES`.
        """
        lengths, offsets = self.pages.length[pages], self.pages.offset[pages]
        starts = slots + (offsets % SECTOR_BYTES if self._drop_behind else 0)
        stretches = _Stretches(self.pages.file[pages], offsets, starts, starts + lengths)
        self._read_stretches(stretches, memory, in_slots=True)
        self.verify(pages, memory, starts)
        return starts

    def _read_stretches(
        self, stretches: "_Stretches", memory: npt.NDArray[np.uint8], *, in_slots: bool = False
    ) -> npt.NDArray[np.bool_]:
        """Read stretches, and return which had been in the page cache, or were read past it into their slots."""
        sizes = stretches.ends - stretches.begins
        targets = stretches.begins.astype(np.uint64) + np.uint64(memory.ctypes.data)
        is_read = np.zeros(sizes.size, dtype=np.bool_)
        if not self._drop_behind or in_slots:
            for number in np.unique(stretches.files).tolist():
                here = slice(*np.searchsorted(stretches.files, (number, number + 1)).tolist())
                file = self._files.get(number) or self._open(number)
                offsets, lengths = stretches.offsets[here], sizes[here]
                if self._drop_behind:
                    is_read[here] = file.read_past_cache(offsets, lengths, targets[here])
                else:
                    is_read[here] = is_cached = file.read_cached(offsets, lengths, targets[here]) == lengths
                    file.fetch(offsets[~is_cached], lengths[~is_cached])
        view: memoryview = memory.data
        for at in np.flatnonzero(~is_read).tolist():
            number, offset = int(stretches.files[at]), int(stretches.offsets[at])
            file = self._files.get(number) or self._open(number)
            if file.read_into(offset, view[int(stretches.begins[at]) : int(stretches.ends[at])]) < sizes[at]:
                raise self.damaged(number, "is truncated")
            if self._drop_behind:
                file.drop(offset, int(sizes[at]))
        return is_read

    def read_cached(
        self, first: npt.NDArray[np.int64], count: npt.NDArray[np.int64], memory: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Read and verify runs of ``count[i]`` pages from ``first[i]`` on, as far as the page cache holds each run.

        Returns these pages, and where each begins in ``memory``.
        """
        last = first + count - 1
        offsets = self.pages.offset[first]
        sizes = self.pages.offset[last] + self.pages.length[last] - offsets
        begins = np.cumsum(sizes) - sizes
        targets = begins.astype(np.uint64) + np.uint64(memory.ctypes.data)
        got = np.zeros(first.size, dtype=np.int64)
        files = self.pages.file[first]
        for number in np.unique(files).tolist():
            here = files == number
            file = self._files.get(number) or self._open(number)
            got[here] = file.read_cached(offsets[here], sizes[here], targets[here])
        run = np.repeat(np.arange(first.size), count)
        pages = first[run] + np.arange(run.size) - np.repeat(np.cumsum(count) - count, count)
        behind = self.pages.offset[pages] - offsets[run]
        came = behind + self.pages.length[pages] <= got[run]
        pages, starts = pages[came], (begins[run] + behind)[came]
        self.verify(pages, memory, starts)
        return pages, starts

    def verify(
        self, pages: npt.NDArray[np.int64], memory: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]
    ) -> None:
        """Raise `DamagedTable` unless the pages that begin at ``starts`` of ``memory`` are as they were written."""
        lengths, checksums = self.pages.length[pages], self.pages.checksum[pages]
        if DIGEST:
            begins = starts.astype(np.uint64) + np.uint64(memory.ctypes.data)
            altered = first_altered(np.uint64(DIGEST), begins, lengths, checksums)
        else:
            digests = (
                xxhash.xxh3_64_intdigest(memory[start:end].data)
                for start, end in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            )
            wrong = (at for at, pair in enumerate(zip(digests, checksums.tolist(), strict=True)) if pair[0] != pair[1])
            altered = next(wrong, -1)
        if altered >= 0:
            raise self.damaged_page(int(pages[altered]), "has been altered (its checksum does not match)")
        self._require_sound(pages, memory, starts)

    def decode(self, first: int, count: int, view: memoryview) -> pa.Table:
        """Return the pages in ``view``, behind `header`, as a table that uses its memory."""
        try:
            table: pa.Table = pa.ipc.open_stream(pa.py_buffer(view), options=self._options).read_all()
            if not self._check.is_complete:
                table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise self.damaged_page(first, f"or one of the {count - 1} after it does not decode ({reason})") from None
        return table if self._select is None else table.select(self._select)

    def map_file(self, file_number: int) -> MappedFile | None:
        """Return a file, whose size was checked, in memory; None where that cannot be had."""
        return (self._files.get(file_number) or self._open(file_number)).map()

    def are_cached(self, pages: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of each page whether it lies in the page cache, by its first and its last byte."""
        cached = np.zeros(pages.size, dtype=np.bool_)
        files = self.pages.file[pages]
        for number in np.unique(files).tolist():
            here = files == number
            starts = self.pages.offset[pages[here]]
            file = self._files.get(number) or self._open(number)
            cached[here] = are_cached(file, starts) & are_cached(file, starts + self.pages.length[pages[here]] - 1)
        return cached

    def _open(self, file_number: int) -> RandomFile:
        with self._opening:
            known = self.pages.files[file_number]
            where = self._store.locate(known.path)
            try:
                file = self._store.open(known.path)
            except FileNotFoundError:
                raise DamagedTable(f"{where} is missing: {_REMEDY}") from None
            if file.size != known.file_bytes:
                problem = "is truncated" if file.size < known.file_bytes else "has grown"
                raise self.damaged(file_number, f"{problem}: {file.size} bytes instead of {known.file_bytes}")
            self._verify_ends(file, file_number)
            file.advise(self._access)
            self._files[file_number] = file
            if len(self._files) > _MAX_OPEN_FILES:
                self._files.popitem(last=False)  # closed once nobody reads from it
            return file

    def _verify_ends(self, file: RandomFile, file_number: int) -> None:
        known = self.pages.files[file_number]
        first, end = (int(page) for page in self.pages.file_bounds[file_number : file_number + 2])
        header_end, footer_start = int(self.pages.offset[first]), self._end(end - 1)
        ends = (
            (0, header_end, known.header_checksum),
            (footer_start, file.size, known.footer_checksum),
        )
        for start, stop, checksum in ends:
            digest = xxhash.xxh3_64()
            for at in range(start, stop, _PIECE_BYTES):
                content = bytearray(min(_PIECE_BYTES, stop - at))
                if file.read_into(at, memoryview(content)) < len(content):
                    raise self.damaged(file_number, "is truncated")
                digest.update(content)
            if digest.hexdigest() != checksum:
                part = "header" if start == 0 else "footer"
                raise self.damaged(file_number, f"has been altered in its {part} (its checksum does not match)")

    def damaged_page(self, page: int, problem: str) -> DamagedTable:
        file_number = int(self.pages.file[page])
        position = page - int(self.pages.file_bounds[file_number])
        where = self._store.locate(self.pages.files[file_number].path)
        return DamagedTable(f"page {position} of {where} {problem}: {_REMEDY}")

    def damaged(self, file_number: int, problem: str) -> DamagedTable:
        return DamagedTable(f"{self._store.locate(self.pages.files[file_number].path)} {problem}: {_REMEDY}")

    def close(self) -> None:
        """Close all files; reading opens them again."""
        with self._opening:
            while self._files:
                self._files.popitem()[1].close()

    def __enter__(self) -> "PageReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def drop_pages(table: "MasterTable") -> None:
    """Drop a local table from the operating system's page cache, so that the next reads go to the disk."""
    if not isinstance(table.store, LocalStore):
        return
    for data_file in table.pages.files:
        try:
            file = table.store.open(data_file.path)
        except FileNotFoundError:
            continue  # its reader reports it
        try:
            file.drop(0, file.size)
        finally:
            file.close()
