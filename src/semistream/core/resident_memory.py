"""The resident memory of this process, as the system counts it."""

import mmap

__all__ = ["resident_bytes"]


def resident_bytes() -> int | None:
    """Return the resident memory of this process, or None where the system does not tell it as Linux does."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return None
