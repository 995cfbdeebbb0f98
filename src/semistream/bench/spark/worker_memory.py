"""The memory of Spark's Python workers, as the operating system sees it, and of the page cache."""

import os
from collections.abc import Sequence
from pathlib import Path

from semistream.bench.extras import import_extra

__all__ = ["drop_from_page_cache", "worker_bytes"]


def worker_bytes() -> int:
    """Return the resident bytes of all Python workers below this process; what they share is counted once."""
    psutil = import_extra("psutil", "bench", "the memory of Python workers")
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if any("pyspark" in argument and "daemon" in argument for argument in process.cmdline()):
                total += int(process.memory_full_info().pss)
        except psutil.Error:
            continue  # it has just ended
    return total


def drop_from_page_cache(files: Sequence[Path]) -> None:
    """Let the next read of these files go to the disk."""
    for path in files:
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
