"""A table's folder whose calls fail when they are told to."""

import errno
import os

from semistream.storage.files.random_file import RandomFile
from semistream.storage.files.store import LocalStore, OutputFile

__all__ = ["FailingStore", "Faults"]


class Faults:
    """Lets the call number ``at`` fail, alone or with all after it."""

    def __init__(self, at: int, *, lasting: bool) -> None:
        self.at = at
        self.lasting = lasting
        self.calls = 0

    def pass_by(self) -> None:
        self.calls += 1
        if self.calls == self.at or (self.lasting and self.calls > self.at):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FailingFile:
    def __init__(self, file: OutputFile, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def write(self, content: bytes | bytearray | memoryview, /) -> int:
        self._faults.pass_by()
        return self._file.write(content)

    def close(self) -> None:
        self._file.close()
        self._faults.pass_by()


class FailingStore(LocalStore):
    """A folder whose calls go by `Faults`."""

    faults: Faults

    def names(self, folder: str = "") -> list[str] | None:
        self.faults.pass_by()
        return super().names(folder)

    def read(self, name: str, most_bytes: int) -> bytes:
        self.faults.pass_by()
        return super().read(name, most_bytes)

    def open(self, name: str) -> RandomFile:
        self.faults.pass_by()
        return super().open(name)

    def create(self, name: str) -> OutputFile:
        self.faults.pass_by()
        return FailingFile(super().create(name), self.faults)

    def sync_folder(self, folder: str) -> None:
        self.faults.pass_by()
        super().sync_folder(folder)

    def remove(self, name: str) -> None:
        self.faults.pass_by()
        super().remove(name)

    def make_scratch(self) -> str:
        self.faults.pass_by()
        return super().make_scratch()
