"""A job of one or many processes that write the files of a version, and the removal of the files it leaves behind.

A marker file lies in the table's folder while the job runs. A task that does not find it creates nothing: its machine
does not see the table, or the job was given up. So no new file appears once the marker is gone. The names of the job's
files begin with its id; at the end those that no task reported are removed.
"""

import socket
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from semistream.core.errors import ConcurrentWrite, InvalidArgument
from semistream.storage.files.manifest import DataFile
from semistream.storage.files.store import DATA, WRITER_PREFIX, OutputFile, Store

__all__ = ["WriteJob"]

_ID_DIGITS = 16  # half of a file's 32; the other half is different in each file of the job


@dataclass(frozen=True)
class WriteJob:
    """A handle that each task gets; small, and picklable if the store is."""

    store: Store
    job_id: str

    @classmethod
    def begin(cls, store: Store) -> "WriteJob":
        """Start a job in the process that holds the table's lock and will publish the version."""
        job = cls(store, uuid.uuid4().hex[:_ID_DIGITS])
        store.create(job.marker).close()
        return job

    @property
    def marker(self) -> str:
        """The name of the file that tells tasks and later writers of this job."""
        return f"{WRITER_PREFIX}{self.job_id}"  # `remove_litter` knows the prefix

    def is_open(self) -> bool:
        """Return whether this machine sees the marker."""
        return self.marker in (self.store.names() or ())

    def require_visible(self) -> None:
        """Raise InvalidArgument in a task whose machine does not see the table's folder."""
        if not self.is_open():
            raise InvalidArgument(
                f"path={self.store.locate()!r} is not the same folder on executor {socket.gethostname()}: "
                "give a path on a filesystem that the driver and all executors share"
            )

    def create(self, name: str) -> OutputFile:
        """Create a file of this job; raise ConcurrentWrite once the job is over."""
        if not self.is_open():
            raise ConcurrentWrite(f"the job that writes to {self.store.locate()} was given up: start it again")
        return self.store.create(name)

    def new_name(self, bucket: int) -> str:
        """Return a name for a data file of this job, without its ending."""
        return f"{DATA}/{self.job_id}{uuid.uuid4().hex[_ID_DIGITS:]}-b{bucket:05d}"

    def end(self, reported: Iterable[DataFile] = ()) -> None:
        """End the job, and remove all its files but those of ``reported``."""
        self.store.remove(self.marker)
        kept = {path for file in reported for path in (file.path, file.index_path)}
        for name in self.store.names(DATA) or ():
            if name.startswith(self.job_id) and f"{DATA}/{name}" not in kept:
                self.store.remove(f"{DATA}/{name}")
