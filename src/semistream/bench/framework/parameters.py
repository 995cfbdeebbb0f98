"""Checks of parameters that several kinds have in common."""

from collections.abc import Mapping
from typing import Any

from semistream.core.errors import InvalidArgument

__all__ = ["check_above", "check_least"]


def check_least(parameters: Mapping[str, Any], **least: float) -> None:
    """Raise when a parameter is below the least that it may be.

    Examples
    --------
    >>> check_least({"rows": 10}, rows=1000)
    Traceback (most recent call last):
    semistream.core.errors.InvalidArgument: rows=10 must be at least 1000
    """
    for name, limit in least.items():
        if parameters[name] < limit:
            raise InvalidArgument(f"{name}={parameters[name]} must be at least {limit}")


def check_above(parameters: Mapping[str, Any], **limits: float) -> None:
    """Raise when a parameter is not above a limit."""
    for name, limit in limits.items():
        if not parameters[name] > limit:
            raise InvalidArgument(f"{name}={parameters[name]} must be above {limit}")
