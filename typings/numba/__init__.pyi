from collections.abc import Callable
from typing import Any, TypeVar

from numba import config as config
from numba import extending as extending

_F = TypeVar("_F", bound=Callable[..., object])

def cfunc(signature: object, *, cache: bool = ...) -> Callable[[Callable[..., object]], Any]: ...
def njit(*, cache: bool = ..., nogil: bool = ...) -> Callable[[_F], _F]: ...
