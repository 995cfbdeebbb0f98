from collections.abc import Callable
from typing import TypeVar

from numba import config as config
from numba import extending as extending

_F = TypeVar("_F", bound=Callable[..., object])

def njit(*, cache: bool = ..., nogil: bool = ...) -> Callable[[_F], _F]: ...
