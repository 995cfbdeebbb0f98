"""The index beside each data file: where its pages are, their checksums, and their first key codes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.core.errors import DamagedTable
from semistream.storage.files.manifest import DataFile
from semistream.storage.files.store import Store

__all__ = ["PageIndex", "read_page_index"]

_REMEDY = "restore it from a copy, or write it anew with replace()"
_ALIGNMENT = 8


@dataclass(frozen=True)
class PageIndex:
    """One row per page of a data file. ``first_code`` is None for a heap."""

    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    checksum: npt.NDArray[np.uint64]
    first_code: npt.NDArray[np.int64] | None

    def encode(self) -> bytes:
        """Return the index as an Arrow IPC file."""
        columns = {"offset": self.offset, "length": self.length, "rows": self.rows, "checksum": self.checksum}
        if self.first_code is not None:
            columns["first_code"] = self.first_code
        batch = pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], list(columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())


def read_page_index(store: Store, file: DataFile, *, clustered: bool) -> PageIndex:
    """Read and check the index of one data file."""
    where = store.locate(file.index_path)
    try:
        raw = store.read(file.index_path, file.index_bytes)
    except FileNotFoundError:
        raise DamagedTable(f"{where} is missing: {_REMEDY}") from None
    if len(raw) != file.index_bytes or xxhash.xxh3_64_hexdigest(raw) != file.index_checksum:
        raise DamagedTable(f"{where} has been altered or truncated (its checksum does not match): {_REMEDY}")
    try:
        batch = pa.ipc.open_file(pa.py_buffer(raw)).get_batch(0)
        batch.validate(full=True)
        columns = {field.name: column.to_numpy() for field, column in zip(batch.schema, batch.columns, strict=True)}
        index = PageIndex(
            columns["offset"], columns["length"], columns["rows"], columns["checksum"], columns.get("first_code")
        )
        problem = _problem(index, file, clustered)
    except (pa.ArrowException, OSError, KeyError, IndexError, ValueError) as error:
        problem = (str(error).splitlines() or [""])[0]
    if problem:
        raise DamagedTable(f"{where} is not the index of its data file ({problem}): {_REMEDY}") from None
    return index


def _problem(index: PageIndex, file: DataFile, clustered: bool) -> str | None:
    """Return what contradicts the manifest: readers trust places and sizes without looking again."""
    code = index.first_code
    columns = (index.offset, index.length, index.rows, index.checksum, index.offset if code is None else code)
    if [column.dtype.name for column in columns] != ["int64", "int64", "int32", "uint64", "int64"]:
        return "a column has another type"
    if index.offset.size != file.pages or not file.pages:
        return f"{index.offset.size} pages instead of {file.pages}"
    ends = index.offset + index.length
    if index.offset[0] < 0 or (ends <= index.offset).any() or ends[-1] > file.file_bytes:
        return "a page lies outside of the file"
    if (ends[:-1] != index.offset[1:]).any():
        return "pages do not lie side by side"
    if (index.offset % _ALIGNMENT).any():
        return f"a page does not begin at a multiple of {_ALIGNMENT} bytes"
    if (index.rows < 1).any() or index.rows.sum(dtype=np.int64) != file.rows or index.length.sum() != file.bytes:
        return "rows or bytes differ"
    if clustered and (code is None or (code[1:] < code[:-1]).any()):
        return "first keys are missing or not in order"
    return None
