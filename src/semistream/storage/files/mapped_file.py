"""A file mapped into memory, for pages that are used where they lie.

A mapped page that cannot be had, because the file was cut off or its disk fails, would end the process with SIGBUS. So
the first mapping installs a handler: where the address lies in one of our mappings, it puts an empty page there and
notes that; whoever reads asks `is_whole` before anything leaves. Any other address goes to the handler of before.
"""

import ctypes
import mmap
import signal
import sys
import threading

import numpy as np

from semistream.kernels.arrays import UInt8s, UInt64s
from semistream.kernels.pages.bus_errors import END, LOST, handle_bus_error, watch_list
from semistream.storage.files.c_functions import c_function

__all__ = ["MappedFile"]

_ACTION_BYTES, _FLAGS_AT = 152, 136  # of struct sigaction in the C library
_SA_SIGINFO = 4


class MappedFile:
    """A regular local file in memory, read only.

    Attributes
    ----------
    address
        Where it begins. Parts that are not resident are fetched from the disk one by one when they are touched.
    """

    def __init__(self, mapping: mmap.mmap, address: int, number: int) -> None:
        self._mapping = mapping
        self._number = number
        self.address = address

    @classmethod
    def of(cls, fd: int) -> "MappedFile | None":
        """Map an open file; None where this platform cannot watch it, or there is no address space for it."""
        try:
            mapping = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
            mapping.madvise(mmap.MADV_RANDOM)  # a fault fetches one page, not its neighbours
        except (OSError, ValueError, AttributeError):
            return None
        address = int(np.frombuffer(mapping, dtype=np.uint8).ctypes.data)
        number = _GUARD.watch(address, len(mapping))
        return None if number is None else cls(mapping, address, number)

    @property
    def content(self) -> UInt8s:
        """Its bytes; the mapping lives as long as they are referred to."""
        return np.frombuffer(self._mapping, dtype=np.uint8)

    @property
    def is_whole(self) -> bool:
        """Whether all that was read so far was there."""
        return not _GUARD.has_lost(self._number)

    def close(self) -> None:
        """Stop watching. Nobody reads from the address any more."""
        _GUARD.forget(self._number)
        self._mapping = mmap.mmap(-1, 1)


class _Guard:
    """The handler of SIGBUS in this process, and the ranges of memory that it watches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranges: UInt64s | None = None
        self._before = (ctypes.c_ubyte * _ACTION_BYTES)()

    def watch(self, begin: int, nbytes: int) -> int | None:
        with self._lock:
            if self._ranges is None:
                self._ranges = self._install()
            if self._ranges is None:
                return None
            free = np.flatnonzero(self._ranges[:, END] == 0)
            if not free.size:
                return None
            self._ranges[free[0]] = (begin, begin + nbytes, 0)
            return int(free[0])

    def has_lost(self, number: int) -> bool:
        assert self._ranges is not None
        return bool(self._ranges[number, LOST])

    def forget(self, number: int) -> None:
        assert self._ranges is not None
        self._ranges[number] = 0

    def _install(self) -> UInt64s | None:
        functions = c_function("mmap"), c_function("sigaction")
        if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8 or not all(functions):
            return None
        libc, bus = ctypes.CDLL(None), int(signal.SIGBUS)
        if libc.sigaction(bus, None, self._before) != 0:
            return None
        header, ranges = watch_list()
        header[:] = (*functions, ctypes.addressof(self._before))
        action = (ctypes.c_ubyte * _ACTION_BYTES)()
        ctypes.c_void_p.from_buffer(action).value = handle_bus_error.address
        ctypes.c_int.from_buffer(action, _FLAGS_AT).value = _SA_SIGINFO
        return ranges if libc.sigaction(bus, action, None) == 0 else None


_GUARD = _Guard()
