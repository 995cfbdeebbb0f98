"""How a scanning join splits its budget: S3 Eq. 1 with measured sizes.

::

    M = disk buffer + index (where pages lie) + results being built + chunks of Q (+ waiting results)   fixed by b
      + stream buffer + window                                                                          what is left
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import numpy as np

from semistream.core.budget import require_at_least
from semistream.core.semantics import JoinSpec
from semistream.operators.phases.chunk_queue import CHUNK_BYTES
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import WindowCodes, WindowShape
from semistream.storage import PageReader, ReadAhead

__all__ = ["PageSizes", "ScanPlan", "ScanPlanner"]

# Shares of the budget and the bounds around them: they decide how fast a join is, never what it returns.
_DISK_SHARE = 0.3
_PAGE_BESIDE_SHARE = 1 / 32  # what it takes is missing in the window
_LARGEST_READ_BYTES = 2 << 20  # fits the cache of a core; larger reads gained nothing
_STREAM_BUFFER_SHARE = 1 / 32
_SHEDDING_BUFFER_SHARE = 1 / 8  # what does not fit the stream buffer is refused, not shed
_SHEDDING_CHUNKS = 4  # the 2w that stay, and what comes beyond them
_LARGEST_BUFFER_SHARE = 1 / 2
_LEAST_TUPLES = 64
_LEAST_BUFFER_BYTES = 4096  # the stream buffer copies whole messages
_EXTRA_CHUNKS = 2
_PROBE_BYTES_PER_ROW = 24  # the code of a master row, its position and the slot it found
_UNMEASURED_VARLEN_BYTES = 32


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


@dataclass(frozen=True)
class ScanPlan:
    """The split for one choice of b.

    Attributes
    ----------
    b
        Pages per read.
    read_pages
        The most pages that a read can take: b, and one beside them where that was asked for and there is memory.
    iterations_per_cycle
        Reads for one scan of R.
    read_bytes
        The largest read.
    disk_bytes
        The read itself, the pages decoded from it and those in use, and the space to probe them.
    """

    b: int
    read_pages: int
    iterations_per_cycle: int
    read_bytes: int
    disk_bytes: int
    stream_buffer_bytes: int
    window_bytes: int
    cache_bytes: int

    @property
    def chunks(self) -> int:
        """How many chunks are pending at most: those of a cycle, the one that just came, and one to spare."""
        return self.iterations_per_cycle + _EXTRA_CHUNKS


class ScanPlanner:
    """Works out plans for one join on one table.

    Parameters
    ----------
    other_bytes
        What the operator holds besides, whatever b is.
    largest_read_bytes
        The largest read that a good choice of b makes.
    cache_share
        What a front stage gets of the memory that is left for it and the stream.
    sheds
        Whether load is shed, by what waits in the stream buffer: it is larger then.
    wants_page_beside
        Whether b pages mostly come with one more, before them or behind: two reads would cost more than its memory.
    """

    def __init__(
        self,
        pages: PageSizes,
        spec: JoinSpec,
        matching: WindowCodes,
        *,
        budget_bytes: int,
        other_bytes: int,
        ordered: bool,
        what: str,
        largest_read_bytes: int = _LARGEST_READ_BYTES,
        cache_share: float = 0.0,
        sheds: bool = False,
        wants_page_beside: bool = False,
    ) -> None:
        TupleStore.require_supported(spec.stream_schema)
        self._pages = pages
        self._budget_bytes = budget_bytes
        self._other_bytes = other_bytes + pages.index_bytes
        self._what = what
        self._largest_read_bytes = largest_read_bytes
        self._cache_share = cache_share
        self._sheds = sheds
        self._wants_page_beside = wants_page_beside
        varlen_bytes = _UNMEASURED_VARLEN_BYTES * TupleStore.num_varlen_columns(spec.stream_schema)
        least = WindowShape(_LEAST_TUPLES, 2 * _LEAST_TUPLES * varlen_bytes)
        self._least_stream_bytes = 2 * sum(least.nbytes(matching, spec.stream_schema, ordered)) + _LEAST_BUFFER_BYTES

    def within(self, budget_bytes: int, other_bytes: int) -> "ScanPlanner":
        """Return a planner of the same join for another budget, and what the operator holds besides under it."""
        planner = copy(self)
        planner._budget_bytes = budget_bytes
        planner._other_bytes = other_bytes + self._pages.index_bytes
        return planner

    def plan(self, b: int | None) -> ScanPlan:
        """Return the plan for ``b`` pages per read, or for a good choice of b.

        Raises
        ------
        BudgetTooSmall
            Naming the least budget that would do.
        """
        if b is None:
            b = self._good_b()
        read_pages = b + int(self._wants_page_beside and self._affords_page_beside(b))
        disk_bytes = self._disk_bytes(read_pages)
        iterations = self._pages.reads(b)
        fixed_bytes = disk_bytes + self._other_bytes + (iterations + _EXTRA_CHUNKS) * CHUNK_BYTES
        least_rest = int(self._least_stream_bytes / (1 - self._cache_share)) + 1
        require_at_least(self._budget_bytes, fixed_bytes + least_rest, f"{self._what} with b={b}")
        cache_bytes = int((self._budget_bytes - fixed_bytes) * self._cache_share)
        rest = self._budget_bytes - fixed_bytes - cache_bytes
        buffer_bytes = max(int(rest * self._buffer_share(iterations)), min(_LEAST_BUFFER_BYTES, rest // 4))
        return ScanPlan(
            b=b,
            read_pages=read_pages,
            iterations_per_cycle=iterations,
            read_bytes=self._pages.run_bytes(read_pages),
            disk_bytes=disk_bytes,
            stream_buffer_bytes=buffer_bytes,
            window_bytes=rest - buffer_bytes,
            cache_bytes=cache_bytes,
        )

    def _buffer_share(self, iterations: int) -> float:
        """Return a share for whole chunks of w tuples; a window is as many chunks as there are iterations."""
        least = max(_STREAM_BUFFER_SHARE, 1 / (iterations + 1))
        if not self._sheds:
            return least
        wanted = max(_SHEDDING_BUFFER_SHARE, _SHEDDING_CHUNKS / (iterations + _SHEDDING_CHUNKS))
        return max(least, min(wanted, _LARGEST_BUFFER_SHARE))

    def _good_b(self) -> int:
        b = 1
        while (
            b < self._pages.num_pages
            and self._disk_bytes(2 * b) <= self._budget_bytes * _DISK_SHARE
            and self._pages.run_bytes(2 * b) <= self._largest_read_bytes
        ):
            b *= 2
        return b

    def _affords_page_beside(self, b: int) -> bool:
        disk_bytes = self._disk_bytes(b + 1)
        page_bytes = disk_bytes - self._disk_bytes(b)
        return disk_bytes <= self._budget_bytes * _DISK_SHARE and page_bytes <= self._budget_bytes * _PAGE_BESIDE_SHARE

    def _disk_bytes(self, read_pages: int) -> int:
        rows = self._pages.rows_per_page * min(read_pages, self._pages.num_pages)
        return self._pages.reading_bytes(read_pages) + rows * _PROBE_BYTES_PER_ROW
