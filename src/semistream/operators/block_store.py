"""Where the blocks of a cache are kept: in the memory of one process, or in a folder that processes of a host share.

Shared blocks are files that are never changed, only replaced by renaming, and mapped by those that read them: a reader
goes on with the block it has mapped, and a writer that dies leaves nothing that anyone would read. So there is no
lock around reading, and none to be left behind. When the folder goes away or the disk is full, writing raises OSError.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["BlockStore", "PrivateBlocks", "SharedBlocks"]

_Bytes = npt.NDArray[np.uint8]


class BlockStore(Protocol):
    """Blocks of bytes by number."""

    def changed(self, number: int) -> _Bytes | None:
        """Return a block that is there and was not returned before; None when there is nothing new."""

    def publish(self, number: int, content: _Bytes) -> None:
        """Replace a block, while building it."""

    def building(self, number: int) -> AbstractContextManager[bool]:
        """Hold the right to replace a block; yields False when another process has it."""

    def counters(self, nbytes: int) -> _Bytes:
        """Return zeroed bytes that all users of the store count in."""


class PrivateBlocks:
    """Blocks of this process alone."""

    def __init__(self) -> None:
        self._new: dict[int, _Bytes] = {}

    def changed(self, number: int) -> _Bytes | None:
        return self._new.pop(number, None)

    def publish(self, number: int, content: _Bytes) -> None:
        self._new[number] = content

    @contextmanager
    def building(self, number: int) -> Iterator[bool]:
        yield True

    def counters(self, nbytes: int) -> _Bytes:
        return np.zeros(nbytes, dtype=np.uint8)


class SharedBlocks:
    """Blocks in a folder.

    Parameters
    ----------
    folder
        Made when it is not there. It belongs to one cache: the same table, version, columns and sizes.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: dict[int, tuple[int, int]] = {}
        os.makedirs(folder, exist_ok=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def changed(self, number: int) -> _Bytes | None:
        path = self._path(f"{number}.block")
        try:
            status = os.stat(path)
            if self._seen.get(number) == (status.st_ino, status.st_mtime_ns):
                return None
            with open(path, "rb") as file:
                opened = os.fstat(file.fileno())
                content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
        except (FileNotFoundError, ValueError):  # not there yet, or empty
            return None
        self._seen[number] = opened.st_ino, opened.st_mtime_ns
        return content

    def publish(self, number: int, content: _Bytes) -> None:
        # Only who holds the right to build it writes here; what a dead writer left is written over.
        unfinished = self._path(f".{number}.unfinished")
        with open(unfinished, "wb") as file:
            file.write(content.data)
        os.rename(unfinished, self._path(f"{number}.block"))

    @contextmanager
    def building(self, number: int) -> Iterator[bool]:
        with open(self._path(f"{number}.lock"), "ab") as lock:
            try:
                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process
            except BlockingIOError:
                yield False
                return
            yield True

    def counters(self, nbytes: int) -> _Bytes:
        with open(self._path("counters"), "ab") as file:
            # Reserved now: a disk that is full when they are counted in would end the process.
            os.posix_fallocate(file.fileno(), 0, nbytes)
        with open(self._path("counters"), "r+b") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), nbytes), dtype=np.uint8)
