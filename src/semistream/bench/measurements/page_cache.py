"""Drops files from the operating system's page cache, or reads them into it."""

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["drop_from_page_cache", "read_into_page_cache"]

_PIECE_BYTES = 8 << 20


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
