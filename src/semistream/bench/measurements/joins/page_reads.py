"""Counts how often each page of a table is read from its files, whoever reads it."""

import copy
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from semistream.core.errors import InvalidArgument
from semistream.storage import MasterTable
from semistream.storage.files.random_file import LocalFile, RandomFile
from semistream.storage.files.store import LocalStore

__all__ = ["PageReads"]


class PageReads:
    """Reads of a table's pages, from when `table` was opened.

    Parameters
    ----------
    table
        A local one.

    Attributes
    ----------
    table
        The same table; what is read through it is counted.
    counts
        Per page, in the order of ``table.pages``.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from semistream.storage import PageReader, stage
    >>> staged = stage(pa.table({"k": list(range(1000))}), tempfile.mkdtemp(), key="k", page_bytes=2048)
    >>> reads = PageReads(staged)
    >>> with PageReader(reads.table) as reader:
    ...     rows = reader.read(1, 2).num_rows
    >>> reads.counts[:4].tolist()
    [0, 1, 1, 0]
    """

    def __init__(self, table: MasterTable) -> None:
        if not isinstance(table.store, LocalStore):
            raise InvalidArgument(f"{table.path} is no local table: stage it into a folder of this machine")
        self._pages = table.pages
        self.counts = np.zeros(table.num_pages, dtype=np.int64)
        self.table = copy.copy(table)
        self.table.store = _CountedStore(table.store.root, self._offsets_by_path(), self.counts)

    def _offsets_by_path(self) -> "dict[str, _FilePages]":
        bounds = self._pages.file_bounds
        return {
            file.path: _FilePages(int(bounds[number]), self._pages.offset[bounds[number] : bounds[number + 1]])
            for number, file in enumerate(self._pages.files)
        }


@dataclass(frozen=True)
class _FilePages:
    """The number of a file's first page, and where its pages begin."""

    first: int
    offsets: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _CountedStore(LocalStore):
    pages: dict[str, _FilePages] = field(default_factory=dict)
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def open(self, name: str) -> RandomFile:
        known = self.pages.get(name)
        return super().open(name) if known is None else _CountedFile(self.locate(name), known, self.counts)


class _CountedFile(LocalFile):
    def __init__(self, path: str, pages: _FilePages, counts: npt.NDArray[np.int64]) -> None:
        super().__init__(path)
        self._pages = pages
        self._counts = counts

    def read_into(self, offset: int, view: memoryview) -> int:
        self._count(offset, len(view))
        return super().read_into(offset, view)

    def _count(self, offset: int, length: int) -> None:
        # Reads of pages begin where a page begins; those of the file's header and footer touch no such place.
        begin, end = np.searchsorted(self._pages.offsets, (offset, offset + length))
        if begin < end and self._pages.offsets[begin] == offset:
            self._counts[self._pages.first + begin : self._pages.first + end] += 1
