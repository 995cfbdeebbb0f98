"""Where a table's files live: a local folder, or any filesystem that pyarrow opens.

Both stores have the same methods. Only the local one refuses a second writer: other filesystems have no lock that dies
with its holder.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from semistream.core.arguments import require_utf8_path
from semistream.core.errors import ConcurrentWrite, DamagedTable, InvalidArgument
from semistream.storage.files.random_file import LocalFile, RandomFile, RemoteFile, open_regular

__all__ = [
    "DATA",
    "LOCK",
    "PENDING",
    "PINS",
    "VERSIONS",
    "WRITER_NAME",
    "WRITER_PREFIX",
    "LocalStore",
    "OutputFile",
    "RemoteStore",
    "Store",
    "open_store",
]

DATA = "data"
VERSIONS = "versions"
PINS = "_pins"
PENDING = "_pending"
WRITER_PREFIX = "sorting-"
WRITER_NAME = re.compile(rf"{WRITER_PREFIX}[0-9a-f]{{16}}([0-9a-f]{{16}})?")  # a marker, or a scratch folder
LOCK = ".lock"


class OutputFile(Protocol):
    """A new file; its content is durable once it is closed."""

    def write(self, content: bytes | bytearray | memoryview, /) -> int: ...
    def close(self) -> None: ...


class Store(Protocol):
    """What the storage layer asks of a filesystem; names are relative to the table and use ``/``."""

    @property
    def excludes_writers(self) -> bool:
        """Whether `writing` keeps other writers out."""

    def locate(self, name: str = "") -> str:
        """Return the full address of a file, for messages."""

    def names(self, folder: str = "") -> list[str] | None:
        """Return the sorted names inside a folder, or None if there is no such folder."""

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return a whole file; one that is larger is damaged."""

    def open(self, name: str) -> RandomFile: ...
    def make_folders(self) -> None: ...

    def make_folder(self, folder: str) -> None:
        """Make a folder of this name and those above it; an existing one is fine."""

    def create(self, name: str) -> OutputFile: ...

    def sync_folder(self, folder: str) -> None:
        """Make the names inside a folder durable."""

    def publish(self, name: str, content: bytes) -> None:
        """Create a whole file at once; raises FileExistsError if the name is taken."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all it holds; an absent name is fine."""

    def make_scratch(self) -> str:
        """Return a new local folder for a writer's temporary files."""

    def writing(self) -> AbstractContextManager[None]:
        """Hold the table against other writers."""


_held_locks: set[int] = set()


def _release_in_child() -> None:
    # A fork shares the lock: the child would hold the table for as long as it lives.
    while _held_locks:
        os.close(_held_locks.pop())


os.register_at_fork(after_in_child=_release_in_child)


@dataclass(frozen=True)
class LocalStore:
    """A folder of this machine. Symbolic links inside it are refused: they would lead reads and removals elsewhere."""

    root: str

    @property
    def excludes_writers(self) -> bool:
        return True

    def locate(self, name: str = "") -> str:
        return os.path.join(self.root, name) if name else self.root

    def _path(self, name: str, *, is_folder: bool = False) -> str:
        """Return the path of a file or folder of the table."""
        path = self.root
        parts = [part for part in name.split("/") if part]
        for depth, part in enumerate(parts, 1):
            path = os.path.join(path, part)
            try:
                mode = os.lstat(path).st_mode
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISLNK(mode):
                raise DamagedTable(f"{path} is a symbolic link, which a table never has: put the files there instead")
            holds_files = is_folder or depth < len(parts)
            if parts[0] in (DATA, VERSIONS) and holds_files and not stat.S_ISDIR(mode):
                raise DamagedTable(_not_a_folder(path))
        return path

    def names(self, folder: str = "") -> list[str] | None:
        try:
            return sorted(os.listdir(self._path(folder, is_folder=True)))
        except FileNotFoundError:
            return None

    def read(self, name: str, most_bytes: int) -> bytes:
        with open(open_regular(self._path(name)), "rb") as file:
            _require_size(self.locate(name), os.fstat(file.fileno()).st_size, most_bytes)
            return file.read()

    def open(self, name: str) -> RandomFile:
        return LocalFile(self._path(name))

    def make_folders(self) -> None:
        for folder in ("", DATA, VERSIONS):
            self.make_folder(folder)
        for path in (self.root, os.path.dirname(self.root)):
            _sync(path)

    def make_folder(self, folder: str) -> None:
        os.makedirs(self._path(folder, is_folder=True), exist_ok=True)

    def create(self, name: str) -> OutputFile:
        return _SyncedFile(self._path(name))

    def sync_folder(self, folder: str) -> None:
        _sync(self._path(folder, is_folder=True))

    def publish(self, name: str, content: bytes) -> None:
        folder = os.path.dirname(name)
        unfinished = f"{folder}/.{uuid.uuid4().hex}.tmp"
        try:
            file = self.create(unfinished)
            try:
                file.write(content)
            finally:
                file.close()
            os.link(self._path(unfinished), self._path(name))  # fails when the name exists, unlike a rename
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self.locate(unfinished))
        self.sync_folder(folder)

    def remove(self, name: str) -> None:
        path = self._path(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def make_scratch(self) -> str:
        require_utf8_path("path", self.root)
        scratch = self._path(f"{WRITER_PREFIX}{uuid.uuid4().hex}")
        os.mkdir(scratch, mode=0o700)
        return scratch

    @contextmanager
    def writing(self) -> Iterator[None]:
        path = self._path(LOCK)
        if os.path.exists(path) and not os.path.isfile(path):
            raise DamagedTable(f"{path} is not a regular file, which a table has there: remove it")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        _held_locks.add(fd)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                raise ConcurrentWrite(
                    f"another writer is at work on {self.root}: try again when it has finished"
                ) from None
            yield
        finally:
            if fd in _held_locks:  # not in a child
                _held_locks.remove(fd)
                fcntl.flock(fd, fcntl.LOCK_UN)  # a child that has just been forked may still share it
                os.close(fd)


def _not_a_folder(path: str) -> str:
    return f"{path} is not a folder, which a table has there: remove it, or restore the folder from a copy"


def _require_size(path: str, num_bytes: int, most_bytes: int) -> None:
    if num_bytes > most_bytes:
        raise DamagedTable(f"{path} has {num_bytes} bytes, more than the {most_bytes} due: restore it from a copy")


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class _SyncedFile:
    """A file that is on disk once it is closed, so that dropping it from the page cache works at once."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, content: bytes | bytearray | memoryview, /) -> int:
        with memoryview(content) as whole:
            done = 0
            while done < len(whole):
                done += os.write(self._fd, whole[done:])
        return done

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


@dataclass(frozen=True)
class RemoteStore:
    """A folder of any pyarrow filesystem. The caller makes sure that a table has one writer at a time."""

    filesystem: pafs.FileSystem
    root: str

    @property
    def excludes_writers(self) -> bool:
        return False

    def locate(self, name: str = "") -> str:
        return f"{self.root}/{name}" if name else self.root

    def names(self, folder: str = "") -> list[str] | None:
        info = self.filesystem.get_file_info(self.locate(folder))
        if info.type == pafs.FileType.NotFound:
            return None
        if info.type == pafs.FileType.File:
            if folder in (DATA, VERSIONS):
                raise DamagedTable(_not_a_folder(self.locate(folder)))
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", self.locate(folder))
        found = self.filesystem.get_file_info(pafs.FileSelector(self.locate(folder), allow_not_found=True))
        return sorted(info.base_name for info in found)

    def read(self, name: str, most_bytes: int) -> bytes:
        with self.filesystem.open_input_file(self.locate(name)) as file:
            _require_size(self.locate(name), file.size(), most_bytes)
            return bytes(file.readall())

    def open(self, name: str) -> RandomFile:
        return RemoteFile(self.filesystem, self.locate(name))

    def make_folders(self) -> None:
        for folder in (DATA, VERSIONS):
            self.filesystem.create_dir(self.locate(folder), recursive=True)

    def make_folder(self, folder: str) -> None:
        self.filesystem.create_dir(self.locate(folder), recursive=True)

    def create(self, name: str) -> OutputFile:
        file: OutputFile = self.filesystem.open_output_stream(self.locate(name), compression=None)
        return file

    def sync_folder(self, folder: str) -> None:
        pass

    def publish(self, name: str, content: bytes) -> None:
        if self.filesystem.get_file_info(self.locate(name)).type != pafs.FileType.NotFound:
            raise FileExistsError(errno.EEXIST, "the name is taken", self.locate(name))
        unfinished = f"{os.path.dirname(name)}/.{uuid.uuid4().hex}.tmp"
        file = self.create(unfinished)
        file.write(content)
        file.close()
        self.filesystem.move(self.locate(unfinished), self.locate(name))

    def remove(self, name: str) -> None:
        info = self.filesystem.get_file_info(self.locate(name))
        if info.type == pafs.FileType.Directory:
            self.filesystem.delete_dir(self.locate(name))
        elif info.type != pafs.FileType.NotFound:
            self.filesystem.delete_file(self.locate(name))

    def make_scratch(self) -> str:
        return tempfile.mkdtemp(prefix=f"semistream-{WRITER_PREFIX}")

    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()


def open_store(path: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None) -> Store:
    """Return the store for a local path, a URI, or a path inside ``filesystem``."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgument(f"path={path!r} is not the path of a table: give text such as 'warehouse/customers'")
    if filesystem is None and "://" in text:
        try:
            filesystem, text = pafs.FileSystem.from_uri(text)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InvalidArgument(
                f"path={path!r} cannot be opened ({reason}): give a path or a URI that pyarrow knows"
            ) from None
    if filesystem is None or isinstance(filesystem, pafs.LocalFileSystem):
        return LocalStore(os.path.abspath(text))
    return RemoteStore(filesystem, text.rstrip("/"))
