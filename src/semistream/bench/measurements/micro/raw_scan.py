"""Plain sequential reading of a table's files, as fast as possible: the baseline of all scans."""

import os
import time
from collections.abc import Callable, Sequence

import numpy as np

from semistream.bench.framework.measurement import Context
from semistream.bench.measurements.page_cache import drop_from_page_cache
from semistream.storage import MasterTable

__all__ = ["BLOCK_BYTES", "disk_share", "fastest_block_bytes", "plain_block_bytes", "raw_scan_s", "table_files"]

BLOCK_BYTES = (256 << 10, 1 << 20, 4 << 20)
_LARGEST_FOLIO_BYTES = 4 << 20


def table_files(table: MasterTable) -> list[str]:
    """Return the paths of the data files of a local table, in the order of a scan."""
    return [table.store.locate(file.path) for file in table.pages.files]


def disk_share(table: MasterTable) -> Callable[[], list[float]]:
    """Return a function that tells the share of the table fetched from the disk since now; nothing if unknown."""
    before = _disk_bytes_read()

    def share() -> list[float]:
        after = _disk_bytes_read()
        return [] if before is None or after is None else [(after - before) / table.num_bytes]

    return share


def _disk_bytes_read() -> int | None:
    """Return the bytes that this process has fetched from disks, without the page cache; None if unknown."""
    try:
        with open("/proc/self/io") as counters:
            return next(int(line.split()[1]) for line in counters if line.startswith("read_bytes:"))
    except (OSError, StopIteration):
        return None


def raw_scan_s(paths: Sequence[str], block_bytes: int, *, cold: bool) -> float:
    """Read all files once into one buffer and return the seconds; a cold scan leaves nothing in the page cache."""
    if cold:
        drop_from_page_cache(paths)
    buffer = memoryview(np.zeros(block_bytes, dtype=np.uint8).data)
    started_s = time.perf_counter()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            offset = 0
            while got := os.preadv(fd, [buffer], offset):
                offset += got
                if cold:
                    # A unit of the cache is dropped only if it lies inside the range, hence the overlap.
                    start = max(0, offset - got - _LARGEST_FOLIO_BYTES)
                    os.posix_fadvise(fd, start, offset - start, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    return time.perf_counter() - started_s


def fastest_block_bytes(paths: Sequence[str], *, cold: bool) -> int:
    """Return the fastest block size of plain reading; each is tried twice, in turns."""
    tried_s = [
        {block_bytes: raw_scan_s(paths, block_bytes, cold=cold) for block_bytes in BLOCK_BYTES} for _ in range(2)
    ]
    return min(BLOCK_BYTES, key=lambda block_bytes: min(seconds[block_bytes] for seconds in tried_s))


def plain_block_bytes(context: Context, table: MasterTable, *, cold: bool) -> int:
    """Return the fastest block size of plain reading, which all measurements of a table share."""
    context.report("choosing the block size of plain reading")
    key = f"block size of plain {'cold' if cold else 'warm'} reading, table {table.table_id}"
    chosen: int = context.remembered(key, lambda: fastest_block_bytes(table_files(table), cold=cold))
    return chosen
