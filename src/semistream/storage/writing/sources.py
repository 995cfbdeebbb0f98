"""What can be staged: Arrow data in memory, streams of it, datasets, Parquet files, and data of engines such as Spark.

An engine's rows stay in its own processes, which write the files of a version themselves. The storage layer knows no
engine: each registers the module that opens its data, which is imported when such data is met.
"""

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from semistream.core.arguments import require_utf8_path
from semistream.core.engines import engine_of
from semistream.core.errors import InvalidArgument
from semistream.storage.files.manifest import DataFile, TableForm
from semistream.storage.writing.write_job import WriteJob

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = [
    "DistributedSource",
    "Source",
    "open_parquet",
    "open_source",
    "parquet_batches",
]

_ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Spark DataFrame, "
    "or the path of a Parquet file or folder"
)
_BATCH_ROWS = 16_384
_BATCH_BYTES = 1 << 20
_SAMPLE_ROWS = 16
_READ_BUFFER_BYTES = 1 << 20


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
        engine = engine_of(kind)
        if engine is not None:
            source: DistributedSource = import_module(engine).open_data(data)
            return source
    raise InvalidArgument(f"data of type {type(data).__name__} cannot be staged: give {_ACCEPTED}")


def _parquet_dataset(path: str) -> "ds.Dataset":
    import pyarrow.dataset as ds

    require_utf8_path("data", path)
    filesystem: pafs.FileSystem | None = None
    if "://" in path:
        filesystem, path = pafs.FileSystem.from_uri(path)
    try:
        # Folders above the one given are no part of the data: their names are not columns.
        return ds.dataset(path, format="parquet", partitioning="hive", filesystem=filesystem, partition_base_dir=path)
    except FileNotFoundError:
        raise InvalidArgument(f"data={path!r} does not exist: give {_ACCEPTED}") from None
    except (pa.ArrowException, OSError) as error:
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
        yield from dataset.to_batches(batch_size=_BATCH_ROWS, batch_readahead=1, fragment_readahead=1)
        return
    for fragment in fragments:
        if isinstance(fragment, ds.ParquetFileFragment):
            groups = None if fragment.row_groups is None else [group.id for group in fragment.row_groups]
            with open_parquet(fragment.path, fragment.filesystem) as file:
                if fragment.physical_schema.equals(dataset.schema):
                    yield from parquet_batches(file, groups)
                    continue
                rows = min((_batch_rows(file, group) for group in range(file.num_row_groups)), default=_BATCH_ROWS)
        else:
            rows = _BATCH_ROWS
        yield from fragment.scanner(
            schema=dataset.schema, batch_size=rows, batch_readahead=1, fragment_readahead=1
        ).to_batches()


def open_parquet(path: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None) -> pq.ParquetFile:
    """Open a file for `parquet_batches`."""
    # The dataset scanner, and pre-buffering, would hold whole row groups in memory.
    return pq.ParquetFile(path, filesystem=filesystem, pre_buffer=False, buffer_size=_READ_BUFFER_BYTES)


def parquet_batches(file: pq.ParquetFile, row_groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches of a few MB, however large a row is."""
    for group in range(file.num_row_groups) if row_groups is None else row_groups:
        yield from file.iter_batches(batch_size=_batch_rows(file, group), row_groups=[group])


def _batch_rows(file: pq.ParquetFile, group: int) -> int:
    """Return how many rows of a row group make a batch."""
    metadata = file.metadata.row_group(group)
    row_bytes = metadata.total_byte_size / max(1, metadata.num_rows)
    if any(metadata.column(at).has_dictionary_page for at in range(metadata.num_columns)):
        # A value that is stored once may stand in every row.
        for sample in file.iter_batches(batch_size=_SAMPLE_ROWS, row_groups=[group]):
            row_bytes = max(row_bytes, sample.nbytes / sample.num_rows)
            break
    return int(min(_BATCH_ROWS, max(1, _BATCH_BYTES // max(1, row_bytes))))
