"""How every kernel is compiled: once per machine, cached on disk, without holding the GIL."""

from collections.abc import Callable
from typing import TypeVar

import numba

__all__ = ["kernel"]

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile ``function`` with numba."""
    return numba.njit(cache=True, nogil=True)(function)
