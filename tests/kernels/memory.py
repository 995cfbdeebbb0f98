"""The memory of this process, for tests of what is given back."""

import gc
import os
from pathlib import Path

__all__ = ["resident_bytes"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
