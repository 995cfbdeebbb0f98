"""Which files the operating system holds in memory."""

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["drop_from_page_cache", "read_into_page_cache"]

_PIECE_BYTES = 8 << 20


def drop_from_page_cache(files: Sequence[Path | str]) -> None:
    """Let the next read of these files go to the disk."""
    for path in files:
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def read_into_page_cache(files: Sequence[Path | str]) -> None:
    """Read files, so that the next read of them need not go to the disk."""
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.read(_PIECE_BYTES):
                pass
