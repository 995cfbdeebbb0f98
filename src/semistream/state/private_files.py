"""Folders and files with rows on a local disk, for this user alone."""

import os
from contextlib import suppress

__all__ = ["make_private", "open_private"]


def make_private(folder: str) -> None:
    """Make a folder, and those above it that are missing; an existing one is fine."""
    above = os.path.dirname(folder)
    if above and not os.path.isdir(above):
        make_private(above)
    with suppress(FileExistsError):
        os.mkdir(folder, mode=0o700)


def open_private(path: str, flags: int) -> int:
    """Open a file, as an ``opener`` for `open`."""
    return os.open(path, flags | os.O_CLOEXEC, mode=0o600)
