"""Memory by its address, and functions of C libraries by theirs, for kernels that work on many pieces of memory.

An address is an unsigned 64-bit number, so kernels stay cacheable: nothing of one process is compiled into them.
Whoever passes an address keeps the memory alive, and answers for what is read and written there.
"""

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types

__all__ = ["byte_at", "call_digest", "call_preadv2", "copy_bytes", "word_at"]

_BYTE = ir.IntType(8)
_INT = ir.IntType(32)
_WORD = ir.IntType(64)


def _load(builder: Any, address: Any, kind: ir.IntType) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()))


@numba.extending.intrinsic
def word_at(_: Any, address: Any) -> Any:
    """Return the 8 bytes at an address, a multiple of 8, as a signed number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, arguments[0], _WORD)

    return types.int64(types.uint64), generate


@numba.extending.intrinsic
def byte_at(_: Any, address: Any) -> Any:
    """Return the byte at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, arguments[0], _BYTE)

    return types.uint8(types.uint64), generate


@numba.extending.intrinsic
def copy_bytes(_: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy bytes from one address to another; the ranges do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source, count = arguments
        into, out_of = (builder.inttoptr(address, _BYTE.as_pointer()) for address in (target, source))
        copy: Any = cgutils.raw_memcpy
        copy(builder, into, out_of, count, 1)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


@numba.extending.intrinsic
def call_preadv2(_: Any, function: Any, file: Any, vector: Any, offset: Any, flags: Any) -> Any:
    """Call ``preadv2(file, vector, 1, offset, flags)`` of the C library, which lies at ``function``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, file, vector, offset, flags = arguments
        kind = ir.FunctionType(_WORD, [_INT, _BYTE.as_pointer(), _INT, _WORD, _INT])
        pointer = builder.inttoptr(function, kind.as_pointer())
        return builder.call(pointer, [file, builder.inttoptr(vector, _BYTE.as_pointer()), _INT(1), offset, flags])

    return types.int64(types.uint64, types.int32, types.uint64, types.int64, types.int32), generate


@numba.extending.intrinsic
def call_digest(_: Any, function: Any, address: Any, count: Any) -> Any:
    """Call the function at ``function``, which returns a digest of ``count`` bytes from ``address`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, address, count = arguments
        kind = ir.FunctionType(_WORD, [_BYTE.as_pointer(), _WORD])
        pointer = builder.inttoptr(function, kind.as_pointer())
        return builder.call(pointer, [builder.inttoptr(address, _BYTE.as_pointer()), count])

    return types.uint64(types.uint64, types.uint64, types.uint64), generate
