"""A master table: one version of a folder of pages, opened for reading, and the methods that write newer versions."""

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from operator import index
from typing import SupportsIndex

import pyarrow as pa
import pyarrow.fs as pafs

from semistream.core.arguments import require_count
from semistream.core.errors import DamagedTable, InvalidArgument, TableNotFound
from semistream.core.sizes import parse_bytes
from semistream.storage.files.manifest import (
    MOST_MANIFEST_BYTES,
    Manifest,
    list_versions,
    manifest_name,
    publish_version,
    read_manifest,
)
from semistream.storage.files.page_index import read_page_index
from semistream.storage.files.store import DATA, VERSIONS, Store, open_store
from semistream.storage.reading.page_directory import PageDirectory
from semistream.storage.reading.verification import verify_table
from semistream.storage.writing.sources import open_source
from semistream.storage.writing.version_writer import Progress, remove_dead_writers, remove_litter, write_version
from semistream.storage.writing.write_job import WriteJob

__all__ = ["MasterTable", "open_table"]

_CHECKSUM_ENDING = 24  # a manifest ends with its checksum


class MasterTable:
    """One version of a master table. It never changes; `append` and `replace` return a new version.

    `open_table` and `stage` return it. It holds no open files, and can be pickled.
    """

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store = store
        self._manifest = manifest

    @property
    def path(self) -> str:
        """Where the table is."""
        return self.store.locate()

    @property
    def table_id(self) -> str:
        """An id that all versions of the table share."""
        return self._manifest.form.table_id

    @property
    def version(self) -> int:
        """Counts from 1; each change adds one."""
        return self._manifest.version

    @property
    def version_id(self) -> str:
        """An id of this version alone. A number can be given twice, as after a restore from a backup; this cannot."""
        return f"{self.table_id}-{self.version}-{self._manifest.checksum}"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, as stored."""
        return self._manifest.form.schema

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self._manifest.form.key

    def is_key(self, names: Iterable[str]) -> bool:
        """Return whether these columns, in any order, are the table's key."""
        return sorted(names) == sorted(self.key)

    @property
    def layout(self) -> str:
        """``"heap"`` or ``"clustered"``."""
        return self._manifest.form.layout

    @property
    def buckets(self) -> int:
        """Number of parts that the rows are divided into by key."""
        return self._manifest.form.buckets

    @property
    def page_bytes(self) -> int:
        """Size of a page; a single larger row makes a larger page."""
        return self._manifest.form.page_bytes

    @property
    def num_rows(self) -> int:
        """Number of rows of this version."""
        return sum(file.rows for file in self._manifest.files)

    @property
    def num_bytes(self) -> int:
        """Bytes of its pages on disk."""
        return sum(file.bytes for file in self._manifest.files)

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return sum(file.pages for file in self._manifest.files)

    @cached_property
    def pages(self) -> PageDirectory:
        """Where every page is; read at first use."""
        files = sorted(self._manifest.files, key=lambda file: file.bucket)  # stable: oldest first in a bucket
        clustered = self.layout == "clustered"
        indexes = [read_page_index(self.store, file, clustered=clustered) for file in files]
        return PageDirectory.build(files, indexes, buckets=self.buckets, clustered=clustered)

    def bucket(self, bucket: int) -> "MasterTable":
        """Return a view of this version with the rows of one bucket alone, possibly none.

        It serves joins on the table's key, for stream tuples of that bucket: other tuples find no match in it.
        """
        if not isinstance(bucket, SupportsIndex) or not 0 <= index(bucket) < self.buckets:
            raise InvalidArgument(f"bucket={bucket} is not in the table: give 0 to {self.buckets - 1}")
        files = tuple(file for file in self._manifest.files if file.bucket == bucket)
        return MasterTable(self.store, replace(self._manifest, files=files))

    @property
    def bucket_bytes(self) -> list[int]:
        """Bytes of each bucket's pages on disk."""
        sizes = [0] * self.buckets
        for file in self._manifest.files:
            sizes[file.bucket] += file.bytes
        return sizes

    def versions(self) -> list[int]:
        """Return the versions that can be opened, oldest first."""
        return list_versions(self.store)

    def latest(self) -> "MasterTable":
        """Return the newest version."""
        return self.at_version(None)

    def at_version(self, version: int | None, version_id: str | None = None) -> "MasterTable":
        """Return another version of this table, the newest for None; with ``version_id`` that very one or none."""
        found = MasterTable(self.store, read_manifest(self.store, version))
        if version_id not in (None, found.version_id):
            raise TableNotFound(
                f"version {version} of {self.path} is another one than before, as after a restore from a backup: "
                "restore the one before, or start queries from a new checkpoint"
            )
        return found

    def is_newest(self) -> bool:
        """Return whether no other version has been published since; cheaper than `latest`."""
        versions = list_versions(self.store)
        if not versions or versions[-1] != self.version:
            return False
        try:
            content = self.store.read(manifest_name(self.version), MOST_MANIFEST_BYTES)
        except FileNotFoundError:  # it has just expired
            return False
        return self._manifest.checksum.encode("ascii") in content[-_CHECKSUM_ENDING:]

    def append(self, data: object, *, memory: int | str = "512MB", progress: Progress | None = None) -> "MasterTable":
        """Add rows to the newest version and return the version that has them.

        Parameters
        ----------
        data
            As for `stage`, with the table's columns in any order.
        memory
            The most memory that sorting may take.
        progress
            Called with the number of rows read from ``data`` so far.
        """
        return self._write(data, memory, progress, keep=True)

    def replace(self, data: object, *, memory: int | str = "512MB", progress: Progress | None = None) -> "MasterTable":
        """Write a new version that holds ``data`` alone, and return it; parameters as for `append`."""
        return self._write(data, memory, progress, keep=False)

    def _write(self, data: object, memory: int | str, progress: Progress | None, keep: bool) -> "MasterTable":
        memory_bytes = parse_bytes(memory, "memory")
        source = open_source(data)
        with self.store.writing():
            newest = read_manifest(self.store)
            self._require_same_table(newest)
            remove_dead_writers(self.store)
            manifest = write_version(
                self.store,
                newest.form,
                newest.version + 1,
                source,
                kept_files=newest.files if keep else (),
                memory_bytes=memory_bytes,
                progress=progress,
            )
        return MasterTable(self.store, manifest)

    def rollback(self) -> "MasterTable":
        """Publish the rows of this version again, as the newest version, and return that.

        It is the way back after a mistake, and after damage of the newest manifest, when ``open_table(path)`` fails:
        ``open_table(path, version=7).rollback()``. The newest version keeps its number; the returned one has the next.
        """
        with self.store.writing():
            manifest = self.at_version(self.version, self.version_id)._manifest
            present = set(self.store.names(DATA) or ())
            for path in (path for file in manifest.files for path in (file.path, file.index_path)):
                if path.removeprefix(f"{DATA}/") not in present:
                    raise DamagedTable(
                        f"{self.store.locate(path)} is missing: restore it, or roll back to another version"
                    )
            newest = list_versions(self.store)[-1]
            return MasterTable(self.store, publish_version(self.store, manifest.form, newest + 1, manifest.files))

    def _require_same_table(self, newest: Manifest) -> None:
        if newest.form.table_id != self.table_id:
            raise TableNotFound(f"{self.path} has another table by now: open it with open_table(path)")

    def verify(self) -> None:
        """Read the whole version and raise DamagedTable unless it is exactly as written."""
        verify_table(self)

    def expire_versions(self, keep: int = 1) -> list[int]:
        """Remove all versions but the newest ``keep`` with their files, and return the versions removed.

        Readers of a removed version fail when they next open a file.
        """
        require_count("keep", keep)
        with self.store.writing():
            versions = list_versions(self.store)
            for version in versions[-keep:]:
                read_manifest(self.store, version)
            expired = versions[:-keep]
            job = WriteJob.begin(self.store)  # tells the next writer of litter, should this one die
            for version in expired:
                self.store.remove(manifest_name(version))
            self.store.sync_folder(VERSIONS)
            remove_litter(self.store, job)
            job.end()
        return expired

    def __getstate__(self) -> dict[str, object]:
        return {"store": self.store, "_manifest": self._manifest}

    def __repr__(self) -> str:
        return (
            f"MasterTable({self.path!r}, version={self.version}, key={self.key}, layout={self.layout!r}, "
            f"buckets={self.buckets}, rows={self.num_rows}, pages={self.num_pages})"
        )


def open_table(
    path: str | os.PathLike[str], version: int | None = None, *, filesystem: pafs.FileSystem | None = None
) -> MasterTable:
    """Open a master table for reading.

    Parameters
    ----------
    path
        A local path, a URI that pyarrow knows, or a path inside ``filesystem``.
    version
        The newest by default.
    filesystem
        Any pyarrow filesystem.

    Raises
    ------
    TableNotFound
        There is no table at ``path``, or it has no such version.
    DamagedTable
        The manifest was altered.
    """
    store = open_store(path, filesystem)
    return MasterTable(store, read_manifest(store, version))
