"""Parquet input and output of a join: a stream of files, and a file that appears whole or not at all."""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.cli.arguments import require_output_path
from semistream.core.arguments import require_utf8_path
from semistream.core.errors import InvalidArgument, SchemaMismatch
from semistream.storage.writing.sources import open_parquet, open_source, parquet_batches

__all__ = ["ParquetStream", "num_parquet_rows", "require_parquet_output", "writing_parquet"]

_SUFFIXES = ("", ".parquet", ".pq")


def _open(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        raise InvalidArgument(f"{os.fspath(path)!r} does not exist: give Parquet files or folders")
    require_utf8_path("data", path)
    try:
        return open_parquet(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InvalidArgument:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return InvalidArgument(f"{os.fspath(path)!r} cannot be read as Parquet: {reason}")


def num_parquet_rows(path: Path) -> int | None:
    """Return the number of rows of a Parquet file, or None for a folder."""
    if path.is_dir():
        return None
    with _open(path) as file:
        return int(file.metadata.num_rows)


class ParquetStream:
    """The batches of Parquet files of one schema, file after file; a folder is read as `stage` reads it.

    ``num_rows`` is None with a folder among them.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        schemas = [_schema(path) for path in self._paths]
        self.schema: pa.Schema = schemas[0]
        for path, schema in zip(self._paths, schemas, strict=True):
            if not schema.equals(schemas[0]):
                raise SchemaMismatch(
                    f"{os.fspath(path)!r} has other columns than {os.fspath(self._paths[0])!r}: "
                    "give files of one schema"
                )
        counts = [num_parquet_rows(path) for path in self._paths]
        self.num_rows = None if None in counts else sum(count or 0 for count in counts)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            try:
                for batch in _batches(path):
                    yield batch.replace_schema_metadata(None)
            except (OSError, pa.ArrowInvalid) as error:
                raise _unreadable(path, error) from None


def _schema(path: Path) -> pa.Schema:
    if path.is_dir():
        schema: pa.Schema = open_source(path).schema
        if not schema.names:
            raise InvalidArgument(f"{os.fspath(path)!r} holds no Parquet files: give another folder, or files")
    else:
        with _open(path) as file:
            schema = file.schema_arrow
    bare: pa.Schema = schema.remove_metadata()
    return bare


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if path.is_dir():
        yield from open_source(path).batches
    else:
        with _open(path) as file:
            yield from parquet_batches(file)


def require_parquet_output(path: Path, *, overwrite: bool) -> None:
    """Raise `InvalidArgument` unless a Parquet file can be written to ``path``."""
    if path.suffix.lower() not in _SUFFIXES:
        named = path.with_suffix(".parquet").name
        raise InvalidArgument(f"out={os.fspath(path)!r}: the output is Parquet only, name it {named!r}")
    require_utf8_path("out", path)
    require_output_path(path, overwrite=overwrite)


@contextmanager
def writing_parquet(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Open a writer; the file gets its name only when the block ends without an error."""
    path = path.resolve()  # a link stays, and its target is replaced
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        writer = pq.ParquetWriter(unfinished, schema)
    except OSError as error:
        # The error's own text has the temporary name.
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise InvalidArgument(f"cannot write {os.fspath(path)!r}: {reason}") from None
    try:
        with writer:
            yield writer
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
