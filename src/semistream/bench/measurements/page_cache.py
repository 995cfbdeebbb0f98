"""Drops files from the operating system's page cache, or reads them into it."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from semistream.storage.files.random_file import LocalFile, are_cached

__all__ = ["drop_from_page_cache", "read_into_page_cache", "share_in_page_cache"]

_PIECE_BYTES = 8 << 20
_SAMPLED_BYTES = 1 << 20


def drop_from_page_cache(files: Sequence[Path | str]) -> None:
    for path in files:
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def read_into_page_cache(files: Sequence[Path | str]) -> None:
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.read(_PIECE_BYTES):
                pass


def share_in_page_cache(files: Sequence[Path | str]) -> float | None:
    """Return the share of the files that lies in the page cache, from a look at every mebibyte; None without files."""
    looked = found = 0
    for path in files:
        file = LocalFile(os.fspath(path))
        offsets = np.arange(0, file.size, _SAMPLED_BYTES, dtype=np.int64)
        found += int(are_cached(file, offsets).sum())
        looked += offsets.size
        file.close()
    return found / looked if looked else None
