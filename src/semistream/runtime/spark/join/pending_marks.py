"""Marks that say in which buckets tuples are pending: how tasks ask the driver for another micro-batch.

::

    _pending/<query>/<bucket>.<batch>       written while the batch runs, by the task that leaves tuples pending

A mark is written before its batch commits, and removed by the next batch that leaves nothing pending in the bucket. It
goes by the batch, so that a task that comes too late cannot remove the mark of a later batch. A mark too many
costs an empty batch; one too few would keep tuples waiting, so where there is no folder everything counts as pending.
"""

from contextlib import suppress

from semistream.core.errors import PinFailed
from semistream.storage.files.store import PENDING, Store

__all__ = ["PendingMarks"]

_KNOWN = ".known"  # keeps the folder where folders without files vanish


class PendingMarks:
    """The marks of one query, in a folder beside the table."""

    def __init__(self, store: Store, query: str) -> None:
        self._store = store
        self._folder = f"{PENDING}/{query}"

    def any(self) -> bool:
        """Return whether tuples are pending anywhere, or that is not known."""
        names = self._store.names(self._folder)
        return names is None or any(not name.startswith(".") for name in names)

    def update(self, bucket: int, batch: int, pending: int) -> None:
        """Note how many tuples a batch leaves pending in a bucket."""
        try:
            self._update(bucket, batch, pending)
        except OSError as error:
            raise PinFailed(
                f"cannot write to {self._store.locate(self._folder)}, which keeps a silent stream going while rows "
                f"wait ({error.strerror}): give a folder that all executors can write with pins="
            ) from None

    def _update(self, bucket: int, batch: int, pending: int) -> None:
        if self._store.names(self._folder) is None:
            self._store.make_folder(self._folder)
            self._write(_KNOWN)
        if pending:
            self._write(f"{bucket}.{batch}")
        for name in self._store.names(self._folder) or ():
            marked, _, marked_batch = name.partition(".")
            if marked == str(bucket) and marked_batch.isdecimal():
                outdated = int(marked_batch) < batch or (int(marked_batch) == batch and not pending)
                if outdated:
                    self._store.remove(f"{self._folder}/{name}")

    def _write(self, name: str) -> None:
        with suppress(FileExistsError):
            self._store.publish(f"{self._folder}/{name}", b"")
