"""The DataFrame of a join with ``completion="batch"``: shuffle if need be, join in each task, observe."""

from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StringType, StructField, StructType

from semistream.core.errors import SchemaMismatch
from semistream.runtime.spark.join.exchange import shuffled_by_bucket
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.metrics.observed import observed
from semistream.runtime.spark.metrics.task_metrics import METRICS_COLUMN
from semistream.runtime.spark.numbered_columns import with_numbered_columns
from semistream.runtime.spark.on_executor import on_executor

__all__ = ["batch_join"]


def batch_join(stream: DataFrame, plan: JoinPlan, declared: StructType, observation: str | Observation) -> DataFrame:
    """Return the joined DataFrame; its metrics are observed under the name, or by the object, that is given."""
    if METRICS_COLUMN in declared.names:
        raise SchemaMismatch(f"column {METRICS_COLUMN!r} is used by the join itself: rename it")
    stream = with_numbered_columns(stream)
    if plan.exchange == "bucket":
        stream = shuffled_by_bucket(stream, plan)
    returned = StructType([*declared.fields, StructField(METRICS_COLUMN, StringType())])
    task: Any = on_executor("semistream.runtime.spark.join.batch_task", "join_task", plan)
    return observed(stream.mapInArrow(task, returned), observation)
