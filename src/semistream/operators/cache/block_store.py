"""Where the blocks of a cache are kept: in the memory of one process, or in a folder that processes of a host share.

Shared blocks are files that are never changed, only replaced by renaming, and mapped by those that read them: a reader
goes on with the block it has mapped, and a writer that dies leaves nothing that anyone would read. So there is no
lock around reading, and none to be left behind. When the folder goes away or the disk is full, writing raises OSError.
"""

import fcntl
import mmap
import os
import uuid
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
        except (OSError, ValueError):  # not there yet, or empty, or cannot be had: a cache may do without
            return None
        self._seen[number] = opened.st_ino, opened.st_mtime_ns
        return content

    def publish(self, number: int, content: _Bytes) -> None:
        # What dead writers left. No name is used twice: what is written to may never be what someone has mapped.
        for name in os.listdir(self._folder):
            if name.startswith(f".{number}-"):
                os.unlink(self._path(name))
        unfinished = self._path(f".{number}-{uuid.uuid4().hex}")
        with open(unfinished, "xb") as file:
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
        file = os.open(self._path("counters"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Reserved now: a disk that is full when they are counted in would end the process.
            reserve = getattr(os, "posix_fallocate", lambda file, start, length: os.ftruncate(file, length))
            reserve(file, 0, nbytes)
            return np.frombuffer(mmap.mmap(file, nbytes), dtype=np.uint8)
        finally:
            os.close(file)
