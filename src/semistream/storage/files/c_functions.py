"""Addresses of C functions, for kernels that would lose much of their time in calls from Python.

An address is 0 where the platform lacks the function; callers then take the slower way through Python.
"""

import ctypes
import importlib
import os
import sys
from typing import Any

import xxhash

__all__ = ["DIGEST", "PREADV2", "READ_IF_CACHED", "SYSCALL", "c_function"]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def c_function(name: str) -> int:
    """Return the address of a function of the C library."""
    try:
        return _address(getattr(ctypes.CDLL(None), name))
    except (AttributeError, OSError):
        return 0


def _digest() -> int:
    """Return the function of the xxhash package that uses the instructions of this processor."""
    sample = bytes(range(256)) * 5
    for name in ("XXH3_64bits_dispatch", "XXH3_64bits"):
        try:
            function = getattr(ctypes.CDLL(importlib.import_module("xxhash._xxhash").__file__), name)
        except (ImportError, AttributeError, OSError):
            continue
        function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
        if function(sample, len(sample)) == xxhash.xxh3_64_intdigest(sample):
            return _address(function)
    return 0


PREADV2 = c_function("preadv2") if hasattr(os, "RWF_NOWAIT") else 0
"""``ssize_t preadv2(int, const struct iovec *, int, off_t, int)``."""

SYSCALL = c_function("syscall") if sys.platform == "linux" else 0
"""``long syscall(long, ...)``."""

DIGEST = _digest()
"""xxh3_64 of (address, bytes)."""

READ_IF_CACHED: int = getattr(os, "RWF_NOWAIT", 0)
"""Lets preadv2 fail rather than wait for a disk."""
