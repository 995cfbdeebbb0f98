"""Checks of settings, before any work; the error names the setting."""

import os
from operator import index
from typing import SupportsFloat, SupportsIndex

from semistream.core.errors import InvalidArgument

__all__ = ["require_count", "require_number", "require_utf8_path"]

_LARGEST_COUNT = 2**31 - 1


def require_count(name: str, value: object, *, optional: bool = False) -> None:
    """Raise `InvalidArgument` unless ``value`` is a whole number from 1 on.

    Parameters
    ----------
    optional
        Whether None is allowed, for a setting that is computed unless given.

    Examples
    --------
    >>> require_count("b", 8)
    >>> require_count("b", 1.5)
    Traceback (most recent call last):
    semistream.core.errors.InvalidArgument: b=1.5 is not a whole number: give one, at least 1
    """
    if value is None and optional:
        return
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise InvalidArgument(f"{name}={value!r} is not a whole number: give one, at least 1")
    if index(value) < 1:
        raise InvalidArgument(f"{name}={value} must be at least 1")
    if index(value) > _LARGEST_COUNT:
        raise InvalidArgument(f"{name}={value} must be at most {_LARGEST_COUNT}")


def require_number(name: str, value: object) -> None:
    """Raise `InvalidArgument` unless ``value`` is a number."""
    if not isinstance(value, SupportsFloat) or isinstance(value, bool):
        raise InvalidArgument(f"{name}={value!r} is not a number: give one")


def require_utf8_path(name: str, path: str | os.PathLike[str]) -> None:
    """Raise `InvalidArgument` for the path of a file whose name is no UTF-8, which Arrow and DuckDB do not open."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name}={os.fspath(path)!r} is not UTF-8: rename the file or folder") from None
