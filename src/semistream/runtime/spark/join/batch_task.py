"""One task of a join with ``completion="batch"``: it answers every row that it gets before it ends."""

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

from semistream.core.errors import InvalidArgument, SchemaMismatch
from semistream.kernels.keys.key_codes import KeyCoder, bucket_ids
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.columns import cast_columns, relabel
from semistream.runtime.spark.join.operator_pool import WORKER_POOL
from semistream.runtime.spark.join.output_columns import blank_row
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.metrics.task_metrics import METRICS_COLUMN, MemoryPeak, TaskMetrics, count_null_keys
from semistream.storage import MasterTable
from semistream.storage.pins import pinned_version

__all__ = ["join_task"]

# Versions that this worker has opened, so that it reads each manifest once; copies of a table share its id.
_OPENED: dict[tuple[str, str], MasterTable] = {}
_MOST_OPENED = 8


def join_task(plan: JoinPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the joined rows of a task's batches and one row of metrics; nothing for a task without rows.

    Runs on executors. The declared columns are followed by `METRICS_COLUMN`, which is NULL in joined rows.
    """
    assert plan.output_schema is not None
    returned = pa.schema([*plan.output_schema, pa.field(METRICS_COLUMN, pa.string())])
    arriving = (relabel(batch, plan.stream_schema) for batch in batches if batch.num_rows)
    first = next(arriving, None)
    if first is None:
        return
    table = task_version(plan)
    answers = _Answers(plan, table, first)
    with WORKER_POOL.borrowed(plan, table, answers.bucket) as op:
        before = op.metrics.as_dict()
        for joined in answers.of(op, chain([first], arriving)):
            columns = cast_columns(joined, plan.output_schema)
            yield pa.RecordBatch.from_arrays([*columns, pa.nulls(joined.num_rows, pa.string())], schema=returned)
        counters = {name: count - before[name] for name, count in op.metrics.as_dict().items()}
        counters |= {"null_keys": answers.null_keys, "pending": op.pending}
    context = TaskContext.get()
    metrics = TaskMetrics(
        partition=0 if context is None else context.partitionId(),
        bucket=answers.bucket,
        version=table.version,
        counters=counters,
        budget_bytes=plan.operator_bytes,
        memory_bytes=answers.memory.total_bytes,
        memory=dict(answers.memory.components),
    )
    last = [*blank_row(plan.output_schema), pa.array([metrics.to_json()])]
    yield pa.RecordBatch.from_arrays(last, schema=returned)


class _Answers:
    """The results of an operator for all rows of a task, with what only the task can count."""

    def __init__(self, plan: JoinPlan, table: MasterTable, first: pa.RecordBatch) -> None:
        self._plan = plan
        self._table = table
        self.bucket = _bucket_of(plan, table, first) if plan.exchange == "bucket" else None
        self.null_keys = 0
        self.memory = MemoryPeak()

    def of(self, op: StepOperator, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.null_keys += count_null_keys(batch, list(self._plan.on))
            self._check_bucket(batch)
            taken = op.offer(batch)
            while taken < batch.num_rows:
                yield from op.step()
                self.memory.note(op.memory().components)
                taken += op.offer(batch.slice(taken))
        self.memory.note(op.memory().components)
        yield from op.drain()
        self.memory.note(op.memory().components)

    def _check_bucket(self, batch: pa.RecordBatch) -> None:
        """Look at one row of a shuffled batch: in the task of another bucket a row finds no match."""
        if self.bucket is not None:
            last = batch.slice(batch.num_rows - 1)
            assert _bucket_of(self._plan, self._table, last) == self.bucket, (
                "the shuffle brought rows of several buckets to one task"
            )


def _bucket_of(plan: JoinPlan, table: MasterTable, rows: pa.RecordBatch) -> int:
    """Return the bucket of the first row."""
    stream_key_of = {master: stream for stream, master in plan.on.items()}
    types = [table.schema.field(name).type for name in table.key]
    coder = KeyCoder(table.key, types)
    key = rows.slice(0, 1).select([stream_key_of[name] for name in table.key])
    columns = [column if column.type == dtype else column.cast(dtype) for column, dtype in zip(key, types, strict=True)]
    return int(bucket_ids(coder, coder.codes(columns), table.buckets)[0])


# --- the version of the table -----------------------------------------------------------------------------------------


def task_version(plan: JoinPlan) -> MasterTable:
    """Return the version of the running task: the same for all tasks of a micro-batch, retries and replays included."""
    if plan.refresh == "never":
        return _remembered(plan.table)
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise InvalidArgument(
            "a streaming join runs outside of its query's micro-batch, which decides the version of the table: write "
            "in the thread that foreachBatch calls, and with Spark Connect use refresh='never'"
        )
    known = _OPENED.get(_place(plan.table), plan.table)
    table = pinned_version(known, query, int(batch), plan.query_files())
    if not table.schema.equals(plan.table.schema):
        raise SchemaMismatch(f"version {table.version} of {table.path} has other columns: restart the query")
    return _remembered(table)


def _remembered(table: MasterTable) -> MasterTable:
    known = _OPENED.get(_place(table))
    if known is not None and known.version == table.version:
        return known
    while len(_OPENED) >= _MOST_OPENED:
        del _OPENED[next(iter(_OPENED))]
    _OPENED[_place(table)] = table
    return table


def _place(table: MasterTable) -> tuple[str, str]:
    return table.path, table.table_id
