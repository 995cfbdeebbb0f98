"""The memory of this process, for tests of what is given back."""

import gc

from semistream.core import resident_memory

__all__ = ["resident_bytes"]


def resident_bytes() -> int:
    """Return what is resident but for pages of files: code that is used for the first time comes as such."""
    gc.collect()
    return resident_memory.resident_bytes() or 0
