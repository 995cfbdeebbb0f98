"""Compiles kernels: once per machine, cached on disk, without holding the GIL.

Kernels call kernels of other files, but numba's cache notices only changes of the kernel's own file. So the cache has
one folder for each state of all kernel files together.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
import xxhash

__all__ = ["kernel"]

_F = TypeVar("_F", bound=Callable[..., object])


def _cache_folder() -> str:
    kernels = Path(__file__).parent
    fingerprint = xxhash.xxh3_64()
    for source in sorted(kernels.rglob("*.py")):
        fingerprint.update(source.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR") or str(kernels / "__pycache__")
    return os.path.join(base, f"kernels-{fingerprint.hexdigest()}")


_CACHE_FOLDER = _cache_folder()


def kernel(function: _F) -> _F:
    """Compile ``function`` with numba."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _CACHE_FOLDER
    try:
        return numba.njit(cache=True, nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = before
