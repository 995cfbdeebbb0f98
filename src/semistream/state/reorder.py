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

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ReorderBuffer"]

_MERGE_RUNS = 8
# Parts of the capacity: what runs in memory take, a merge of which holds its inputs and its result; and the page in
# memory of a run on disk, of which there are at most seven to a level.
_MEMORY_RUNS_PART = 6
_DISK_PAGE_PART = 64

_Int64s = npt.NDArray[np.int64]


class _MemoryRun:
    """Results sorted by arrival number, released from the front."""

    def __init__(self, batch: pa.RecordBatch, level: int) -> None:
        self.level = level
        self._batch = batch
        self._numbers = _numbers(batch)

    @property
    def nbytes(self) -> int:
        return int(self._batch.get_total_buffer_size())

    def fill(self) -> None:
        """All rows are in memory."""

    def drop(self) -> None:
        """They stay there."""

    def rest(self) -> pa.RecordBatch:
        return self._batch

    def __len__(self) -> int:
        return self._batch.num_rows

    @property
    def safe_number(self) -> int | None:
        """The number up to which the rows in memory are complete; None when all are in memory."""
        return None

    @property
    def last_number(self) -> int:
        """The largest number in memory."""
        return int(self._numbers[-1])

    def take_until(self, number: int) -> pa.RecordBatch:
        """Remove and return the rows up to ``number``, it included."""
        count = int(np.searchsorted(self._numbers, number, side="right"))
        front = self._batch.slice(0, count)
        self._batch = self._batch.slice(count)
        self._numbers = self._numbers[count:]
        return front

    @property
    def first_number(self) -> int | None:
        return int(self._numbers[0]) if len(self) else None


class _DiskRun:
    """A run in a temporary file, of which at most one page at a time is in memory."""

    def __init__(
        self, path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], page_bytes: int, level: int
    ) -> None:
        self.level = level
        self.widest_page_bytes = 0
        self._page_numbers: list[int] = []
        self._page_rows: list[int] = []
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for page in _pages(batches, page_bytes):
                writer.write_batch(page)
                self._page_numbers.append(int(_numbers(page)[0]))
                self._page_rows.append(page.num_rows)
                self.widest_page_bytes = max(self.widest_page_bytes, page.nbytes)
        self._path = path
        self._file = pa.OSFile(str(path), "rb")
        self._pages = pa.ipc.open_file(self._file)
        self._at = 0  # the page that is next, or in memory
        self._released = 0  # rows of it
        self._unread_rows = sum(self._page_rows)
        self._page: _MemoryRun | None = None
        self._first_number = self._page_numbers[0]

    def __len__(self) -> int:
        return self._unread_rows

    @property
    def nbytes(self) -> int:
        return 0 if self._page is None else self._page.nbytes

    @property
    def first_number(self) -> int | None:
        return self._first_number if self._unread_rows else None

    def fill(self) -> None:
        """Have rows in memory, if there are any left."""
        if self._page is None and self._unread_rows:
            self._page = _MemoryRun(self._pages.get_batch(self._at).slice(self._released), 0)

    def drop(self) -> None:
        """Have no rows in memory."""
        self._page = None

    @property
    def safe_number(self) -> int | None:
        return None if self._at + 1 == len(self._page_rows) else self.last_number

    @property
    def last_number(self) -> int:
        assert self._page is not None
        return self._page.last_number

    def take_until(self, number: int) -> pa.RecordBatch:
        assert self._page is not None
        rows = self._page.take_until(number)
        self._released += rows.num_rows
        self._unread_rows -= rows.num_rows
        if self._page.first_number is not None:
            self._first_number = self._page.first_number
        elif self._unread_rows:
            self._page = None
            self._at += 1
            self._released = 0
            self._first_number = self._page_numbers[self._at]
        return rows

    def read_all(self) -> Iterator[pa.RecordBatch]:
        """Return all rows that were not released, for a snapshot; the run stays as it is."""
        skipped = self._released
        for page in range(self._at, len(self._page_rows)):
            yield self._pages.get_batch(page).slice(skipped)
            skipped = 0

    def close(self) -> None:
        self._page = None
        self._file.close()
        self._path.unlink(missing_ok=True)


class ReorderBuffer:
    """Holds result rows and returns them by arrival number, in at most ``capacity_bytes`` of memory."""

    def __init__(self, schema: pa.Schema, capacity_bytes: int, max_rows: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._schema = schema.append(pa.field("", pa.int64()))
        self._max_rows = max_rows
        self._runs: list[_MemoryRun] = []
        self._disk_runs: list[_DiskRun] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._files_made = 0
        self.spilled_rows = 0

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs) + sum(run.nbytes for run in self._disk_runs)

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(map(len, self._disk_runs))

    def add(self, numbers: _Int64s, batch: pa.RecordBatch) -> None:
        """Put results of the tuples with these arrival numbers."""
        if batch.num_rows == 0:
            return
        order = pa.array(np.argsort(numbers, kind="stable"))
        numbered = pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers)], schema=self._schema)
        self._runs.append(_MemoryRun(numbered.take(order), 0))
        self._merge_full_levels()
        self._spill_excess()

    def resize(self, capacity_bytes: int) -> None:
        """Change the memory; what does not fit it moves to disk."""
        self.capacity_bytes = capacity_bytes
        for run in self._disk_runs:
            run.drop()
        self._spill_excess()

    def _spill_excess(self) -> None:
        while sum(run.nbytes for run in self._runs) * _MEMORY_RUNS_PART > self.capacity_bytes:
            largest = max(self._runs, key=lambda run: run.nbytes)
            self._runs.remove(largest)
            self.spilled_rows += len(largest)
            self._disk_runs.append(self._disk_run([largest.rest()], level=0))
            self._merge_full_disk_levels()

    def _merge_full_levels(self) -> None:
        level = 0
        while len(runs := [run for run in self._runs if run.level == level]) >= _MERGE_RUNS:
            merged = _sorted_rows([run.rest() for run in runs])
            self._runs = [run for run in self._runs if run.level != level]
            self._runs.append(_MemoryRun(merged, level + 1))
            level += 1

    def _disk_run(self, batches: Iterable[pa.RecordBatch], level: int) -> _DiskRun:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="semistream-reorder-")
        self._files_made += 1
        path = Path(self._directory.name) / f"run-{self._files_made}.arrow"
        return _DiskRun(path, self._schema, batches, self.capacity_bytes // _DISK_PAGE_PART, level)

    def _merge_full_disk_levels(self) -> None:
        level = 0
        while len(runs := [run for run in self._disk_runs if run.level == level]) >= _MERGE_RUNS:
            merged = self._disk_run(self._in_order(runs, None), level + 1)
            for run in runs:
                run.close()
            self._disk_runs = [run for run in self._disk_runs if run.level != level]
            self._disk_runs.append(merged)
            level += 1

    def release(self, before: int) -> Iterator[pa.RecordBatch]:
        """Return all rows of tuples with arrival numbers below ``before``, in that order, and forget them."""
        for rows in self._in_order([*self._runs, *self._disk_runs], before):
            for start in range(0, rows.num_rows, self._max_rows):
                portion = rows.slice(start, self._max_rows)
                yield portion.select(range(len(self._schema) - 1))
        self._drop_empty()

    def _in_order(self, runs: Sequence[_MemoryRun | _DiskRun], before: int | None) -> Iterator[pa.RecordBatch]:
        """Take the rows with numbers below ``before``, or all rows, out of the runs, in order."""
        widest_bytes = max((run.widest_page_bytes for run in self._disk_runs), default=0)
        if widest_bytes * len(self._disk_runs) * 2 > self.capacity_bytes:
            return _by_number(runs, before)
        return _by_page(runs, before)

    def _drop_empty(self) -> None:
        self._runs = [run for run in self._runs if len(run)]
        for run in self._disk_runs:
            if not len(run):
                run.close()
        self._disk_runs = [run for run in self._disk_runs if len(run)]

    def to_table(self) -> pa.Table:
        """Return everything that waits, for a snapshot, with the arrival number as last column."""
        batches = [run.rest() for run in self._runs]
        for run in self._disk_runs:
            batches.extend(run.read_all())
        return pa.Table.from_batches(batches, self._schema)

    def add_table(self, table: pa.Table) -> None:
        """Take over what `to_table` returned."""
        for batch in table.to_batches(max_chunksize=self._max_rows):
            self.add(_numbers(batch), batch.select(range(len(self._schema) - 1)))

    def close(self) -> None:
        for run in self._disk_runs:
            run.close()
        self._disk_runs = []
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None


def _numbers(batch: pa.RecordBatch) -> _Int64s:
    """Return the arrival numbers: the last column, whatever the others are called."""
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


def _by_page(all_runs: Sequence[_MemoryRun | _DiskRun], before: int | None) -> Iterator[pa.RecordBatch]:
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


def _by_number(all_runs: Sequence[_MemoryRun | _DiskRun], before: int | None) -> Iterator[pa.RecordBatch]:
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
