"""Spark as an engine of `storage.writing.sources`: opens DataFrames, and imports PySpark only then."""

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.pyspark_version import require_pyspark
from semistream.storage.writing.sources import DistributedSource

__all__ = ["open_data"]


def open_data(data: object) -> DistributedSource:
    """Return a Spark DataFrame, classic or Connect, as a source to stage."""
    require_pyspark("semistream.stage of a DataFrame")
    from pyspark.sql import DataFrame

    from semistream.runtime.spark.staging.dataframe_source import DataFrameSource

    if not isinstance(data, DataFrame):
        raise InvalidArgument(
            f"data of type {type(data).__module__}.{type(data).__name__} cannot be staged: give a Spark DataFrame"
        )
    if data.isStreaming:
        raise InvalidArgument("data is a streaming DataFrame, which never ends: stage a batch DataFrame")
    return DataFrameSource(data)
