"""A file mapped into memory, for pages that are used where they lie.

A mapped page that cannot be had, because the file was cut off or its disk fails, would end the process with SIGBUS. So
the first mapping installs a handler: where the address lies in one of our mappings it puts an empty page there and notes
that; whoever reads asks `is_whole` before anything leaves. Any other address goes to the handler of before.
"""

import ctypes
import mmap
import signal
import sys
import threading
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types

from semistream.kernels.arrays import Bools, Int64s, UInt8s
from semistream.kernels.pages.addresses import word_at
from semistream.kernels.pages.page_reads import are_resident
from semistream.storage.files.c_functions import MINCORE

__all__ = ["MappedFile"]

_MOST_MAPPINGS = 1024
_COLUMNS = 3  # begin, end, whether something was lost
_ADDRESS_AT = 16  # of si_addr in siginfo_t
_ACTION_BYTES, _FLAGS_AT = 152, 136  # of glibc's struct sigaction
_SA_SIGINFO = 4
_EMPTY_PAGE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
_PAGE = mmap.PAGESIZE

_INT = ir.IntType(32)
_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


class MappedFile:
    """A regular local file in memory, read only.

    Attributes
    ----------
    content
        Its bytes. Pages that are not resident are fetched from the disk one by one when they are touched.
    """

    def __init__(self, fd: int, mapping: mmap.mmap, number: int) -> None:
        self._fd = fd
        self._mapping = mapping
        self._number = number
        self.content: UInt8s = np.frombuffer(mapping, dtype=np.uint8)

    @classmethod
    def of(cls, fd: int) -> "MappedFile | None":
        """Map an open file; None if this platform cannot watch it, or there is no address space."""
        try:
            mapping = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
            mapping.madvise(mmap.MADV_RANDOM)  # a fault fetches one page, not its neighbours
        except (OSError, ValueError, AttributeError):
            return None
        number = _GUARD.watch(np.frombuffer(mapping, dtype=np.uint8).ctypes.data, len(mapping))
        return None if number is None else cls(fd, mapping, number)

    @property
    def address(self) -> int:
        return int(self.content.ctypes.data)

    @property
    def is_whole(self) -> bool:
        """Whether all that was read so far was there."""
        return not _GUARD.table[self._number, 2]

    def are_resident(self, offsets: Int64s, lengths: Int64s) -> Bools:
        """Tell of each stretch whether it lies wholly in memory."""
        resident = np.zeros(offsets.size, dtype=np.bool_)
        if MINCORE:
            are_resident(np.uint64(MINCORE), np.uint64(self.address), _PAGE, offsets, lengths, resident)
        return resident

    def close(self) -> None:
        """Stop watching; the memory goes with the last array over it."""
        _GUARD.forget(self._number)
        self.content = np.empty(0, dtype=np.uint8)


class _Guard:
    """The handler of SIGBUS in this process, and the mappings that it watches."""

    def __init__(self) -> None:
        self.table = np.zeros((_MOST_MAPPINGS, _COLUMNS), dtype=np.uint64)
        self._lock = threading.Lock()
        self._handler: Any = None
        self._before = (ctypes.c_ubyte * _ACTION_BYTES)()

    def watch(self, begin: int, nbytes: int) -> int | None:
        with self._lock:
            if self._handler is None and not self._install():
                return None
            free = np.flatnonzero(self.table[:, 1] == 0)
            if not free.size:
                return None
            self.table[free[0]] = (begin, begin + nbytes, 0)
            return int(free[0])

    def forget(self, number: int) -> None:
        self.table[number] = 0

    def _install(self) -> bool:
        if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
            return False
        libc, bus = _libc(), int(signal.SIGBUS)
        if libc.sigaction(bus, None, self._before) != 0:
            return False
        handler = _handler(self.table.ctypes.data, ctypes.addressof(self._before))
        action = (ctypes.c_ubyte * _ACTION_BYTES)()
        ctypes.c_void_p.from_buffer(action).value = handler.address
        ctypes.c_int.from_buffer(action, _FLAGS_AT).value = _SA_SIGINFO
        if libc.sigaction(bus, action, None) != 0:
            return False
        self._handler = handler
        return True


def _libc() -> Any:
    return ctypes.CDLL(None)


def _function(name: str) -> int:
    return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0


@numba.extending.intrinsic
def _put_empty_page(_: Any, function: Any, address: Any) -> Any:
    """Call ``mmap``, which lies at ``function``, to put an empty page at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, address = arguments
        kind = ir.FunctionType(_POINTER, [_POINTER, _WORD, _INT, _INT, _INT, _WORD])
        pointer = builder.inttoptr(function, kind.as_pointer())
        page = builder.inttoptr(address, _POINTER)
        builder.call(pointer, [page, _WORD(_PAGE), _INT(mmap.PROT_READ), _INT(_EMPTY_PAGE), _INT(-1), _WORD(0)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@numba.extending.intrinsic
def _set_action(_: Any, function: Any, number: Any, action: Any) -> Any:
    """Call ``sigaction``, which lies at ``function``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, number, action = arguments
        kind = ir.FunctionType(_INT, [_INT, _POINTER, _POINTER])
        pointer = builder.inttoptr(function, kind.as_pointer())
        builder.call(pointer, [number, builder.inttoptr(action, _POINTER), _POINTER(None)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.int32, types.uint64), generate


@numba.extending.intrinsic
def _set_word(_: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, value = arguments
        builder.store(value, builder.inttoptr(address, _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


def _handler(table: int, before: int) -> Any:
    """Compile the handler: it allocates nothing and knows the addresses of this process."""
    map_memory, set_action = np.uint64(_function("mmap")), np.uint64(_function("sigaction"))
    rows, action = np.uint64(table), np.uint64(before)
    page_mask = np.uint64(~(_PAGE - 1) & (1 << 64) - 1)
    row_bytes = np.uint64(8 * _COLUMNS)

    @numba.cfunc(types.void(types.int32, types.uint64, types.uint64))
    def handler(number: Any, info: Any, _: Any) -> None:
        address = np.uint64(word_at(info + np.uint64(_ADDRESS_AT)))
        row = rows
        for _ in range(_MOST_MAPPINGS):
            if np.uint64(word_at(row)) <= address and address < np.uint64(word_at(row + np.uint64(8))):
                _put_empty_page(map_memory, address & page_mask)
                _set_word(row + np.uint64(16), np.uint64(1))
                return
            row += row_bytes
        _set_action(set_action, number, action)  # the access is tried again, and ends as it would have without us

    return handler


_GUARD = _Guard()
