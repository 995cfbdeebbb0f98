"""One task of a join with ``completion="batch"``: every row it gets is answered before it ends."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from semistream.core.semantics import JoinSpec
from semistream.kernels.keys.key_codes import KeyCoder, bucket_ids
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.columns import relabel
from semistream.runtime.spark.join.operator_pool import WORKER_POOL
from semistream.runtime.spark.join.output_columns import as_declared, blank_row
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.task_version import task_version
from semistream.runtime.spark.metrics.null_keys import count_null_keys
from semistream.runtime.spark.metrics.task_metrics import METRICS_COLUMN, MemoryPeak, TaskMetrics
from semistream.storage import MasterTable

__all__ = ["join_task"]


def join_task(plan: JoinPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the joined rows of a task's batches, and one row more with its metrics; nothing for a task without rows.

    Runs on executors. The declared columns are followed by `METRICS_COLUMN`, which is NULL in joined rows.
    """
    assert plan.output_schema is not None
    returned = pa.schema([*plan.output_schema, pa.field(METRICS_COLUMN, pa.string())])
    arriving = (relabel(batch, plan.stream_schema) for batch in batches if batch.num_rows)
    first = next(arriving, None)
    if first is None:
        return
    table = task_version(plan)
    keys = _KeyCheck(plan, table, first)
    peak = MemoryPeak()
    with WORKER_POOL.borrowed(plan, table, keys.bucket) as op:
        before = op.metrics.as_dict()
        for joined in _answers(op, keys, _chained(first, arriving), peak):
            columns = as_declared(joined, plan.output_schema)
            yield pa.RecordBatch.from_arrays([*columns, pa.nulls(joined.num_rows, pa.string())], schema=returned)
        peak.note(op.memory().components)
        counted = {name: count - before[name] for name, count in op.metrics.as_dict().items()}
        counted |= {"null_keys": keys.null_keys, "pending": op.pending}
    context = TaskContext.get()
    metrics = TaskMetrics(
        partition=0 if context is None else context.partitionId(),
        bucket=keys.bucket,
        version=table.version,
        counters=counted,
        budget_bytes=plan.operator_bytes,
        memory_bytes=peak.total_bytes,
        memory=dict(peak.components),
    )
    last = [*blank_row(plan.output_schema), pa.array([metrics.to_json()])]
    yield pa.RecordBatch.from_arrays(last, schema=returned)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _answers(
    op: StepOperator, keys: "_KeyCheck", batches: Iterator[pa.RecordBatch], peak: MemoryPeak
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys.check(batch)
        taken = op.offer(batch)
        while taken < batch.num_rows:
            yield from op.step()
            peak.note(op.memory().components)
            taken += op.offer(batch.slice(taken))
    peak.note(op.memory().components)
    yield from op.drain()


class _KeyCheck:
    """Counts NULL keys, and sees to it that all rows belong to the task's bucket: in another one they find no match."""

    def __init__(self, plan: JoinPlan, table: MasterTable, first: pa.RecordBatch) -> None:
        spec: JoinSpec = plan.spec(table)
        stream_key_of = dict(zip(spec.master_keys, spec.stream_keys, strict=True))
        self._buckets = table.buckets
        self._names = [stream_key_of[name] for name in (table.key if plan.joins_on_table_key else spec.master_keys)]
        self._types = [table.schema.field(dict(plan.on)[name]).type for name in self._names]
        self._shuffled = plan.exchange == "bucket"
        self.null_keys = 0
        self.bucket = int(self._bucket_ids(first.slice(0, 1))[0]) if self._shuffled else None

    def _bucket_ids(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        coder = KeyCoder(self._names, self._types)
        columns = [
            column if column.type == dtype else column.cast(dtype)
            for column, dtype in zip(map(batch.column, self._names), self._types, strict=True)
        ]
        return bucket_ids(coder, coder.codes(columns), self._buckets)

    def check(self, batch: pa.RecordBatch) -> None:
        """Look at a batch before it is joined."""
        self.null_keys += count_null_keys(batch, self._names)
        assert not self._shuffled or bool((self._bucket_ids(batch) == self.bucket).all()), (
            "the shuffle brought rows of several buckets to one task"
        )
