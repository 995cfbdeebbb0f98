"""Writes one data file: pages cut by measured size, and the page index beside them.

A writer touches nothing but its own two new files and returns a small record of them, so files of one version
can be written by many processes and published by one.
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import xxhash

from semistream.kernels.keys.key_codes import KeyCoder
from semistream.storage.manifest import DataFile, TableForm
from semistream.storage.reading.page_index import PageIndex
from semistream.storage.row_sizes import batch_overhead_bytes
from semistream.storage.store import DATA, OutputFile
from semistream.storage.writing.batch_cutting import cut_batches

__all__ = ["NewFiles", "key_coder", "write_data_file"]


class NewFiles(Protocol):
    """Where data files are created: a store, or a job that keeps watch over them."""

    def create(self, name: str) -> OutputFile: ...
    def remove(self, name: str) -> None: ...


def key_coder(form: TableForm) -> KeyCoder:
    """Return the coder of the table's key."""
    return KeyCoder(form.key, [form.schema.field(name).type for name in form.key])


def write_data_file(
    store: NewFiles, form: TableForm, bucket: int, batches: Iterable[pa.RecordBatch], *, job_id: str = ""
) -> DataFile | None:
    """Write all of ``batches``, rows of one bucket in their final order, as one data file with its index.

    Parameters
    ----------
    store, form
        Where the table is, and what it is.
    bucket
        The bucket that the rows belong to.
    batches
        Rows with exactly the table's schema; sorted by key code when the layout is clustered.
    job_id
        Hexadecimal digits that the names of the files begin with, so that a job can find those of its own.

    Returns
    -------
    DataFile or None
        What `publish_version` needs; None when there were no rows, and then no file either.
    """
    pages = cut_batches(batches, form.page_bytes - batch_overhead_bytes(form.schema))
    first_page = next(pages, None)
    if first_page is None:
        return None
    name = f"{DATA}/{job_id}{uuid.uuid4().hex[len(job_id) :]}-b{bucket:05d}"
    try:
        return _write(store, form, bucket, name, first_page, pages)
    except BaseException:
        store.remove(f"{name}.arrow")
        store.remove(f"{name}.pages.arrow")
        raise


def _write(
    store: NewFiles,
    form: TableForm,
    bucket: int,
    name: str,
    page: pa.RecordBatch | None,
    pages: Iterator[pa.RecordBatch],
) -> DataFile:
    coder = key_coder(form) if form.layout == "clustered" else None
    entries: list[tuple[int, int, int, int]] = []
    first_codes: list[int] = []
    last_code = np.iinfo(np.int64).min
    output = store.create(f"{name}.arrow")
    try:
        sink = _PageSink(output)
        writer = pa.ipc.new_file(pa.PythonFile(sink, mode="w"), form.schema)
        while page is not None:
            if coder is not None:
                codes = coder.codes([page.column(column) for column in form.key]).code
                in_order = codes[0] >= last_code and (codes[1:] >= codes[:-1]).all()
                assert in_order, "rows are not sorted by key code"
                first_codes.append(int(codes[0]))
                last_code = int(codes[-1])
            before = sink.position
            writer.write_batch(page)
            if not entries:
                # The header reaches the sink together with the first page.
                page_length = int(page.serialize().size)
                before = sink.position - page_length
                header_checksum = sink.flush_until(before)
            length = sink.position - before
            entries.append((before, length, page.num_rows, sink.flush()))
            page = next(pages, None)
        writer.close()
        footer_checksum = sink.flush()
    finally:
        output.close()
    columns = np.array([entry[:3] for entry in entries], dtype=np.int64)
    index = PageIndex(
        offset=columns[:, 0],
        length=columns[:, 1],
        rows=columns[:, 2].astype(np.int32),
        checksum=np.array([entry[3] for entry in entries], dtype=np.uint64),
        first_code=None if coder is None else np.array(first_codes, dtype=np.int64),
    )
    encoded = index.encode()
    _write_whole(store.create(f"{name}.pages.arrow"), encoded)
    return DataFile(
        path=f"{name}.arrow",
        bucket=bucket,
        rows=int(index.rows.sum(dtype=np.int64)),
        bytes=int(index.length.sum()),
        pages=len(entries),
        file_bytes=sink.position,
        header_checksum=f"{header_checksum:016x}",
        footer_checksum=f"{footer_checksum:016x}",
        index_path=f"{name}.pages.arrow",
        index_bytes=len(encoded),
        index_checksum=xxhash.xxh3_64_hexdigest(encoded),
    )


def _write_whole(output: OutputFile, content: bytes) -> None:
    try:
        output.write(content)
    finally:
        output.close()


class _PageSink:
    """Collects what Arrow writes until it is flushed, so that a checksum covers the bytes of the file."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._waiting = bytearray()
        self.position = 0
        self.closed = False

    def write(self, content: bytes) -> int:
        self._waiting += content
        self.position += len(content)
        return len(content)

    def flush_until(self, position: int) -> int:
        cut = len(self._waiting) - (self.position - position)
        head = bytes(self._waiting[:cut])
        del self._waiting[:cut]
        self._output.write(head)
        return int(xxhash.xxh3_64_intdigest(head))

    def flush(self) -> int:
        if not self._waiting:
            return 0
        return self.flush_until(self.position)

    def tell(self) -> int:
        return self.position

    def close(self) -> None:
        self.closed = True
