"""Checks of the paths that a command writes to, made before any work is done."""

import os
from pathlib import Path

from semistream.core.errors import InvalidArgument

__all__ = ["require_folder_path", "require_output_path"]


def require_output_path(path: Path, *, overwrite: bool) -> None:
    """Raise `InvalidArgument` unless a file can be written to ``path``."""
    if path.is_dir():
        raise InvalidArgument(f"out={os.fspath(path)!r} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise InvalidArgument(f"out={os.fspath(path)!r} is not a regular file: give another path")
    if path.exists() and not overwrite:
        raise InvalidArgument(f"out={os.fspath(path)!r} exists: choose another path or give --overwrite")
    if not path.parent.is_dir():
        raise InvalidArgument(f"cannot write {os.fspath(path)!r}: create the folder {os.fspath(path.parent)!r} first")


def require_folder_path(path: Path, argument: str) -> None:
    """Raise `InvalidArgument` when ``path``, or a folder above it, is a file."""
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise InvalidArgument(f"{argument}={os.fspath(path)!r}: {os.fspath(part)!r} is a file, give a folder")
