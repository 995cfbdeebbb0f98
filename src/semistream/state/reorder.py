"""Output in stream order: results wait with their tuple's arrival number until all older tuples are answered.

S3 (section 3.3) attaches results to the entry in H. Their number has no bound in a many-to-many join, so here they
wait in sorted runs inside a fixed share of memory, and the largest run moves to a temporary file when the share is
used up. Small runs are merged into larger ones, so that a release looks into few of them.

::

    add ──► run ┐                       ┌► run on disk ┐
            run ├─ merge ─► larger run ─┘  run on disk ├─ merge ─► larger run on disk
            run ┘                          run on disk ┘           (read back page by page)

    release(before) takes the front of every run
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from semistream.kernels.arrays import Int64s
from semistream.kernels.arrow_views import with_own_items
from semistream.state.spill_file import SpillFile

__all__ = ["ReorderBuffer"]

_MERGE_RUNS = 8
# Parts of the capacity: one for runs in memory, since a merge holds its inputs and its result; and one for the page
# in memory of a run on disk, of which there are at most seven to a level.
_MEMORY_RUNS_PART = 6
_DISK_PAGE_PART = 64


class _Run:
    """Results sorted by arrival number, released from the front: in memory, or on disk with one page in memory."""

    def __init__(self, level: int, rows: pa.RecordBatch) -> None:
        self.level = level
        self.widest_page_bytes = 0
        self._schema = rows.schema
        self._file: SpillFile | None = None
        self._pages: deque[tuple[int, int]] = deque()  # first number and offset of each page not yet released whole
        self._released = 0  # rows of the first page
        self._num_rows = rows.num_rows
        self._hold(rows)
        self.first_number = int(self._numbers[0]) if self._num_rows else None

    @classmethod
    def on_disk(cls, level: int, schema: pa.Schema, pages: Iterable[pa.RecordBatch]) -> "_Run":
        run = cls(level, pa.RecordBatch.from_pylist([], schema))
        run._file = SpillFile("results that wait for older tuples")
        try:
            for page in pages:
                run._pages.append((int(_numbers(page)[0]), run._file.append(with_own_items(page).serialize())))
                run._num_rows += page.num_rows
                run.widest_page_bytes = max(run.widest_page_bytes, page.nbytes)
        except BaseException:
            run.close()
            raise
        run._page, run.first_number = None, run._pages[0][0]
        return run

    def __len__(self) -> int:
        return self._num_rows

    @property
    def nbytes(self) -> int:
        return 0 if self._page is None else int(self._page.get_total_buffer_size())

    def _hold(self, page: pa.RecordBatch) -> None:
        self._page: pa.RecordBatch | None = page
        self._numbers = _numbers(page)

    def fill(self) -> None:
        if self._page is None and self._file is not None and self._pages:
            self._hold(next(self._file.batches(self._schema, self._pages[0][1])).slice(self._released))

    def drop(self) -> None:
        """Have no rows in memory that are on disk."""
        if self._file is not None:
            self._page = None

    @property
    def safe_number(self) -> int | None:
        """The number up to which the rows in memory are complete; None if no others are left."""
        return None if len(self._pages) <= 1 else self.last_number

    @property
    def last_number(self) -> int:
        return int(self._numbers[-1])

    def take_until(self, number: int) -> pa.RecordBatch:
        """Remove and return the rows in memory up to ``number``, it included."""
        assert self._page is not None
        page, count = self._page, int(np.searchsorted(self._numbers, number, side="right"))
        self._page, self._numbers = page.slice(count), self._numbers[count:]
        self._released += count
        self._num_rows -= count
        if self._numbers.size:
            self.first_number = int(self._numbers[0])
        else:
            if self._pages:
                self._pages.popleft()
                self._page, self._released = None, 0
            self.first_number = self._pages[0][0] if self._pages else None
        return page.slice(0, count)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the rows that were not released; the run stays as it is."""
        if self._file is None:
            assert self._page is not None
            yield self._page
        elif self._pages:
            skipped = self._released
            for page in self._file.batches(self._schema, self._pages[0][1]):
                yield page.slice(skipped)
                skipped = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.remove()


class ReorderBuffer:
    """Holds result rows and returns them by arrival number, in at most ``capacity_bytes`` of memory."""

    def __init__(self, schema: pa.Schema, capacity_bytes: int, max_rows: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._schema = schema.append(pa.field("", pa.int64()))
        self._max_rows = max_rows
        self._runs: list[_Run] = []
        self._disk_runs: list[_Run] = []
        self.spilled_rows = 0

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in (*self._runs, *self._disk_runs))

    def __len__(self) -> int:
        return sum(map(len, (*self._runs, *self._disk_runs)))

    def add(self, numbers: Int64s, batch: pa.RecordBatch) -> None:
        """Put results of the tuples with these arrival numbers."""
        if batch.num_rows == 0:
            return
        order = pa.array(np.argsort(numbers, kind="stable"))
        numbered = pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers)], schema=self._schema)
        self._runs.append(_Run(0, numbered.take(order)))
        _merge_full_levels(self._runs, self._merged_in_memory)
        self._spill_excess()

    def resize(self, capacity_bytes: int) -> None:
        """Change the memory; rows beyond it move to disk."""
        self.capacity_bytes = capacity_bytes
        for run in self._disk_runs:
            run.drop()
        self._spill_excess()

    def _spill_excess(self) -> None:
        while sum(run.nbytes for run in self._runs) * _MEMORY_RUNS_PART > self.capacity_bytes:
            largest = max(self._runs, key=lambda run: run.nbytes)
            self._disk_runs.append(self._on_disk(0, largest.rest()))
            self._runs.remove(largest)
            self.spilled_rows += len(largest)
            _merge_full_levels(self._disk_runs, self._merged_on_disk)

    def _merged_in_memory(self, level: int, runs: list[_Run]) -> _Run:
        return _Run(level, _sorted_rows([rows for run in runs for rows in run.rest()]))

    def _merged_on_disk(self, level: int, runs: list[_Run]) -> _Run:
        return self._on_disk(level, self._in_order(runs, None))

    def _on_disk(self, level: int, batches: Iterable[pa.RecordBatch]) -> _Run:
        return _Run.on_disk(level, self._schema, _pages(batches, self.capacity_bytes // _DISK_PAGE_PART))

    def release(self, before: int) -> Iterator[pa.RecordBatch]:
        """Return all rows of tuples with arrival numbers below ``before``, in that order, and forget them."""
        for rows in self._in_order([*self._runs, *self._disk_runs], before):
            for start in range(0, rows.num_rows, self._max_rows):
                portion = rows.slice(start, self._max_rows)
                yield portion.select(range(len(self._schema) - 1))
        self._drop_empty()

    def _in_order(self, runs: Sequence[_Run], before: int | None) -> Iterator[pa.RecordBatch]:
        """Take the rows with numbers below ``before``, or all rows, out of the runs, in order."""
        widest_bytes = max((run.widest_page_bytes for run in self._disk_runs), default=0)
        if widest_bytes * len(self._disk_runs) * 2 > self.capacity_bytes:
            return _by_number(runs, before)
        return _by_page(runs, before)

    def _drop_empty(self) -> None:
        for runs in (self._runs, self._disk_runs):
            for run in [run for run in runs if not len(run)]:
                run.close()
                runs.remove(run)

    def to_table(self) -> pa.Table:
        """Return all rows, for a snapshot, with their arrival numbers as last column."""
        batches = [rows for run in [*self._runs, *self._disk_runs] for rows in run.rest()]
        return pa.Table.from_batches(batches, self._schema)

    def add_table(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=self._max_rows):
            self.add(_numbers(batch), batch.select(range(len(self._schema) - 1)))

    def close(self) -> None:
        for run in self._disk_runs:
            run.close()
        self._disk_runs = []


def _numbers(batch: pa.RecordBatch) -> Int64s:
    """Return the arrival numbers: the last column, since the others may have any names."""
    return np.asarray(batch.column(batch.num_columns - 1).to_numpy())


def _pages(batches: Iterable[pa.RecordBatch], page_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut batches anew into pages of about ``page_bytes``, at least one row each."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.nbytes for part in waiting) < page_bytes:
            continue
        rows = pa.concat_batches(waiting)
        rows_per_page = max(1, page_bytes * rows.num_rows // max(1, rows.nbytes))
        whole = rows.num_rows - rows.num_rows % rows_per_page
        for start in range(0, whole, rows_per_page):
            yield rows.slice(start, rows_per_page)
        waiting = [rows.slice(whole)] if whole < rows.num_rows else []
    if waiting:
        yield pa.concat_batches(waiting)


def _merge_full_levels(runs: list[_Run], merge: Callable[[int, list[_Run]], _Run]) -> None:
    level = 0
    while len(full := [run for run in runs if run.level == level]) >= _MERGE_RUNS:
        runs.append(merge(level + 1, full))
        for run in full:
            run.close()
            runs.remove(run)
        level += 1


def _by_page(all_runs: Sequence[_Run], before: int | None) -> Iterator[pa.RecordBatch]:
    """Merge runs with a page of each in memory."""
    while runs := [run for run in all_runs if len(run)]:
        for run in runs:
            run.fill()
        first = min(number for run in runs if (number := run.first_number) is not None)
        if before is not None and first >= before:
            return
        # Rows up to this number are all in memory: a page on disk starts no earlier than the one before it ends.
        limits = [number for run in runs if (number := run.safe_number) is not None]
        limits.append(max(run.last_number for run in runs) if before is None else before - 1)
        yield _sorted_rows([run.take_until(min(limits)) for run in runs])


def _by_number(all_runs: Sequence[_Run], before: int | None) -> Iterator[pa.RecordBatch]:
    """Merge runs with one page in memory at a time: for rows so long that a page of each run would not fit."""
    while runs := [run for run in all_runs if len(run)]:
        number = min(first for run in runs if (first := run.first_number) is not None)
        if before is not None and number >= before:
            return
        for run in runs:
            while run.first_number == number:
                run.fill()
                yield run.take_until(number)
            run.drop()


def _sorted_rows(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    order = np.argsort(_numbers(rows), kind="stable")
    return rows.take(pa.array(order))
