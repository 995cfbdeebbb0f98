"""Blocks of cached rows, and where they are kept: in the memory of one process, or in a folder that processes share.

::

    header │ key codes │ row ranges │ message of a record batch with the rows

A block holds whole row sets of keys and the index to find them, in one piece of read-only memory. It never changes: a
new one replaces it. Its checksum is verified before it is used.

A shared block is a file that processes map. A new one replaces it by renaming: a reader goes on with the block it has
mapped, and a writer that dies leaves nothing that anyone would read. So reading needs no lock, and no lock is left
behind. When the folder goes away or has no room, writing raises OSError. The folder may lie in memory; on a disk the
system may throw mapped pages out, and should bring back those that are touched, not their neighbours.
"""

import fcntl
import mmap
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import xxhash

from semistream.core.saved_state import validate_rows
from semistream.kernels.arrays import Int32s, Int64s, UInt8s
from semistream.kernels.hashing.range_index import LINE_BYTES, build_ranges, find_ranges, lines_for
from semistream.state.private_files import make_private, open_private
from semistream.storage.reading.raw_pages import PageShape

__all__ = ["HotBlock", "PrivateBlocks", "SharedBlocks", "index_bytes_for"]

_MAGIC = 0x54534D53
_FORMAT = 1
_SETTLED_NS = 100_000_000  # longer than a tick of the clock by which filesystems tell the time of a change
_MOST_SEEN = 255  # what a counter of keys holds at most
_HEADER_BYTES = 64
# Positions in the header.
_KIND, _CHECKSUM, _LINES, _KEYS, _ROWS, _BYTES, _FLOOR, _OWNER = range(8)


def index_bytes_for(keys: int) -> int:
    """Return the bytes of a block with ``keys`` keys beside its rows."""
    return _HEADER_BYTES + LINE_BYTES * lines_for(keys)


class HotBlock:
    """Rows of some keys: ``pages``, in ``raw``, the whole block."""

    def __init__(self, raw: UInt8s, shape: PageShape) -> None:
        header = _header(raw)
        lines = int(header[_LINES])
        self.raw = raw
        self.num_keys = int(header[_KEYS])
        self.nbytes = int(raw.size) if self.num_keys else 0  # one without keys stands for a block to come
        self.num_rows = int(header[_ROWS])
        self.floor = int(header[_FLOOR]) & _MOST_SEEN  # the count of the best key without room; 0 if the block had room
        self.built_at = int(header[_FLOOR]) >> 8  # how often the counts had been halved
        self._codes, self._ranges = _index(raw, lines)
        self.pages = shape.pages(raw, [_HEADER_BYTES + LINE_BYTES * lines])

    @staticmethod
    def build(
        codes: Int64s, counts: Int64s, rows: pa.RecordBatch, *, owner: int, floor: int = 0, built_at: int = 0
    ) -> UInt8s:
        """Return the bytes of a block: key ``codes[i]`` has the next ``counts[i]`` rows."""
        message = rows.serialize()
        lines = lines_for(codes.size)
        message_start = index_bytes_for(codes.size)
        raw = np.zeros(message_start + message.size, dtype=np.uint8)
        build_ranges(codes, np.cumsum(counts) - counts, counts, *_index(raw, lines))
        raw[message_start:] = np.frombuffer(memoryview(message), dtype=np.uint8)
        header = _header(raw)
        header[_KIND] = _MAGIC << 8 | _FORMAT
        header[[_LINES, _KEYS, _ROWS, _BYTES]] = lines, codes.size, rows.num_rows, raw.size
        header[[_FLOOR, _OWNER]] = built_at << 8 | min(floor, _MOST_SEEN), owner
        header[_CHECKSUM] = _checksum(raw)
        return raw

    @staticmethod
    def is_sound(raw: UInt8s, owner: int) -> bool:
        """Return whether these bytes are a whole, unaltered block of this owner."""
        if raw.size < _HEADER_BYTES:
            return False
        header = _header(raw)
        whole = header[_KIND] == _MAGIC << 8 | _FORMAT and header[_BYTES] == raw.size and header[_OWNER] == owner
        return bool(whole and header[_CHECKSUM] == _checksum(raw))

    @staticmethod
    def rebuilt(raw: UInt8s, owner: int, schema: pa.Schema) -> UInt8s | None:
        """Return a block that was kept elsewhere, made anew from its rows and keys; None if these are not sound."""
        if raw.dtype != np.uint8 or raw.ndim != 1 or not HotBlock.is_sound(raw, owner):
            return None
        header = _header(raw)
        lines = int(header[_LINES])
        start = _HEADER_BYTES + LINE_BYTES * lines
        if not 0 < lines <= raw.size or start > raw.size:
            return None
        rows = pa.ipc.read_record_batch(pa.py_buffer(raw[start:]), schema)
        validate_rows(rows)
        codes, ranges = _index(raw, lines)
        full = np.flatnonzero(ranges[:, 1] >= 0)
        full = full[np.lexsort((ranges[full, 1], ranges[full, 0]))]
        counts = ranges[full, 1].astype(np.int64)
        ends = np.cumsum(counts)
        if lines != lines_for(full.size) or not np.array_equal(ranges[full, 0], ends - counts):
            return None
        if rows.num_rows != (ends[-1] if full.size else 0):
            return None
        floor, built_at = int(header[_FLOOR]) & _MOST_SEEN, max(0, int(header[_FLOOR]) >> 8)
        return HotBlock.build(codes[full], counts, rows, owner=owner, floor=floor, built_at=built_at)

    def find(self, wanted: Int64s, places: Int64s, firsts: Int64s, counts: Int64s) -> None:
        """Write the first row and the number of rows of the keys at these places; -1 rows for an absent key."""
        find_ranges(self._codes, self._ranges, wanted, places, firsts, counts)

    def keys(self) -> Int64s:
        """Return the code, first row and number of rows of every key, as the rows of an array."""
        full = self._ranges[:, 1] >= 0
        return np.vstack([self._codes[full], self._ranges[full].T])


def _header(raw: UInt8s) -> Int64s:
    return raw[:_HEADER_BYTES].view(np.int64)


def _index(raw: UInt8s, lines: int) -> tuple[Int64s, Int32s]:
    """Return the places of key codes and of row ranges."""
    index = raw[_HEADER_BYTES : _HEADER_BYTES + LINE_BYTES * lines]
    return index[: 8 * lines].view(np.int64), index[8 * lines :].view(np.int32).reshape(-1, 2)


def _checksum(raw: UInt8s) -> np.int64:
    digest = xxhash.xxh3_64_intdigest(raw[16:].data)  # all behind kind and checksum
    return np.uint64(digest).astype(np.int64)


class PrivateBlocks:
    """Blocks of this process alone, by number."""

    def __init__(self) -> None:
        self._new: dict[int, UInt8s] = {}

    def may_have_changed(self) -> bool:
        return bool(self._new)

    def changed(self, number: int) -> UInt8s | None:
        """Return the block if it is new since the last call, else None."""
        return self._new.pop(number, None)

    def publish(self, number: int, content: UInt8s) -> None:
        """Replace a block, inside `building`."""
        self._new[number] = content

    @contextmanager
    def building(self, number: int) -> Iterator[bool]:
        """Hold the right to replace a block; yield False when another process holds it."""
        yield True

    def counters(self, nbytes: int) -> UInt8s:
        """Return the counters that all users of the store share, zeroed at first."""
        return np.zeros(nbytes, dtype=np.uint8)


class SharedBlocks:
    """The same in a folder, which belongs to one cache: one table, version, columns and sizes; for this user alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: dict[int, tuple[int, int]] = {}
        self._seen_folder: tuple[int, int] | None = None
        make_private(folder)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def may_have_changed(self) -> bool:
        """Return False if no block is new since the last call: every new one changes the time of the folder."""
        try:
            status = os.stat(self._folder)
        except OSError:
            return False
        now = status.st_ino, status.st_mtime_ns
        if now == self._seen_folder:
            return False
        is_settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
        self._seen_folder = now if is_settled else None
        return True

    def changed(self, number: int) -> UInt8s | None:
        path = self._path(f"{number}.block")
        try:
            status = os.stat(path)
            if self._seen.get(number) == (status.st_ino, status.st_mtime_ns):
                return None
            with open(path, "rb") as file:
                opened = os.fstat(file.fileno())
                content = np.frombuffer(_mapped(file.fileno()), dtype=np.uint8)
        except (OSError, ValueError):  # missing, empty or unreadable: a cache does without
            return None
        self._seen[number] = opened.st_ino, opened.st_mtime_ns
        return content

    def publish(self, number: int, content: UInt8s) -> None:
        # Remove the files of dead writers. No name is used twice, so nobody writes to a file that is mapped.
        for name in os.listdir(self._folder):
            if name.startswith(f".{number}-"):
                os.unlink(self._path(name))
        unfinished = self._path(f".{number}-{uuid.uuid4().hex}")
        try:
            with open(unfinished, "xb", opener=open_private) as file:
                file.write(content.data)
            os.rename(unfinished, self._path(f"{number}.block"))
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
            raise

    @contextmanager
    def building(self, number: int) -> Iterator[bool]:
        with open(self._path(f"{number}.lock"), "ab", opener=open_private) as lock:
            try:
                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process
            except BlockingIOError:
                yield False
                return
            yield True

    def counters(self, nbytes: int) -> UInt8s:
        file = open_private(self._path("counters"), os.O_RDWR | os.O_CREAT)
        try:
            # Reserved now: a full disk would end the process when it counts.
            reserve = getattr(os, "posix_fallocate", lambda file, start, length: os.ftruncate(file, length))
            reserve(file, 0, nbytes)
            return np.frombuffer(mmap.mmap(file, nbytes), dtype=np.uint8)
        finally:
            os.close(file)


def _mapped(file: int) -> mmap.mmap:
    """Map a whole block: soon all of it is read to be verified, and later single rows."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
    mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped
