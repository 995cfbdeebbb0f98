"""How a join with a window splits its budget, whether it scans R or reads partitions: S3 Eq. 1 with measured sizes.

::

    M = disk buffer + index (where pages lie) + results being built + chunks of Q (+ waiting results)   fixed by b
      + stream buffer + window                                                                          what is left
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semistream.core.budget import require_at_least
from semistream.core.semantics import JoinSpec
from semistream.operators.join import JoinInputs
from semistream.operators.phases.chunk_queue import CHUNK_BYTES
from semistream.operators.shedding.load_shedding import LoadShedding
from semistream.operators.window.delivery import Delivery
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import WindowCodes, WindowShape
from semistream.storage import PageReader, ReadAhead

__all__ = ["MemoryPlan", "MemoryPlanner", "PageSizes"]

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
    """Sizes of the pages that a join reads."""

    pages_per_file: tuple[int, ...]  # a read never crosses a file
    rows_per_page: int  # of the page with most rows
    index_bytes: int  # of the directory of where pages lie
    header_bytes: int  # what precedes pages in a buffer that is to be decoded
    run_bytes: Callable[[int], int]  # returns the most bytes that so many consecutive pages of one file take

    @staticmethod
    def of(reader: PageReader) -> "PageSizes":
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


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """The split for one choice of b."""

    b: int  # pages per read
    read_pages: int  # the most that a read can take: b, and one beside them where there is memory
    iterations_per_cycle: int  # reads for one scan of R
    read_bytes: int  # the largest read
    disk_bytes: int  # the read itself, the pages decoded from it and those in use, and the space to probe them
    stream_buffer_bytes: int
    window_bytes: int
    cache_bytes: int

    @property
    def chunks(self) -> int:
        """How many chunks are pending at most: those of a cycle, the one that just came, and one to spare."""
        return self.iterations_per_cycle + _EXTRA_CHUNKS


@dataclass(frozen=True, kw_only=True)
class MemoryPlanner:
    """Works out plans for one join on one table."""

    what: str  # the join, for errors
    pages: PageSizes
    spec: JoinSpec
    codes: WindowCodes
    ordered: bool
    budget_bytes: int
    other_bytes: int  # what the operator holds besides, whatever b is
    cache_share: float = 0.0  # what a front stage gets of the memory that is left for it and the stream
    sheds: bool = False  # load is shed by what waits in the stream buffer: it is larger then
    largest_read_bytes: int = _LARGEST_READ_BYTES  # that a good choice of b makes
    wants_page_beside: bool = False  # b pages mostly come with one more: two reads would cost more than its memory

    @staticmethod
    def of(
        inputs: JoinInputs,
        reader: PageReader,
        codes: WindowCodes,
        delivery: Delivery,
        shedding: LoadShedding | None = None,
        cache_share: float = 0.0,
    ) -> "MemoryPlanner":
        """Return the planner of a join that scans what ``reader`` reads."""
        return MemoryPlanner(
            what=str(inputs),
            pages=PageSizes.of(reader),
            spec=inputs.spec,
            codes=codes,
            ordered=delivery.ordered,
            budget_bytes=inputs.budget_bytes,
            other_bytes=delivery.reserved_bytes + (0 if shedding is None else shedding.memory_bytes),
            cache_share=cache_share,
            sheds=shedding is not None,
        )

    def plan(self, b: int | None) -> MemoryPlan:
        """Return the plan for ``b`` pages per read, or a good choice of b; raise `BudgetTooSmall`, naming the least."""
        TupleStore.require_supported(self.spec.stream_schema)
        if b is None:
            b = self._good_b()
        read_pages = b + int(self.wants_page_beside and self._affords_page_beside(b))
        disk_bytes = self._disk_bytes(read_pages)
        iterations = self.pages.reads(b)
        chunks_bytes = (iterations + _EXTRA_CHUNKS) * CHUNK_BYTES
        fixed_bytes = disk_bytes + self.pages.index_bytes + self.other_bytes + chunks_bytes
        least_rest = int(self._least_stream_bytes() / (1 - self.cache_share)) + 1
        require_at_least(self.budget_bytes, fixed_bytes + least_rest, f"{self.what} with b={b}")
        cache_bytes = int((self.budget_bytes - fixed_bytes) * self.cache_share)
        rest = self.budget_bytes - fixed_bytes - cache_bytes
        buffer_bytes = max(int(rest * self._buffer_share(iterations)), min(_LEAST_BUFFER_BYTES, rest // 4))
        return MemoryPlan(
            b=b,
            read_pages=read_pages,
            iterations_per_cycle=iterations,
            read_bytes=self.pages.run_bytes(read_pages),
            disk_bytes=disk_bytes,
            stream_buffer_bytes=buffer_bytes,
            window_bytes=rest - buffer_bytes,
            cache_bytes=cache_bytes,
        )

    def _least_stream_bytes(self) -> int:
        schema = self.spec.stream_schema
        varlen_bytes = _UNMEASURED_VARLEN_BYTES * TupleStore.num_varlen_columns(schema)
        least = WindowShape(_LEAST_TUPLES, 2 * _LEAST_TUPLES * varlen_bytes)
        return 2 * sum(least.nbytes(self.codes, schema, self.ordered)) + _LEAST_BUFFER_BYTES

    def _buffer_share(self, iterations: int) -> float:
        """Return a share for whole chunks of w tuples; a window is as many chunks as there are iterations."""
        least = max(_STREAM_BUFFER_SHARE, 1 / (iterations + 1))
        if not self.sheds:
            return least
        wanted = max(_SHEDDING_BUFFER_SHARE, _SHEDDING_CHUNKS / (iterations + _SHEDDING_CHUNKS))
        return max(least, min(wanted, _LARGEST_BUFFER_SHARE))

    def _good_b(self) -> int:
        b = 1
        while (
            b < self.pages.num_pages
            and self._disk_bytes(2 * b) <= self.budget_bytes * _DISK_SHARE
            and self.pages.run_bytes(2 * b) <= self.largest_read_bytes
        ):
            b *= 2
        return b

    def _affords_page_beside(self, b: int) -> bool:
        disk_bytes = self._disk_bytes(b + 1)
        page_bytes = disk_bytes - self._disk_bytes(b)
        return disk_bytes <= self.budget_bytes * _DISK_SHARE and page_bytes <= self.budget_bytes * _PAGE_BESIDE_SHARE

    def _disk_bytes(self, read_pages: int) -> int:
        rows = self.pages.rows_per_page * min(read_pages, self.pages.num_pages)
        return self.pages.reading_bytes(read_pages) + rows * _PROBE_BYTES_PER_ROW
