"""Orders rows by bucket and key code in bounded memory: sorted runs on disk, merged into one stream.

Rows are collected until a share of the memory is full, sorted, and spilled as a run of chunks whose code ranges
are remembered. When the data ends, the runs of each bucket are merged: chunks are loaded in the order of their
first codes, a share of the memory at a time; the rows before the first code of the next chunk are final. Runs
in excess of the fan-in are merged into longer ones first. Data that fits one run never touches the disk.

Rows only move between Arrow buffers, so every type keeps every bit of its values. DuckDB's out-of-core sort was
measured for this place: it ran out of memory on rows of 50 kB, and changes the types of many columns.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.storage.batch_cutting import cut_batches

__all__ = ["RowSorter"]

_FAN_IN = 128
_RUN_SHARE = 4  # a run is collected, then copied in order
_LOAD_SHARE = 8
_CHUNK_SHARE = 8 * _FAN_IN  # while merging, up to a chunk of every run waits beside what was loaded
_MIN_CHUNK_BYTES = 4096
_MAX_RUN_BYTES = 1 << 30  # text has 32-bit offsets
_SORT_BYTES_PER_ROW = 40  # code, bucket, order, and the sort's own space


class _Chunk(NamedTuple):
    """Sorted rows of one bucket inside a run; they compare in the order in which chunks are merged."""

    bucket: int
    first_code: int
    run: int
    position: int
    nbytes: int


class _Run(NamedTuple):
    path: str
    chunks: list[_Chunk]


class RowSorter:
    """Sorts rows by (bucket, code); rows that are equal in both keep their order of arrival.

    Inside, a row carries its code as the last column.

    Parameters
    ----------
    schema
        Of the rows.
    memory_bytes
        What sorting may take; a chunk of each of up to 256 runs has to fit.
    make_scratch
        Called for a folder when the first run has to be spilled.
    """

    def __init__(self, schema: pa.Schema, memory_bytes: int, make_scratch: Callable[[], str]) -> None:
        self._schema = schema
        self._coded_schema = schema.append(pa.field("", pa.int64(), nullable=False))
        self._run_bytes = min(memory_bytes // _RUN_SHARE, _MAX_RUN_BYTES)
        self._load_bytes = min(memory_bytes // _LOAD_SHARE, _MAX_RUN_BYTES)
        self._chunk_bytes = max(memory_bytes // _CHUNK_SHARE, _MIN_CHUNK_BYTES)
        self._make_scratch = make_scratch
        self._scratch: str | None = None
        self._collected: list[pa.RecordBatch] = []
        self._buckets: list[npt.NDArray[np.int32]] = []
        self._collected_bytes = 0
        self._levels: list[list[_Run]] = [[]]
        self._spilled = 0

    def add(self, batch: pa.RecordBatch, codes: npt.NDArray[np.int64], buckets: npt.NDArray[np.int32]) -> None:
        """Take rows in; ``codes`` may be all zero to keep the order of arrival inside a bucket."""
        coded = pa.RecordBatch.from_arrays([*batch.columns, pa.array(codes)], schema=self._coded_schema)
        self._collected.append(coded)
        self._buckets.append(buckets)
        self._collected_bytes += batch.nbytes + batch.num_rows * _SORT_BYTES_PER_ROW
        if self._collected_bytes >= self._run_bytes:
            self._spill(self._sorted_run())

    def sorted_buckets(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """Yield each bucket that has rows, ascending, with its sorted rows; use them before going on."""
        if self._spilled:
            if self._collected:
                self._spill(self._sorted_run())
            # Higher levels hold rows that arrived earlier.
            buckets = self._merged([run for level in reversed(self._levels) for run in level])
        else:
            buckets = ((bucket, iter([rows])) for bucket, rows in self._sorted_run())
        for bucket, batches in buckets:
            yield bucket, (self._without_code(batch) for batch in batches)

    def _without_code(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(batch.columns[:-1], schema=self._schema)

    def _sorted_run(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Sort what was collected, and yield it by bucket."""
        if not self._collected:
            return
        collected, buckets = self._collected, np.concatenate(self._buckets)
        self._collected, self._buckets, self._collected_bytes = [], [], 0
        order = np.argsort(np.concatenate([_codes(batch) for batch in collected]), kind="stable")
        if buckets.min() != buckets.max():
            buckets = buckets[order]
            by_bucket = np.argsort(buckets, kind="stable")
            order, buckets = order[by_bucket], buckets[by_bucket]
        rows = _take(collected, self._coded_schema, order)
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], buckets.size], strict=True):
            yield int(buckets[start]), rows.slice(start, stop - start)

    def _spill(self, pieces: Iterable[tuple[int, pa.RecordBatch]], level: int = 0) -> None:
        if self._scratch is None:
            self._scratch = self._make_scratch()
        run = _Run(os.path.join(self._scratch, f"run-{self._spilled}"), [])
        self._spilled += 1
        with pa.OSFile(run.path, "wb") as file, pa.ipc.new_file(file, self._coded_schema) as writer:
            for bucket, rows in pieces:
                for chunk in cut_batches([rows], self._chunk_bytes):
                    writer.write_batch(chunk)
                    run.chunks.append(_Chunk(bucket, int(_codes(chunk)[0]), 0, len(run.chunks), chunk.nbytes))
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(run)
        if len(self._levels[level]) == _FAN_IN:
            full, self._levels[level] = self._levels[level], []
            self._spill(((bucket, rows) for bucket, merged in self._merged(full) for rows in merged), level + 1)
            for run in full:
                os.unlink(run.path)

    def _merged(self, runs: list[_Run]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        chunks = sorted(chunk._replace(run=number) for number, run in enumerate(runs) for chunk in run.chunks)
        bucket_of_chunk = np.array([chunk.bucket for chunk in chunks])
        with ExitStack() as files:
            readers = [pa.ipc.open_file(files.enter_context(pa.OSFile(run.path, "rb"))) for run in runs]
            for bucket in np.unique(bucket_of_chunk):
                first, end = np.searchsorted(bucket_of_chunk, (bucket, bucket + 1))
                yield int(bucket), self._merge(readers, chunks[first:end])

    def _merge(self, readers: list[pa.RecordBatchFileReader], chunks: list[_Chunk]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``chunks``, which belong to one bucket and are in merging order, sorted."""
        waiting: list[list[pa.RecordBatch]] = [[] for _ in readers]
        loaded_bytes = 0
        for number, chunk in enumerate(chunks):
            waiting[chunk.run].append(readers[chunk.run].get_batch(chunk.position))
            loaded_bytes += chunk.nbytes
            following = chunks[number + 1] if number + 1 < len(chunks) else None
            if following is not None and loaded_bytes < self._load_bytes:
                continue
            loaded_bytes = 0
            final = []
            for run, batches in enumerate(waiting):
                if following is None:
                    final += batches
                    continue
                # Rows that equal the next chunk's first code go after its earlier runs' and before its later
                # runs' rows of that code, so those of later runs have to wait for it.
                side: Literal["left", "right"] = "right" if run <= following.run else "left"
                waiting[run] = []
                for batch in batches:
                    cut = int(np.searchsorted(_codes(batch), following.first_code, side=side))
                    final.append(batch.slice(0, cut))
                    waiting[run].append(batch.slice(cut))
                waiting[run] = [batch for batch in waiting[run] if batch.num_rows]
            if any(batch.num_rows for batch in final):
                order = np.argsort(np.concatenate([_codes(batch) for batch in final]), kind="stable")
                yield _take(final, self._coded_schema, order)


def _codes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    return np.asarray(batch.column(batch.num_columns - 1))


def _take(batches: list[pa.RecordBatch], schema: pa.Schema, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Join ``batches``, which are emptied, and put their rows in ``order``, holding one column twice at most."""
    table = pa.Table.from_batches(batches, schema)
    batches.clear()
    positions = pa.array(order)
    columns = []
    for _ in range(table.num_columns):
        columns.append(table.column(0).combine_chunks().take(positions))
        table = table.remove_column(0)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
