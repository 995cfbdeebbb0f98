"""One task of a staging job: it writes its buckets and reports the files. Runs on executors."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from semistream.kernels.keys.key_codes import bucket_ids
from semistream.runtime.spark.columns import relabel
from semistream.storage.files.manifest import DataFile, TableForm
from semistream.storage.writing.page_writer import key_coder, write_data_file
from semistream.storage.writing.schema_match import conformer
from semistream.storage.writing.write_job import WriteJob

__all__ = ["REPORT_SCHEMA", "WriteTask", "parse_report", "write_buckets"]

REPORT_SCHEMA = "file string"


@dataclass(frozen=True)
class WriteTask:
    """The input of every task of a job: ``source_schema`` is the DataFrame's, ``form`` holds the table's."""

    job: WriteJob
    form: TableForm
    source_schema: pa.Schema


def write_buckets(task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a file for each bucket of a partition, whose rows lie together by bucket; yield a record of each file."""
    task.job.require_visible()
    conform = conformer(task.source_schema, task.form.schema)
    rows = (conform(relabel(batch, task.source_schema)) for batch in batches if batch.num_rows)
    for bucket, bucket_rows in _BucketRuns(task.form, rows):
        file = write_data_file(task.job, task.form, bucket, bucket_rows)
        if file is not None:
            yield pa.RecordBatch.from_pylist([{"file": json.dumps(asdict(file))}])


def parse_report(text: str) -> DataFile:
    """Return the record of a file from a task's report."""
    return DataFile(**json.loads(text))


class _BucketRuns:
    """Splits rows that lie together by bucket into one iterator per bucket."""

    def __init__(self, form: TableForm, batches: Iterator[pa.RecordBatch]) -> None:
        self._pieces = _one_bucket_pieces(form, batches)
        self._next = next(self._pieces, None)

    def __iter__(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        done: set[int] = set()
        while self._next is not None:
            bucket = self._next[0]
            assert bucket not in done, "rows of a bucket do not lie together"
            done.add(bucket)
            yield bucket, self._take(bucket)

    def _take(self, bucket: int) -> Iterator[pa.RecordBatch]:
        while self._next is not None and self._next[0] == bucket:
            piece = self._next[1]
            self._next = next(self._pieces, None)
            yield piece


def _one_bucket_pieces(form: TableForm, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    coder = key_coder(form)
    for batch in batches:
        if form.buckets == 1:
            yield 0, batch
            continue
        buckets = bucket_ids(coder, coder.codes([batch.column(name) for name in form.key]), form.buckets)
        starts = np.flatnonzero(np.diff(buckets, prepend=-1)).tolist()
        for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            yield int(buckets[start]), batch.slice(start, stop - start)
