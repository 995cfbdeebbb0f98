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


def read_page_index(store: Store, file: DataFile) -> PageIndex:
    """Read and check the index of one data file."""
    where = store.locate(file.index_path)
    try:
        raw = store.read(file.index_path)
    except FileNotFoundError:
        raise DamagedTable(f"{where} is missing: restore it from a copy, or write it anew with replace()") from None
    if len(raw) != file.index_bytes or xxhash.xxh3_64_hexdigest(raw) != file.index_checksum:
        raise DamagedTable(
            f"{where} has been altered or truncated (its checksum does not match): "
            "restore it from a copy, or write it anew with replace()"
        )
    batch = pa.ipc.open_file(pa.py_buffer(raw)).get_batch(0)
    columns = dict(zip(batch.schema.names, (column.to_numpy() for column in batch.columns), strict=True))
    return PageIndex(
        columns["offset"], columns["length"], columns["rows"], columns["checksum"], columns.get("first_code")
    )
