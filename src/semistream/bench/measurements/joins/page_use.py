"""The kind ``page use``: how often a join reads each page of R, by its position (S1, Fig. 3)."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semistream.bench.framework.measurement import VALUE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.cell import RateCell, open_cell, rate_cell
from semistream.bench.measurements.joins.saturated import Saturated
from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Bools, Int64s, UInt64s
from semistream.storage import MasterTable
from semistream.storage.files.random_file import LocalFile, RandomFile
from semistream.storage.files.store import LocalStore

__all__ = ["PageReads", "PageUse", "page_use_measurements"]

_OWN = ("sections", "warm_up_scans", "measured_scans")


@dataclass(frozen=True, kw_only=True)
class PageUse:
    """One algorithm on R; MESHJOIN reads all pages equally often and is the level to compare with."""

    series: str
    cell: RateCell
    sections: int  # of equal size that R is divided into; each gives a point
    warm_up_scans: float  # of R, before reads are counted
    measured_scans: float

    @property
    def name(self) -> str:
        return self.series

    @property
    def weight(self) -> float:
        rows: int = self.cell.workload.arguments["rows"]
        return 1.0 + 1e-6 * rows * (self.warm_up_scans + self.measured_scans)

    def run(self, context: Context) -> list[Point]:
        opened = open_cell(self.cell, context)
        reads = PageReads(opened.table)
        num_bytes = opened.table.num_bytes
        with opened._replace(table=reads.table).operator() as op:
            saturated = Saturated(op, opened.stream())
            saturated.run(bytes_read=int(self.warm_up_scans * num_bytes))
            before = reads.counts.copy()
            work = saturated.run(bytes_read=int(self.measured_scans * num_bytes))
            counts = reads.counts - before
        bounds = np.linspace(0, counts.size, min(self.sections, counts.size) + 1).astype(np.int64)
        per_page = np.add.reduceat(counts, bounds[:-1]) / np.diff(bounds)
        return [
            Point(
                series=self.series,
                x=float(low + high) / 2,
                y={VALUE: 1e6 * reads_of_page / max(1, work.tuples)},
                details={"reads_per_page": reads_of_page, "tuples": work.tuples, "pages": high - low},
            )
            for (low, high), reads_of_page in zip(pairwise(bounds.tolist()), per_page.tolist(), strict=True)
        ]


def page_use_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series; parameters beside those of a cell are the fields of `PageUse`."""
    own = {name: parameters[name] for name in _OWN}
    return [
        PageUse(series=series, cell=rate_cell({**parameters, **settings}, _OWN), **own)
        for series, settings in spec.series.items()
    ]


class PageReads:
    """Counts the reads of each page of a local table from its files, in the order of ``table.pages``."""

    def __init__(self, table: MasterTable) -> None:
        if not isinstance(table.store, LocalStore):
            raise InvalidArgument(f"{table.path} is no local table: stage it into a folder of this machine")
        pages = table.pages
        self.counts = np.zeros(table.num_pages, dtype=np.int64)
        by_path = {
            file.path: _FilePages(pages.offset[first:end], self.counts[first:end])
            for file, (first, end) in zip(pages.files, pairwise(pages.file_bounds), strict=True)
        }
        self.table = copy.copy(table)
        self.table.store = _CountedStore(table.store.root, by_path)


class _FilePages(NamedTuple):
    """Offset and reads of each page of a file."""

    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _CountedStore(LocalStore):
    pages: dict[str, _FilePages] = field(default_factory=dict)

    def open(self, name: str) -> RandomFile:
        known = self.pages.get(name)
        return super().open(name) if known is None else _CountedFile(self.locate(name), known)


class _CountedFile(LocalFile):
    def __init__(self, path: str, pages: _FilePages) -> None:
        super().__init__(path)
        self._pages = pages

    def read_into(self, offset: int, view: memoryview) -> int:
        self._count(offset, len(view))
        return super().read_into(offset, view)

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Int64s:
        got = super().read_cached(offsets, lengths, targets)
        self._count_all(offsets, lengths, got == lengths)
        return got

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        is_read = super().read_past_cache(offsets, lengths, targets)
        self._count_all(offsets, lengths, is_read)
        return is_read

    def _count_all(self, offsets: Int64s, lengths: Int64s, is_read: Bools) -> None:
        """Count the ranges that were read: the others come to `read_into`."""
        for offset, length in zip(offsets[is_read].tolist(), lengths[is_read].tolist(), strict=True):
            self._count(offset, length)

    def _count(self, offset: int, length: int) -> None:
        # Reads of pages begin at a page; those of the file's header and footer do not.
        begin, end = np.searchsorted(self._pages.offsets, (offset, offset + length))
        if begin < end and self._pages.offsets[begin] == offset:
            self._pages.counts[begin:end] += 1
