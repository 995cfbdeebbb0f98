"""A file opened for reading at given offsets, into memory that the caller owns."""

import os
import stat
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow.fs as pafs

from semistream.core.errors import DamagedTable
from semistream.kernels.arrays import Bools, Int64s, UInt64s
from semistream.kernels.pages.page_reads import read_stretches
from semistream.storage.files.c_functions import PREADV2, READ_IF_CACHED
from semistream.storage.files.mapped_file import MappedFile

__all__ = ["SECTOR_BYTES", "Access", "LocalFile", "RandomFile", "RemoteFile", "open_regular"]

# The page cache may hold a file in units of up to this size, and drops only units that lie whole inside a range.
_CACHE_UNIT_BYTES = 4 << 20

SECTOR_BYTES = 512
"""Reads past the page cache begin and end at multiples of it, in the file and in memory."""

Access: TypeAlias = Literal["scan", "sweep", "lookup"]


class RandomFile(Protocol):
    """Closed by `close`, or when the last reference to it goes."""

    size: int

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill ``view`` from ``offset`` and return how many bytes there were; fewer only at the end."""

    def advise(self, access: Access) -> None:
        """Tell the operating system how the file will be read."""

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        """Read the ranges that need no wait for a disk to their addresses, and return which these are.

        The operating system begins to fetch the others.
        """

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        """Read ranges from the disk to their addresses, and return which were read; none where that is impossible.

        Whole sectors are read, so that up to `SECTOR_BYTES` before and behind an address are written to as well. An
        address lies as far behind a multiple of that as its offset does.
        """

    def are_cached(self, offsets: Int64s) -> Bools:
        """Tell of each byte whether it lies in the page cache."""

    def map(self) -> MappedFile | None:
        """Return the file in memory; None where that cannot be had."""

    def drop(self, offset: int, length: int) -> None:
        """Forget a range that was read, so that the next read of it goes to the disk."""

    def close(self) -> None: ...


def open_regular(path: str, flags: int = 0) -> int:
    """Open a file for reading and return its descriptor; a link, a pipe or a device is refused, not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise DamagedTable(f"{path} is not a regular file: restore it from a copy")
    return fd


class LocalFile:
    """A local file: one system call per read, and hints to the page cache where the platform has them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = open_regular(path)
        self._fd_past_cache: int | None = None  # -1 where there can be none
        self.size = os.fstat(self._fd).st_size

    def read_into(self, offset: int, view: memoryview) -> int:
        done = os.preadv(self._fd, [view], offset)
        while done < len(view):
            got = os.preadv(self._fd, [view[done:]], offset + done)
            if got == 0:
                break
            done += got
        return done

    def advise(self, access: Access) -> None:
        if hasattr(os, "posix_fadvise"):
            advice = {"scan": os.POSIX_FADV_SEQUENTIAL, "lookup": os.POSIX_FADV_RANDOM}
            os.posix_fadvise(self._fd, 0, 0, advice.get(access, os.POSIX_FADV_NORMAL))

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        is_read = np.zeros(offsets.size, dtype=np.bool_)
        if PREADV2:
            read_stretches(np.uint64(PREADV2), READ_IF_CACHED, self._fd, offsets, targets, lengths, lengths, is_read)
        if hasattr(os, "posix_fadvise"):
            for at in np.flatnonzero(~is_read).tolist():
                os.posix_fadvise(self._fd, int(offsets[at]), int(lengths[at]), os.POSIX_FADV_WILLNEED)
        return is_read

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        is_read = np.zeros(offsets.size, dtype=np.bool_)
        if self._fd_past_cache is None:
            self._fd_past_cache = self._open_past_cache()
        if self._fd_past_cache >= 0:
            before = offsets % SECTOR_BYTES
            whole = -(-(before + lengths) // SECTOR_BYTES) * SECTOR_BYTES
            read_stretches(
                np.uint64(PREADV2),
                0,
                self._fd_past_cache,
                offsets - before,
                targets - before.astype(np.uint64),
                whole,
                before + lengths,
                is_read,
            )
        return is_read

    def _open_past_cache(self) -> int:
        if not PREADV2 or not hasattr(os, "O_DIRECT"):
            return -1
        try:
            fd = open_regular(self._path, os.O_DIRECT)
        except OSError:  # the file system has no such reads
            return -1
        self.drop(0, self.size)  # nobody does so later
        return fd

    def are_cached(self, offsets: Int64s) -> Bools:
        is_read = np.zeros(offsets.size, dtype=np.bool_)
        if PREADV2:
            byte = np.empty(1, dtype=np.uint8)
            targets, one = np.full(offsets.size, byte.ctypes.data, dtype=np.uint64), np.ones_like(offsets)
            read_stretches(np.uint64(PREADV2), READ_IF_CACHED, self._fd, offsets, targets, one, one, is_read)
        return is_read

    def map(self) -> MappedFile | None:
        return MappedFile.of(self._fd) if PREADV2 else None

    def drop(self, offset: int, length: int) -> None:
        # Earlier runs have read what lies before; the next run drops the unit at the end.
        start = max(0, offset - _CACHE_UNIT_BYTES)
        end = offset + length
        if end >= self.size:
            end += _CACHE_UNIT_BYTES
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, start, end - start, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
        if self._fd_past_cache is not None and self._fd_past_cache >= 0:
            fd, self._fd_past_cache = self._fd_past_cache, None
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class RemoteFile:
    """A file of a pyarrow filesystem."""

    def __init__(self, filesystem: pafs.FileSystem, path: str) -> None:
        self._file: Any = filesystem.open_input_file(path)
        self.size = int(self._file.size())

    def read_into(self, offset: int, view: memoryview) -> int:
        done = 0
        while done < len(view):
            piece = memoryview(self._file.read_at(len(view) - done, offset + done))
            if len(piece) == 0:
                break
            view[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def advise(self, access: Access) -> None:
        pass

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        return np.zeros(offsets.size, dtype=np.bool_)

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        return np.zeros(offsets.size, dtype=np.bool_)

    def are_cached(self, offsets: Int64s) -> Bools:
        return np.zeros(offsets.size, dtype=np.bool_)

    def map(self) -> None:
        return None

    def drop(self, offset: int, length: int) -> None:
        pass

    def close(self) -> None:
        self._file.close()
