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
from semistream.storage.files.uncached_reads import UncachedReads

__all__ = ["Access", "LocalFile", "RandomFile", "RemoteFile", "are_cached", "open_regular"]

# The page cache may hold a file in units of up to this size, and drops only units that lie whole inside a range.
_CACHE_UNIT_BYTES = 4 << 20

Access: TypeAlias = Literal["scan", "sweep", "lookup"]


class RandomFile(Protocol):
    """Closed by `close`, or when the last reference to it goes."""

    size: int

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill ``view`` from ``offset`` and return how many bytes there were; fewer only at the end."""

    def advise(self, access: Access) -> None:
        """Tell the operating system how the file will be read."""

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Int64s:
        """Read from the offsets on what needs no wait for a disk, and return how many bytes came to each address.

        That is at most the length given, and less than 1 where nothing came.
        """

    def fetch(self, offsets: Int64s, lengths: Int64s) -> None:
        """Let the operating system begin to bring ranges into the page cache, all at once."""

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        """Read ranges from the disk to their addresses, and return which were read; none where that is impossible.

        They are read as `UncachedReads.read` tells.
        """

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
        self._past_cache: UncachedReads | None = None
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

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Int64s:
        got = np.zeros(offsets.size, dtype=np.int64)
        if PREADV2:
            read_stretches(np.uint64(PREADV2), READ_IF_CACHED, self._fd, offsets, targets, lengths, got)
        return got

    def fetch(self, offsets: Int64s, lengths: Int64s) -> None:
        if hasattr(os, "posix_fadvise"):
            for offset, length in zip(offsets.tolist(), lengths.tolist(), strict=True):
                os.posix_fadvise(self._fd, offset, length, os.POSIX_FADV_WILLNEED)

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        if self._past_cache is None:
            try:
                self._past_cache = UncachedReads(open_regular(self._path, os.O_DIRECT))
            except (OSError, AttributeError):  # neither every system has such reads, nor every file system
                return np.zeros(offsets.size, dtype=np.bool_)
            self.drop(0, self.size)  # what others left there, once
        return self._past_cache.read(offsets, lengths, targets)

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
        if self._past_cache is not None:
            past_cache, self._past_cache = self._past_cache, None
            past_cache.close()

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

    def read_cached(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Int64s:
        return np.zeros(offsets.size, dtype=np.int64)

    def fetch(self, offsets: Int64s, lengths: Int64s) -> None:
        pass

    def read_past_cache(self, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Bools:
        return np.zeros(offsets.size, dtype=np.bool_)

    def map(self) -> None:
        return None

    def drop(self, offset: int, length: int) -> None:
        pass

    def close(self) -> None:
        self._file.close()


def are_cached(file: RandomFile, offsets: Int64s) -> Bools:
    """Tell of each byte of a file whether it lies in the page cache."""
    byte = np.empty(1, dtype=np.uint8)
    targets = np.full(offsets.size, byte.ctypes.data, dtype=np.uint64)
    cached: Bools = file.read_cached(offsets, np.ones_like(offsets), targets) == 1
    return cached
