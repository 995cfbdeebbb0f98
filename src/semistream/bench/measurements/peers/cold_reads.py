"""Look-ups of scattered keys with nothing in the page cache, beside raw reads of the same pages."""

import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import semistream as ss
from semistream.bench.framework.measurement import Context, Point, in_turns
from semistream.bench.measurements.page_cache import drop_from_page_cache
from semistream.bench.measurements.spark.plans import OURS
from semistream.bench.measurements.spark.tables import files_below
from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCoder
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable
from semistream.storage.files.random_file import LocalFile
from semistream.workloads import STREAM_SCHEMA, stream, synthetic

__all__ = ["ColdReads", "answer"]

_RAW_THREADS = 16
BYTES_A_SECOND = "bytes a second"


@dataclass(frozen=True, kw_only=True)
class ColdReads:
    """One process; our join has a new operator for each repeat."""

    rows: int
    tuples: int
    page_bytes: int
    memory_share: float
    in_flight: int  # pages asked for at once by raw reads
    repeats: int

    @property
    def name(self) -> str:
        return f"cold, {self.rows:,} rows, {self.tuples:,} keys"

    @property
    def weight(self) -> float:
        return 5.0 + 4 * self.repeats * 2e-4 * self.tuples

    def run(self, context: Context) -> list[Point]:
        table = context.table(synthetic(self.rows, zipf_exponent=0.0), "clustered", self.page_bytes)
        asking = stream(self.tuples, key_domain=self.rows, seed=context.seed).read_all().combine_chunks().to_batches()
        pages = _pages_of(table, np.asarray(asking[0].column("key")))
        files = files_below(Path(table.path))
        memory_bytes = int(table.num_bytes * self.memory_share)
        raw = {"advised": _advised, "threads": _threaded}

        def our_speed() -> float:
            op = ss.operator("auto", table, STREAM_SCHEMA, on="key", memory=memory_bytes)
            return _bytes_a_second(files, partial(_join, op, asking[0]))

        sides = {OURS: our_speed}
        for way, read in raw.items():
            sides[way] = partial(_bytes_a_second, files, partial(read, table, pages, self.in_flight))
        sides[OURS]()  # compiles
        runs = in_turns(sides, self.repeats, context.report)
        speeds = {side: statistics.median(found) for side, found in runs.items()}
        fastest = max(raw, key=lambda way: speeds[way])
        details = {"pages": int(pages.size), "bytes": int(table.pages.length[pages].sum()), "runs": runs}
        return [
            Point(OURS, self.tuples, {BYTES_A_SECOND: speeds[OURS]}, details, "cold"),
            Point("raw reads", self.tuples, {BYTES_A_SECOND: speeds[fastest]}, {"way": fastest}, "cold"),
        ]


def _bytes_a_second(files: list[Path], read: Callable[[], int]) -> float:
    os.sync()
    drop_from_page_cache(files)
    began_s = time.perf_counter()
    read_bytes = read()
    return read_bytes / (time.perf_counter() - began_s)


def _pages_of(table: MasterTable, keys: Int64s) -> Int64s:
    """Return the pages that can hold the keys, in their order on disk."""
    codes = KeyCoder(table.key, [table.schema.field(name).type for name in table.key]).codes([pa.array(keys)])
    ranges = table.pages.locate(np.unique(codes.code))
    is_wanted = np.zeros(table.num_pages + 1, dtype=np.int64)
    np.add.at(is_wanted, ranges.lo.ravel(), 1)
    np.add.at(is_wanted, ranges.hi.ravel(), -1)
    return np.flatnonzero(np.cumsum(is_wanted[:-1]))


def _join(op: StepOperator, asking: pa.RecordBatch) -> int:
    with op:
        answer(op, asking)
        return op.metrics.bytes_read


def answer(op: StepOperator, batch: pa.RecordBatch) -> None:
    """Let a join answer all rows of a batch."""
    taken = 0
    while taken < batch.num_rows:
        taken += op.offer(batch.slice(taken))
        deque(op.step(), maxlen=0)
    deque(op.drain(), maxlen=0)


def _advised(table: MasterTable, pages: Int64s, in_flight: int) -> int:
    """Ask the system for many pages, then read them."""
    view = memoryview(bytearray(int(table.pages.length.max())))
    done = 0
    for name, offsets, lengths in _by_file(table, pages):
        file = os.open(name, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        ranges = list(zip(offsets.tolist(), lengths.tolist(), strict=True))
        for first in range(0, len(ranges), in_flight):
            portion = ranges[first : first + in_flight]
            for offset, length in portion:
                os.posix_fadvise(file, offset, length, os.POSIX_FADV_WILLNEED)
            for offset, length in portion:
                done += os.preadv(file, [view[:length]], offset)
        os.close(file)
    return done


def _threaded(table: MasterTable, pages: Int64s, in_flight: int) -> int:
    """Read from as many threads as pages are to be in flight, up to what the interpreter can keep busy."""
    threads = min(in_flight, _RAW_THREADS)
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        for name, offsets, lengths in _by_file(table, pages):
            file = LocalFile(name)
            file.advise("lookup")

            def read(number: int, file: LocalFile = file, offsets: Int64s = offsets, lengths: Int64s = lengths) -> int:
                view = memoryview(bytearray(int(lengths.max())))
                mine = zip(offsets[number::threads].tolist(), lengths[number::threads].tolist(), strict=True)
                return sum(file.read_into(offset, view[:length]) for offset, length in mine)

            done += sum(pool.map(read, range(threads)))
            file.close()
    return done


def _by_file(table: MasterTable, pages: Int64s) -> list[tuple[str, Int64s, Int64s]]:
    directory = table.pages
    found = []
    for number in np.unique(directory.file[pages]).tolist():
        here = pages[directory.file[pages] == number]
        found.append((table.store.locate(directory.files[number].path), directory.offset[here], directory.length[here]))
    return found
