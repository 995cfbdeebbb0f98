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

__all__ = ["MOST_TOGETHER", "first_altered", "read_stretches", "read_together"]

MOST_TOGETHER = 128
"""How many reads are under way at a time."""

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
def _call_system(_: Any, function: Any, number: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call ``syscall(number, a, b, c, d, e)`` of the C library, which lies at ``function``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.FunctionType(_WORD, [_WORD] * 6).as_pointer())
        return builder.call(pointer, arguments[1:])

    return types.int64(types.uint64, *([types.int64] * 6)), generate


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
    got: Int64s,
) -> None:
    """Read up to ``lengths[i]`` bytes at ``offsets[i]`` of a file to ``targets[i]``.

    ``got`` tells how many came, less than 0 after an error.
    """
    vector = np.empty(2, dtype=np.uint64)
    for at in range(offsets.size):
        vector[0], vector[1] = targets[at], np.uint64(lengths[at])
        got[at] = _call_preadv2(preadv2, np.int32(file), vector.ctypes.data, offsets[at], np.int32(flags))


@kernel
def read_together(
    syscall: np.uint64,
    submit: int,
    reap: int,
    queue: int,
    file: int,
    offsets: Int64s,
    targets: UInt64s,
    lengths: Int64s,
    needed: Int64s,
    requests: UInt64s,
    pointers: UInt64s,
    events: Int64s,
    is_read: Bools,
) -> None:
    """Read as `read_stretches` does, `MOST_TOGETHER` stretches at a time.

    None is under way any more when this returns, so it is one call: nothing can come between its begin and its end.

    Parameters
    ----------
    submit, reap
        The numbers of ``io_submit`` and ``io_getevents``.
    queue
        What ``io_setup`` has returned.
    requests, pointers, events
        Space for as many as are under way: of 8, 1 and 4 words each.
    """
    for start in range(0, offsets.size, MOST_TOGETHER):
        count = min(MOST_TOGETHER, offsets.size - start)
        for at in range(count):  # struct iocb, on a machine with the low byte first; reading is operation 0
            requests[at, :] = 0
            requests[at, 0] = at
            requests[at, 2] = np.uint64(file) << np.uint64(32)
            requests[at, 3] = targets[start + at]
            requests[at, 4] = lengths[start + at]
            requests[at, 5] = offsets[start + at]
            pointers[at] = requests.ctypes.data + 64 * at
        under_way = 0
        while under_way < count:
            more = _call_system(
                syscall, submit, queue, count - under_way, np.int64(pointers.ctypes.data + 8 * under_way), 0, 0
            )
            if more <= 0:
                break
            under_way += more
        done = 0
        while done < under_way:
            left = under_way - done
            more = _call_system(syscall, reap, queue, left, left, np.int64(events.ctypes.data), 0)
            for at in range(more):  # fewer than none after a signal
                place = start + events[at, 0]
                is_read[place] = events[at, 2] >= needed[place]
            done += max(more, 0)


@kernel
def first_altered(digest: np.uint64, begins: UInt64s, lengths: Int64s, checksums: UInt64s) -> int:
    """Return the first page whose bytes do not have its checksum, or -1."""
    for page in range(begins.size):
        if _call_digest(digest, begins[page], np.uint64(lengths[page])) != checksums[page]:
            return page
    return -1
