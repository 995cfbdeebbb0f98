"""Reads many stretches of a file in one call from Python, and verifies the checksums of many pages in another.

Functions of C libraries are called by their addresses, so nothing of one process is compiled into the kernels.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types

from semistream.kernels.arrays import Bools, Int64s, UInt64s
from semistream.kernels.compile import kernel

__all__ = ["first_altered", "read_stretches"]

_INT = ir.IntType(32)
_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


@numba.extending.intrinsic
def _call_preadv2(_: Any, function: Any, file: Any, vector: Any, offset: Any, flags: Any) -> Any:
    """Call ``preadv2(file, vector, 1, offset, flags)`` of the C library, which lies at ``function``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, file, vector, offset, flags = arguments
        kind = ir.FunctionType(_WORD, [_INT, _POINTER, _INT, _WORD, _INT])
        pointer = builder.inttoptr(function, kind.as_pointer())
        return builder.call(pointer, [file, builder.inttoptr(vector, _POINTER), _INT(1), offset, flags])

    return types.int64(types.uint64, types.int32, types.uint64, types.int64, types.int32), generate


@numba.extending.intrinsic
def _call_digest(_: Any, function: Any, address: Any, count: Any) -> Any:
    """Call the function at ``function``, which returns a digest of ``count`` bytes from ``address`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, address, count = arguments
        kind = ir.FunctionType(_WORD, [_POINTER, _WORD])
        pointer = builder.inttoptr(function, kind.as_pointer())
        return builder.call(pointer, [builder.inttoptr(address, _POINTER), count])

    return types.uint64(types.uint64, types.uint64, types.uint64), generate


@kernel
def read_stretches(
    preadv2: np.uint64,
    flags: int,
    file: int,
    offsets: Int64s,
    targets: UInt64s,
    lengths: Int64s,
    needed: Int64s,
    is_read: Bools,
) -> None:
    """Read ``lengths[i]`` bytes at ``offsets[i]`` of a file to ``targets[i]``.

    ``is_read`` tells of which at least ``needed[i]`` bytes came.
    """
    vector = np.empty(2, dtype=np.uint64)
    for at in range(offsets.size):
        vector[0], vector[1] = targets[at], np.uint64(lengths[at])
        got = _call_preadv2(preadv2, np.int32(file), vector.ctypes.data, offsets[at], np.int32(flags))
        is_read[at] = got >= needed[at]


@kernel
def first_altered(digest: np.uint64, begins: UInt64s, lengths: Int64s, checksums: UInt64s) -> int:
    """Return the first page whose bytes do not have its checksum, or -1."""
    for page in range(begins.size):
        if _call_digest(digest, begins[page], np.uint64(lengths[page])) != checksums[page]:
            return page
    return -1
