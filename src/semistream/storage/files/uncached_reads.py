"""Reads of a file past the page cache, many under way at a time where the system has such requests.

Linux has ``io_submit`` for them: for pages of 64 KB it takes a quarter of the CPU time of one read after the other,
and the disk has many to choose from.
"""

import ctypes
import os
import platform

import numpy as np

from semistream.kernels.arrays import Bools, Int64s, UInt64s
from semistream.kernels.pages.page_reads import MOST_TOGETHER, read_stretches, read_together
from semistream.storage.files.c_functions import PREADV2, SYSCALL

__all__ = ["SECTOR_BYTES", "UncachedReads"]

SECTOR_BYTES = 512
"""Reads past the page cache begin and end at multiples of it, in the file and in memory."""

_NUMBERS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}.get(platform.machine())
"""Of io_setup, io_destroy, io_getevents and io_submit."""


class UncachedReads:
    """Reads of an open file, whose descriptor it owns."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue = 0
        if SYSCALL and _NUMBERS is not None:
            queue = ctypes.c_long(0)
            if _system_call(_NUMBERS[0], ctypes.c_long(MOST_TOGETHER), ctypes.byref(queue)) == 0:
                self._queue = queue.value
        self._requests = np.empty((MOST_TOGETHER, 8), dtype=np.uint64)
        self._pointers = np.empty(MOST_TOGETHER, dtype=np.uint64)
        self._events = np.empty((MOST_TOGETHER, 4), dtype=np.int64)

    def read(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        """Read ranges to their addresses, and return which were read.

        Whole sectors are read, so that up to `SECTOR_BYTES` before and behind an address are written to as well. An
        address lies as far behind a multiple of that as its offset does.
        """
        before = offsets % SECTOR_BYTES
        needed = before + lengths
        whole = -(-needed // SECTOR_BYTES) * SECTOR_BYTES
        offsets, targets = offsets - before, targets - before.astype(np.uint64)
        is_read = np.zeros(offsets.size, dtype=np.bool_)
        if self._queue and _NUMBERS is not None:
            _, _, reap, submit = _NUMBERS
            space = self._requests, self._pointers, self._events
            read_together(
                np.uint64(SYSCALL),
                submit,
                reap,
                self._queue,
                self._fd,
                offsets,
                targets,
                whole,
                needed,
                *space,
                is_read,
            )
        left = np.flatnonzero(~is_read)
        if left.size and PREADV2:
            got = np.zeros(left.size, dtype=np.int64)
            read_stretches(np.uint64(PREADV2), 0, self._fd, offsets[left], targets[left], whole[left], got)
            is_read[left] = got >= needed[left]
        return is_read

    def close(self) -> None:
        if self._queue and _NUMBERS is not None:
            _system_call(_NUMBERS[1], ctypes.c_long(self._queue))
            self._queue = 0
        os.close(self._fd)


def _system_call(number: int, *arguments: object) -> int:
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(number), *arguments))
