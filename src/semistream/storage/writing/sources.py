"""What can be staged: Arrow data in memory, streams of it, datasets, Parquet files, and data of engines such as Spark.

An engine's rows stay in its own processes, which write the files of a version themselves. The storage layer knows no
engine: each registers the module that opens its data, which is imported when such data is met.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from semistream.core.errors import InvalidArgument
from semistream.storage.files.manifest import DataFile, TableForm
from semistream.storage.writing.write_job import WriteJob

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = ["DistributedSource", "Source", "open_source", "register_engine"]

_ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Spark DataFrame, "
    "or the path of a Parquet file or folder"
)
_ROWS_PER_BATCH = 16_384
_READ_BUFFER_BYTES = 1 << 20
_ENGINES: dict[str, str] = {}


class Source(NamedTuple):
    """Rows to stage, as a stream that can be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class DistributedSource(Protocol):
    """Rows to stage that never come to this process."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""

    def write_files(self, job: WriteJob, form: TableForm) -> list[DataFile]:
        """Write all rows as data files of ``job`` and return what `publish_version` needs."""


def register_engine(package: str, module: str) -> None:
    """Let ``module`` open objects whose class comes from ``package``.

    The module has a function ``open_data(data)`` that returns a `DistributedSource`.
    """
    _ENGINES[package] = module


@overload
def open_source(data: str | os.PathLike[str]) -> Source: ...
@overload
def open_source(data: object) -> Source | DistributedSource: ...
def open_source(data: object) -> Source | DistributedSource:
    """Return ``data`` as a stream of batches, or as a source that an engine writes; nothing is read whole."""
    if isinstance(data, pa.RecordBatch):
        return Source(data.schema, iter([data]))
    if isinstance(data, pa.Table):
        return Source(data.schema, iter(data.to_batches()))
    if isinstance(data, pa.RecordBatchReader):
        return Source(data.schema, iter(data))
    if isinstance(data, str | os.PathLike):
        dataset = _parquet_dataset(os.fspath(data))
        return Source(dataset.schema, _readable(_scan(dataset), os.fspath(data)))
    if type(data).__module__.startswith("pyarrow."):
        import pyarrow.dataset as ds  # loads pandas: only staging a dataset should wait for that

        if isinstance(data, ds.Dataset):
            return Source(data.schema, _scan(data))
    for kind in type(data).__mro__:
        engine = _ENGINES.get(kind.__module__.partition(".")[0])
        if engine is not None:
            source: DistributedSource = import_module(engine).open_data(data)
            return source
    raise InvalidArgument(f"data of type {type(data).__name__} cannot be staged: give {_ACCEPTED}")


def _parquet_dataset(path: str) -> "ds.Dataset":
    import pyarrow.dataset as ds

    filesystem: pafs.FileSystem | None = None
    if "://" in path:
        filesystem, path = pafs.FileSystem.from_uri(path)
    try:
        # Folders above the one given are no part of the data: their names are not columns.
        return ds.dataset(path, format="parquet", partitioning="hive", filesystem=filesystem, partition_base_dir=path)
    except FileNotFoundError:
        raise InvalidArgument(f"data={path!r} does not exist: give {_ACCEPTED}") from None
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"data={path!r} cannot be read as Parquet ({reason}): give {_ACCEPTED}") from None


def _readable(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"data={path!r} cannot be read as Parquet ({reason}): give {_ACCEPTED}") from None


def _scan(dataset: "ds.Dataset") -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered dataset lists no fragments
        yield from dataset.to_batches(batch_size=_ROWS_PER_BATCH, batch_readahead=1, fragment_readahead=1)
        return
    for fragment in fragments:
        if isinstance(fragment, ds.ParquetFileFragment) and fragment.physical_schema.equals(dataset.schema):
            yield from _parquet_batches(fragment)
        else:
            scanner = fragment.scanner(
                schema=dataset.schema, batch_size=_ROWS_PER_BATCH, batch_readahead=1, fragment_readahead=1
            )
            yield from scanner.to_batches()


def _parquet_batches(fragment: "ds.ParquetFileFragment") -> Iterator[pa.RecordBatch]:
    # The dataset scanner, and pre-buffering, would hold whole row groups in memory.
    row_groups = None if fragment.row_groups is None else [group.id for group in fragment.row_groups]
    with pq.ParquetFile(
        fragment.path, filesystem=fragment.filesystem, pre_buffer=False, buffer_size=_READ_BUFFER_BYTES
    ) as file:
        yield from file.iter_batches(batch_size=_ROWS_PER_BATCH, row_groups=row_groups)
