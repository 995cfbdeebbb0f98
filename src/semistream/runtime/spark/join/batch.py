"""``completion="batch"``: every row is answered in the micro-batch that read it.

::

    stream ─► shuffle by bucket, if the plan says so ─► task: an operator answers all its rows ─► observe ─► rows
"""

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StringType, StructField, StructType

from semistream.core.errors import InvalidArgument, SchemaMismatch
from semistream.kernels.keys.key_codes import KeyCoder, bucket_ids
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.buckets import bucket_column
from semistream.runtime.spark.columns import cast_columns, column_name, relabel, with_numbered_columns
from semistream.runtime.spark.join.operator_pool import WORKER_POOL
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.metrics.join_metrics import METRICS_COLUMN, MemoryPeak, TaskMetrics, count_null_keys
from semistream.runtime.spark.metrics.observed import observed
from semistream.runtime.spark.on_executor import naming_host, on_executor, running_task
from semistream.storage import MasterTable
from semistream.storage.pins import pinned_version

__all__ = ["batch_join", "blank_row", "join_task"]

# Versions that this worker has opened, so that it reads each manifest once; copies of a table share its id.
_OPENED: dict[tuple[str, str], MasterTable] = {}
_MOST_OPENED = 8


def batch_join(stream: DataFrame, plan: JoinPlan, declared: StructType, observation: str | Observation) -> DataFrame:
    """Return the joined DataFrame; Spark observes its metrics under the given name or object."""
    if METRICS_COLUMN in declared.names:
        raise SchemaMismatch(f"column {METRICS_COLUMN!r} is used by the join itself: rename it")
    stream = with_numbered_columns(stream)
    if plan.exchange == "bucket":
        positions = map(plan.stream_schema.get_field_index, plan.bucket_keys)
        bucket = bucket_column([stream[column_name(position)] for position in positions], plan.table)
        stream = stream.repartitionById(plan.table.buckets, bucket)
    returned = StructType([*declared.fields, StructField(METRICS_COLUMN, StringType())])
    return observed(stream.mapInArrow(on_executor(join_task, plan), returned), observation)


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
    with naming_host():
        table = task_version(plan)
    bucket = _bucket_of(plan, table, first) if plan.exchange == "bucket" else None
    null_keys, peak = 0, MemoryPeak()

    def offered() -> Iterator[pa.RecordBatch]:
        nonlocal null_keys
        for batch in chain([first], arriving):
            null_keys += count_null_keys(batch, list(plan.on))
            # One row of a shuffled batch is looked at: in the task of another bucket a row finds no match.
            assert bucket is None or _bucket_of(plan, table, batch.slice(batch.num_rows - 1)) == bucket, (
                "the shuffle brought rows of several buckets to one task"
            )
            yield batch

    with naming_host(), WORKER_POOL.borrowed(plan, table, bucket) as op:
        before = op.metrics.as_dict()
        for joined in _answers(op, offered(), peak):
            columns = cast_columns(joined, plan.output_schema)
            yield pa.RecordBatch.from_arrays([*columns, pa.nulls(joined.num_rows, pa.string())], schema=returned)
        counters = {name: count - before[name] for name, count in op.metrics.as_dict().items()}
        counters |= {"null_keys": null_keys, "pending": op.pending}
    metrics = TaskMetrics(
        partition=running_task().partition,
        bucket=bucket,
        version=table.version,
        counters=counters,
        budget_bytes=plan.operator_bytes,
        **vars(peak),
    )
    last = [*blank_row(plan.output_schema), pa.array([metrics.to_json()])]
    yield pa.RecordBatch.from_arrays(last, schema=returned)


def _answers(op: StepOperator, batches: Iterator[pa.RecordBatch], peak: MemoryPeak) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        taken = op.offer(batch)
        while taken < batch.num_rows:
            yield from op.step()
            peak.note(op.memory().components)
            taken += op.offer(batch.slice(taken))
    peak.note(op.memory().components)
    yield from op.drain()
    peak.note(op.memory().components)


def _bucket_of(plan: JoinPlan, table: MasterTable, rows: pa.RecordBatch) -> int:
    key_schema = pa.schema([table.schema.field(name) for name in table.key])
    coder = KeyCoder(table.key, key_schema.types)
    key = rows.slice(0, 1).select(plan.bucket_keys)
    return int(bucket_ids(coder, coder.codes(cast_columns(key, key_schema)), table.buckets)[0])


# --- the row of metrics -----------------------------------------------------------------------------------------------


def blank_row(schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of one meaningless row: NULL where the schema allows it, something empty elsewhere."""
    return [pa.nulls(1, field.type) if field.nullable else _blank(field.type) for field in schema]


def _blank(dtype: pa.DataType) -> pa.Array:
    if pt.is_struct(dtype):
        fields = [dtype.field(position) for position in range(dtype.num_fields)]
        struct: pa.Array = pa.StructArray.from_arrays([_blank(field.type) for field in fields], fields=fields)
        return struct
    if pt.is_nested(dtype):
        return pa.array([[]], dtype)
    if pt.is_null(dtype):
        return pa.nulls(1, dtype)
    if pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_binary(dtype) or pt.is_large_binary(dtype):
        empty: pa.Array = pa.array([b""]).cast(dtype)
        return empty
    zero = pa.py_buffer(bytes(-(-dtype.bit_width // 8)))
    return pa.Array.from_buffers(dtype, 1, [None, zero])


# --- the version of the table -----------------------------------------------------------------------------------------


def task_version(plan: JoinPlan) -> MasterTable:
    """Return the version of the running task: the same for all tasks of a micro-batch, retries and replays included."""
    if plan.refresh == "never":
        return _remembered(plan.table)
    _, query, batch = running_task()
    if query is None or batch is None:
        raise InvalidArgument(
            "a streaming join runs outside of its query's micro-batch, which decides the version of the table: write "
            "in the thread that foreachBatch calls, and with Spark Connect use refresh='never'"
        )
    known = _OPENED.get((plan.table.path, plan.table.table_id), plan.table)
    table = pinned_version(known, query, batch, plan.query_files())
    if not table.schema.equals(plan.table.schema):
        raise SchemaMismatch(f"version {table.version} of {table.path} has other columns: restart the query")
    return _remembered(table)


def _remembered(table: MasterTable) -> MasterTable:
    place = table.path, table.table_id
    known = _OPENED.pop(place, table)
    _OPENED[place] = known if known.version_id == table.version_id else table
    while len(_OPENED) > _MOST_OPENED:
        del _OPENED[next(iter(_OPENED))]
    return _OPENED[place]
