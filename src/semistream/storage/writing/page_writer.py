"""Writes one data file: pages cut by measured size, and the page index beside them.

A writer touches only its own two new files and returns a small record of them: many processes can write the files of a
version, and one publishes it.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.kernels.arrow_views import with_own_items
from semistream.kernels.keys.key_codes import KeyCoder
from semistream.storage.files.manifest import DataFile, TableForm
from semistream.storage.files.page_index import PageIndex
from semistream.storage.files.row_sizes import batch_overhead_bytes, row_bits
from semistream.storage.files.store import OutputFile
from semistream.storage.writing.write_job import WriteJob

__all__ = ["key_coder", "write_data_file"]


def key_coder(form: TableForm) -> KeyCoder:
    """Return the coder of the table's key."""
    return KeyCoder(form.key, [form.schema.field(name).type for name in form.key])


def write_data_file(job: WriteJob, form: TableForm, bucket: int, batches: Iterable[pa.RecordBatch]) -> DataFile | None:
    """Write all of ``batches``, rows of one bucket in their final order, as one data file with its index.

    Parameters
    ----------
    job, form
        The writing that the file is part of, and the table's properties.
    bucket
        The bucket that the rows belong to.
    batches
        Rows with exactly the table's schema; sorted by key code when the layout is clustered.

    Returns
    -------
    DataFile or None
        The record for `publish_version`; None without rows, when no file is written.
    """
    pages = _cut_batches(batches, form.page_bytes - batch_overhead_bytes(form.schema))
    first_page = next(pages, None)
    if first_page is None:
        return None
    name = job.new_name(bucket)
    try:
        return _write(job, form, bucket, name, first_page, pages)
    except BaseException:
        job.store.remove(f"{name}.arrow")
        job.store.remove(f"{name}.pages.arrow")
        raise


def _write(
    job: WriteJob,
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
    output = job.create(f"{name}.arrow")
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
    _write_whole(job.create(f"{name}.pages.arrow"), encoded)
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


def _cut_batches(batches: Iterable[pa.RecordBatch], target_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a stream of batches anew: each takes at most ``target_bytes`` when written, or is a single row."""
    target_bits = 8 * target_bytes
    waiting: list[pa.RecordBatch] = []
    waiting_bits = 0
    for batch in batches:
        bits_before: npt.NDArray[np.int64] = np.zeros(batch.num_rows + 1, dtype=np.int64)
        np.cumsum(row_bits(batch), out=bits_before[1:])
        start = 0
        while start < batch.num_rows:
            room = bits_before[start] + target_bits - waiting_bits
            stop = int(np.searchsorted(bits_before, room, side="right")) - 1
            if stop == batch.num_rows:
                waiting.append(batch.slice(start))
                waiting_bits += int(bits_before[stop] - bits_before[start])
                break
            if stop <= start and not waiting:
                stop = start + 1
            if stop > start:
                waiting.append(batch.slice(start, stop - start))
            yield _joined(waiting)
            waiting, waiting_bits, start = [], 0, max(start, stop)
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return with_own_items(batches[0])
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
