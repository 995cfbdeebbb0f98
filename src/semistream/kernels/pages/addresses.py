"""Memory by its address, for kernels that work on many pieces of memory.

An address is an unsigned 64-bit number, so kernels stay cacheable: nothing of one process is compiled into them. The
caller keeps the memory alive and answers for what is read and written there.
"""

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types

__all__ = ["byte_at", "copy_bytes", "int32_at", "prefetch", "uint16_at", "widened", "word_at"]

_BYTE = ir.IntType(8)
_INT16 = ir.IntType(16)
_INT32 = ir.IntType(32)
_WORD = ir.IntType(64)


def _load(builder: Any, address: Any, kind: ir.IntType) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


@numba.extending.intrinsic
def word_at(_: Any, address: Any) -> Any:
    """Return the 8 bytes at an address as a signed number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, arguments[0], _WORD)

    return types.int64(types.uint64), generate


@numba.extending.intrinsic
def int32_at(_: Any, address: Any) -> Any:
    """Return the 4 bytes at an address as a signed number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, arguments[0], _INT32)

    return types.int32(types.uint64), generate


@numba.extending.intrinsic
def uint16_at(_: Any, address: Any) -> Any:
    """Return the 2 bytes at an address as an unsigned number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, arguments[0], _INT16)

    return types.uint16(types.uint64), generate


@numba.extending.intrinsic
def byte_at(_: Any, address: Any) -> Any:
    """Return the byte at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, arguments[0], _BYTE)

    return types.uint8(types.uint64), generate


@numba.extending.intrinsic
def widened(_: Any, bits: Any) -> Any:
    """Return the bits of a number in double precision, given those in single precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        single = builder.bitcast(arguments[0], ir.FloatType())
        return builder.bitcast(builder.fpext(single, ir.DoubleType()), _WORD)

    return types.int64(types.int32), generate


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
def prefetch(_: Any, address: Any) -> Any:
    """Ask the processor to fetch the line of memory at an address; it need not be readable."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT32, _INT32, _INT32])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        for_reading, stays, is_data = _INT32(0), _INT32(3), _INT32(1)
        builder.call(function, [builder.inttoptr(arguments[0], _BYTE.as_pointer()), for_reading, stays, is_data])
        return context.get_dummy_value()

    return types.void(types.uint64), generate
