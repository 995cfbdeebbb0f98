"""A job of many processes that write files of one version, and whose remains can be told apart from all else.

While a job runs, a marker file lies in the table's folder. A task that does not find it is on a machine that does not
see the table, or belongs to a job that was given up, and creates nothing. So once the marker is gone, the
files whose names begin with the job's id are all there will be: those that no task reported are removed.
"""

import socket
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from semistream.core.errors import ConcurrentWrite, InvalidArgument
from semistream.storage.manifest import DataFile
from semistream.storage.store import DATA, SCRATCH_PREFIX, OutputFile, Store

__all__ = ["WriteJob"]

_ID_DIGITS = 16  # half of a file's 32, the other half tells the job's files apart


@dataclass(frozen=True)
class WriteJob:
    """A handle that tasks get along; small and picklable when the store is."""

    store: Store
    job_id: str

    @classmethod
    def begin(cls, store: Store) -> "WriteJob":
        """Start a job in the process that publishes the version, which holds the table's lock."""
        job = cls(store, uuid.uuid4().hex[:_ID_DIGITS])
        store.create(job._marker).close()
        return job

    @property
    def _marker(self) -> str:
        return f"{SCRATCH_PREFIX}{self.job_id}"  # a name that removing litter removes

    def is_open(self) -> bool:
        """Return whether the marker is seen from here."""
        return self._marker in (self.store.names() or ())

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

    def remove(self, name: str) -> None:
        """Remove a file of this job."""
        self.store.remove(name)

    def end(self, reported: Iterable[DataFile] = ()) -> None:
        """End the job, and remove its files but those of ``reported``."""
        self.store.remove(self._marker)
        kept = {path for file in reported for path in (file.path, file.index_path)}
        for name in self.store.names(DATA) or ():
            if name.startswith(self.job_id) and f"{DATA}/{name}" not in kept:
                self.store.remove(f"{DATA}/{name}")
