"""Compiles kernels: once per machine, cached on disk, without holding the GIL.

Kernels call kernels of other files, but numba's cache notices only changes of the kernel's own file. So the cache has
one folder for each state of all kernel files together.
"""

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import xxhash

__all__ = ["callback", "kernel"]

_F = TypeVar("_F", bound=Callable[..., object])
_T = TypeVar("_T")


def _cache_folder() -> str | None:
    """Return the folder for compiled kernels, or None if there is none that can be written."""
    kernels = Path(__file__).parent
    fingerprint = xxhash.xxh3_64()
    for source in sorted(kernels.rglob("*.py")):
        fingerprint.update(source.read_bytes())
    given = os.environ.get("NUMBA_CACHE_DIR")
    for base in (given,) if given else (str(kernels / "__pycache__"), _private_folder()):
        folder = os.path.join(base, f"kernels-{fingerprint.hexdigest()}") if base else ""
        if folder and _can_write(folder):
            return folder
    warnings.warn(
        "compiled kernels cannot be kept, so that every process compiles them again, which takes minutes: "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        stacklevel=2,
    )
    return None


def _can_write(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_folder() -> str | None:
    """Return a temporary folder of this user, unless somebody else can put code there: compiled kernels are code."""
    try:
        folder = os.path.join(tempfile.gettempdir(), f"semistream-{os.geteuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return None
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return folder if is_private else None


_CACHE_FOLDER = _cache_folder()


def kernel(function: _F) -> _F:
    """Compile ``function`` with numba."""
    return _cached(lambda cache: numba.njit(cache=cache, nogil=True)(function))


def callback(signature: object) -> Callable[[Callable[..., object]], Any]:
    """Compile a function that C code calls, when its module is imported."""
    return lambda function: _cached(lambda cache: numba.cfunc(signature, cache=cache)(function))


def _cached(compile_function: Callable[[bool], _T]) -> _T:
    if _CACHE_FOLDER is None:
        return compile_function(False)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _CACHE_FOLDER
    try:
        return compile_function(True)
    finally:
        numba.config.CACHE_DIR = before
