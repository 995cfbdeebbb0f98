"""Sizes in bytes, as people write them: ``"64KB"``, ``"1.5 GiB"``, ``4096``."""

import re
from fractions import Fraction
from operator import index
from typing import SupportsIndex

from semistream.core.errors import InvalidArgument

__all__ = ["format_bytes", "parse_bytes"]

# KB is 1024 bytes here, as in Spark's configuration, so that "64KB" is a whole number of disk blocks.
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PATTERN = re.compile(r"\s*(\d{1,30}(?:\.\d{1,30})?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_LARGEST = 2**63 - 1


def parse_bytes(size: SupportsIndex | str, name: str = "size") -> int:
    """Return ``size`` as a positive number of bytes.

    Parameters
    ----------
    size
        A number of bytes, or text such as ``"256MB"``. Units are powers of 1024.
    name
        The argument's name, for the error message.

    Examples
    --------
    >>> parse_bytes("64KB"), parse_bytes("1.5 GiB"), parse_bytes(4096)
    (65536, 1610612736, 4096)
    """
    if isinstance(size, str):
        matched = _PATTERN.fullmatch(size)
        if matched is None:
            raise InvalidArgument(f"{name}={size!r} is not a size: write a number of bytes or text like '64KB'")
        number = int(Fraction(matched[1]) * _UNITS[matched[2].lower()])
    elif isinstance(size, SupportsIndex) and not isinstance(size, bool):
        number = index(size)
    else:
        raise InvalidArgument(f"{name}={size!r} is not a size: write a number of bytes or text like '64KB'")
    if number <= 0:
        raise InvalidArgument(f"{name}={size!r} must be at least 1 byte")
    if number > _LARGEST:
        raise InvalidArgument(f"{name} must be at most {_LARGEST} bytes")
    return number


def format_bytes(count: int) -> str:
    """Return ``count`` in the largest unit that keeps it readable.

    Examples
    --------
    >>> format_bytes(65536), format_bytes(1610612736), format_bytes(12)
    ('64.0KB', '1.5GB', '12B')
    """
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024:
            return f"{count}B" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}TB"
