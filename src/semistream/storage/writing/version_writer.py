"""Writes a version, with its manifest last, and removes what dead writers left; all under the table's lock."""

import re
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from semistream.core.errors import DamagedTable, EmptyTable
from semistream.kernels.keys.key_codes import bucket_ids
from semistream.storage.files.manifest import (
    DATA_NAME,
    DataFile,
    Manifest,
    TableForm,
    list_versions,
    publish_version,
    read_manifest,
)
from semistream.storage.files.store import DATA, LOCK, PENDING, PINS, VERSIONS, WRITER_NAME, Store
from semistream.storage.writing.clustering import RowSorter
from semistream.storage.writing.page_writer import key_coder, write_data_file
from semistream.storage.writing.schema_match import conformer
from semistream.storage.writing.sources import DistributedSource, Source
from semistream.storage.writing.write_job import WriteJob

__all__ = ["Progress", "holds_only_litter", "remove_dead_writers", "remove_litter", "write_version"]

Progress = Callable[[int], None]

_UNFINISHED_NAME = re.compile(r"\.[0-9a-f]{32}\.tmp")
_BATCHES_PER_MEMORY = 16


def write_version(
    store: Store,
    form: TableForm,
    version: int,
    source: Source | DistributedSource,
    *,
    kept_files: tuple[DataFile, ...],
    memory_bytes: int,
    progress: Progress | None,
) -> Manifest:
    """Write the rows of ``source`` as new files and publish them together with ``kept_files``.

    The caller holds the table's lock. A failure removes the new files again.
    """
    conform = conformer(source.schema, form.schema)
    written: list[DataFile] = []
    scratch: list[str] = []

    def make_scratch() -> str:
        scratch.append(store.make_scratch())
        return scratch[-1]

    job = WriteJob.begin(store)
    try:
        if isinstance(source, Source):
            batches = (conform(batch) for batch in _small_batches(source.batches, memory_bytes, progress))
            for bucket, rows in _by_bucket(form, batches, memory_bytes, make_scratch):
                file = write_data_file(job, form, bucket, rows)
                if file is not None:
                    written.append(file)
        else:
            written.extend(source.write_files(job, form))
            if progress is not None:
                progress(sum(file.rows for file in written))
        if not written:
            raise EmptyTable(f"the data for {store.locate()} has no rows: give at least one")
        return publish_version(store, form, version, (*kept_files, *written))
    finally:
        # A failure after the manifest has its name, such as an interrupt, must not remove the version's files.
        job.end(written if version in list_versions(store) else ())
        for folder in scratch:
            shutil.rmtree(folder)


def _small_batches(
    batches: Iterator[pa.RecordBatch], memory_bytes: int, progress: Progress | None
) -> Iterator[pa.RecordBatch]:
    """Slice large batches, so that a copy of one takes a small part of the memory; leave out empty ones."""
    rows_done = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        pieces = -(-batch.nbytes * _BATCHES_PER_MEMORY // memory_bytes) or 1
        rows = -(-batch.num_rows // pieces)
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            yield piece
            rows_done += piece.num_rows
            if progress is not None:
                progress(rows_done)


def _by_bucket(
    form: TableForm, batches: Iterator[pa.RecordBatch], memory_bytes: int, make_scratch: Callable[[], str]
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Yield the rows of each bucket in their final order."""
    clustered = form.layout == "clustered"
    if not clustered and form.buckets == 1:
        yield 0, batches
        return
    coder = key_coder(form)
    sorter = RowSorter(form.schema, memory_bytes, make_scratch)
    for batch in batches:
        codes = coder.codes([batch.column(name) for name in form.key])
        if form.buckets == 1:
            buckets = np.zeros(batch.num_rows, dtype=np.int32)
        else:
            buckets = bucket_ids(coder, codes, form.buckets)
        # A heap is sorted by bucket alone, and sorting keeps the order of arrival.
        sorter.add(batch, codes.code if clustered else np.zeros(batch.num_rows, dtype=np.int64), buckets)
    yield from sorter.sorted_buckets()


def remove_dead_writers(store: Store) -> None:
    """Remove what dead writers left; without any, nothing is read, however many versions there are.

    The caller holds the table's lock.
    """
    if not store.excludes_writers:
        return
    unfinished = any(map(_UNFINISHED_NAME.fullmatch, store.names(VERSIONS) or ()))
    if unfinished or any(WRITER_NAME.fullmatch(name) for name in store.names() or ()):
        job = WriteJob.begin(store)
        remove_litter(store, job)
        job.end()


def remove_litter(store: Store, job: WriteJob) -> None:
    """Remove what dead writers left: data files that no version names, and unfinished files.

    The caller holds the table's lock. The marker of its ``job`` stays: should the caller die here, the next writer goes
    on. Those of dead jobs go first, so that none of their tasks adds a file. Files with names that this library does
    not give are left alone. If a manifest cannot be read, nobody knows which data is in use, and all of it stays.
    """
    for name in store.names(VERSIONS) or ():
        if _UNFINISHED_NAME.fullmatch(name):
            store.remove(f"{VERSIONS}/{name}")
    for name in store.names() or ():
        if WRITER_NAME.fullmatch(name) and name != job.marker:
            store.remove(name)
    named: set[str] = set()
    for version in list_versions(store):
        try:
            manifest = read_manifest(store, version)
        except DamagedTable:
            return
        named.update(path for file in manifest.files for path in (file.path, file.index_path))
    for name in store.names(DATA) or ():
        if DATA_NAME.fullmatch(name) and f"{DATA}/{name}" not in named:
            store.remove(f"{DATA}/{name}")


def holds_only_litter(store: Store) -> bool:
    """Return whether the folder is empty or holds only the remains of a first staging that died."""
    try:
        top = store.names()
    except NotADirectoryError:
        return False
    for name in top or ():
        if name not in (DATA, VERSIONS, PINS, PENDING, LOCK) and not WRITER_NAME.fullmatch(name):
            return False
    return all(DATA_NAME.fullmatch(name) for name in store.names(DATA) or ()) and all(
        _UNFINISHED_NAME.fullmatch(name) for name in store.names(VERSIONS) or ()
    )
