"""How stream rows come to the tasks of a join: where they are, or shuffled by bucket."""

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type

from semistream.runtime.spark.buckets import arrow_hash_column, bucket_column, bucket_of_hash
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.numbered_columns import column_name

__all__ = ["shuffled_by_bucket"]


def shuffled_by_bucket(stream: DataFrame, plan: JoinPlan) -> DataFrame:
    """Return the stream, whose columns are numbered, with a partition for each bucket; a NULL key is in bucket 0."""
    table = plan.table
    stream_key_of = {master: plan.stream_schema.get_field_index(stream_key) for stream_key, master in plan.on.items()}
    keys = [stream[column_name(stream_key_of[name])] for name in table.key]
    bucket = bucket_column(keys, table)
    if bucket is None:
        types = [table.schema.field(name).type for name in table.key]
        cast = [key.cast(from_arrow_type(dtype)) for key, dtype in zip(keys, types, strict=True)]
        bucket = bucket_of_hash(arrow_hash_column(cast, types), table.buckets)
    return stream.repartitionById(table.buckets, bucket)
