"""Stages a DataFrame in a Spark job: a shuffle to a task per bucket, a sort there, and files written by the tasks.

::

    DataFrame ──► shuffle by bucket ──► sort by key code ──► task writes data files ──► records of files
                                                                                             │
    driver:  lock ──► job marker ───────────────────────────────────────────────────► manifest, last

Spark's sort spills, and a task writes page by page, so no process holds a bucket. The manifest names only files that
successful tasks report; other attempts' files are removed.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)

from semistream.kernels.keys.key_codes import bucket_ids
from semistream.runtime.spark.buckets import arrow_hash_column, bucket_of_hash, hash_column
from semistream.runtime.spark.columns import (
    arrow_schema,
    column_name,
    relabel,
    require_storable,
    with_numbered_columns,
)
from semistream.runtime.spark.on_executor import clear_errors, on_executor
from semistream.storage.files.manifest import DataFile, TableForm
from semistream.storage.writing.page_writer import key_coder, write_data_file
from semistream.storage.writing.schema_match import conformer
from semistream.storage.writing.write_job import WriteJob

__all__ = ["DataFrameSource", "WriteTask", "write_buckets"]

_ONE_BUCKET_TASKS = 64  # up to here a task per bucket, even if Spark is set to fewer shuffle partitions
_HASH = "hash"


class DataFrameSource:
    """The rows of a DataFrame."""

    def __init__(self, data: DataFrame) -> None:
        require_storable(data.schema)
        self._data = with_numbered_columns(data)
        self.schema: pa.Schema = arrow_schema(data.schema)

    def write_files(self, job: WriteJob, form: TableForm) -> list[DataFile]:
        """Write all rows in a Spark job; return the records of its files, ordered by bucket."""
        write = on_executor(write_buckets, WriteTask(job, form, self.schema))
        with clear_errors(f"staging to {job.store.locate()}"):
            return self._run(self._arranged(form).mapInArrow(write, "file string"))

    def _run(self, reports: DataFrame) -> list[DataFile]:
        session = reports.sparkSession
        tag = f"semistream-{uuid.uuid4().hex}"
        session.addTag(tag)
        try:
            files = [DataFile(**json.loads(row[0])) for row in reports.collect()]
        except BaseException:
            with suppress(PySparkException):
                session.interruptTag(tag)  # interrupting the driver does not stop the tasks
            raise
        finally:
            session.removeTag(tag)
        return sorted(files, key=lambda file: file.bucket)

    def _arranged(self, form: TableForm) -> DataFrame:
        """Return the rows with each bucket in one partition, in its final order."""
        clustered = form.layout == "clustered"
        if form.buckets == 1 and not clustered:
            return self._data.coalesce(self._shuffle_partitions())  # several files do not hurt a scan
        keys = [F.col(column_name(self.schema.get_field_index(name))) for name in form.key]
        types = [form.schema.field(name).type for name in form.key]
        rows, hashed = self._data, hash_column(keys, types)
        if hashed is None:
            # Computed in Python once, then carried with the row.
            rows = rows.withColumn(_HASH, arrow_hash_column(keys, types))
            hashed = F.col(_HASH)
        bucket = bucket_of_hash(hashed, form.buckets)
        tasks = self._tasks(form.buckets)
        order: list[Column] = [] if tasks == form.buckets else [bucket.asc()]
        if clustered:
            # The order of key codes: an exact code is the key itself, any other the hash; NULL comes first.
            code = keys[0] if key_coder(form).exact else hashed
            order.append(code.asc_nulls_first())
        rows = rows.repartitionById(tasks, bucket)
        if order:
            rows = rows.sortWithinPartitions(*order)
        return rows.drop(_HASH)

    def _tasks(self, buckets: int) -> int:
        """Return how many tasks write the buckets: one each, or equal shares of many buckets."""
        most = max(self._shuffle_partitions(), _ONE_BUCKET_TASKS)
        buckets_per_task = -(-buckets // most)
        return -(-buckets // buckets_per_task)

    def _shuffle_partitions(self) -> int:
        return int(cast(str, self._data.sparkSession.conf.get("spark.sql.shuffle.partitions")))


# --- on executors -----------------------------------------------------------------------------------------------------


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
    done: set[int] = set()
    for bucket, pieces in groupby(_one_bucket_pieces(task.form, rows), key=itemgetter(0)):
        assert bucket not in done, "rows of a bucket do not lie together"
        done.add(bucket)
        bucket_rows = (piece for _, piece in pieces)
        file = write_data_file(task.job, task.form, bucket, bucket_rows)
        if file is not None:
            yield pa.RecordBatch.from_pylist([{"file": json.dumps(asdict(file))}])


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
