"""The resident memory of a process, as the system counts it.

Pages of files are left out: they are the page cache's, which drops them when memory is short.
"""

import mmap

__all__ = ["file_bytes", "resident_bytes"]


def resident_bytes() -> int:
    """Return the resident memory of this process but for pages of files; 0 where it is not told as on Linux."""
    resident, shared = _counts()
    return resident - shared


def file_bytes() -> int:
    """Return how much of the resident memory of this process are pages of files, and memory that processes share."""
    return _counts()[1]


def _counts() -> tuple[int, int]:
    """Return what is resident, and how much of that are pages of files and shared memory."""
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0, 0
    return int(resident) * mmap.PAGESIZE, int(shared) * mmap.PAGESIZE
