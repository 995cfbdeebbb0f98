"""Parquet at both ends of a join: a stream of files, and an output that appears whole or not at all."""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.core.errors import InvalidArgument, SchemaMismatch

__all__ = ["ParquetStream", "num_parquet_rows", "writing_parquet"]

_BATCH_ROWS = 16_384


def _open(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        raise InvalidArgument(f"{os.fspath(path)!r} is not a file: give Parquet files")
    try:
        # Pre-buffering would hold whole row groups in memory.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    except OSError as error:
        raise InvalidArgument(f"cannot read {os.fspath(path)!r}: {error.strerror or error}") from None
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"{os.fspath(path)!r} cannot be read as Parquet: {reason}") from None


def num_parquet_rows(path: Path) -> int | None:
    """Return the rows of a Parquet file; None for a folder, whose files are not opened for this."""
    if not path.is_file():
        return None
    with _open(path) as file:
        return int(file.metadata.num_rows)


class ParquetStream:
    """The batches of Parquet files of one schema, file after file.

    Attributes
    ----------
    schema
        Of all files.
    num_rows
        Of all files together.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self.num_rows = 0
        schemas = []
        for path in self._paths:
            with _open(path) as file:
                schemas.append(file.schema_arrow)
                self.num_rows += file.metadata.num_rows
        self.schema: pa.Schema = schemas[0].remove_metadata()
        for path, schema in zip(self._paths, schemas, strict=True):
            if not schema.equals(schemas[0]):
                raise SchemaMismatch(
                    f"{os.fspath(path)!r} has other columns than {os.fspath(self._paths[0])!r}: "
                    "give files of one schema"
                )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            with _open(path) as file:
                for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                    yield batch.replace_schema_metadata(None)


@contextmanager
def writing_parquet(path: Path, schema: pa.Schema, *, overwrite: bool) -> Iterator[pq.ParquetWriter]:
    """Give a writer; the file gets its name only when the block ends without an error."""
    if path.exists() and (path.is_dir() or not overwrite):
        remedy = "choose a file" if path.is_dir() else "choose another path or give --overwrite"
        raise InvalidArgument(f"out={os.fspath(path)!r} exists: {remedy}")
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        writer = pq.ParquetWriter(unfinished, schema)
    except OSError as error:
        raise InvalidArgument(f"cannot write {os.fspath(path)!r}: {error.strerror or error}") from None
    try:
        with writer:
            yield writer
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
