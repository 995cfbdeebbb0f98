"""The DataFrame of a join with ``completion="batch"``: shuffle if the plan says so, join in each task, observe."""

from pyspark.sql import DataFrame, Observation
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from semistream.core.errors import SchemaMismatch
from semistream.runtime.spark.buckets import arrow_hash_column, bucket_column, bucket_of_hash
from semistream.runtime.spark.columns import column_name, with_numbered_columns
from semistream.runtime.spark.join.batch_task import join_task
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.metrics.observed import observed
from semistream.runtime.spark.metrics.task_metrics import METRICS_COLUMN
from semistream.runtime.spark.on_executor import on_executor

__all__ = ["batch_join"]


def batch_join(stream: DataFrame, plan: JoinPlan, declared: StructType, observation: str | Observation) -> DataFrame:
    """Return the joined DataFrame; Spark observes its metrics under the given name or object."""
    if METRICS_COLUMN in declared.names:
        raise SchemaMismatch(f"column {METRICS_COLUMN!r} is used by the join itself: rename it")
    stream = with_numbered_columns(stream)
    if plan.exchange == "bucket":
        stream = _shuffled_by_bucket(stream, plan)
    returned = StructType([*declared.fields, StructField(METRICS_COLUMN, StringType())])
    return observed(stream.mapInArrow(on_executor(join_task, plan), returned), observation)


def _shuffled_by_bucket(stream: DataFrame, plan: JoinPlan) -> DataFrame:
    """Return the stream with a partition for each bucket of the table; a NULL key is in bucket 0."""
    table = plan.table
    stream_key_of = {master: plan.stream_schema.get_field_index(stream_key) for stream_key, master in plan.on.items()}
    keys = [stream[column_name(stream_key_of[name])] for name in table.key]
    bucket = bucket_column(keys, table)
    if bucket is None:
        types = [table.schema.field(name).type for name in table.key]
        cast = [key.cast(from_arrow_type(dtype)) for key, dtype in zip(keys, types, strict=True)]
        bucket = bucket_of_hash(arrow_hash_column(cast, types), table.buckets)
    return stream.repartitionById(table.buckets, bucket)
