"""The resident memory of a process, as the system counts it.

Pages of files are left out: they are the page cache's, which drops them when memory is short.
"""

import mmap

__all__ = ["file_bytes", "resident_bytes"]


def resident_bytes() -> int | None:
    """Return the resident memory of this process but for pages of files, or None where it is not told as on Linux."""
    counts = _counts()
    return None if counts is None else counts[0] - counts[1]


def file_bytes() -> int:
    """Return how much of the resident memory of this process are pages of files, and memory that processes share."""
    counts = _counts()
    return 0 if counts is None else counts[1]


def _counts() -> tuple[int, int] | None:
    """Return what is resident, and how much of that are pages of files and shared memory."""
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return None
    return int(resident) * mmap.PAGESIZE, int(shared) * mmap.PAGESIZE
