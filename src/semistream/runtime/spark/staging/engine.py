"""Spark as `storage.writing.distributed` knows it: opens DataFrames once PySpark is known to be new enough."""

from semistream.runtime.spark.pyspark_version import require_pyspark
from semistream.storage.writing.sources import DistributedSource

__all__ = ["open_data"]


def open_data(data: object) -> DistributedSource:
    """Return a Spark DataFrame, classic or Connect, as a source to stage."""
    require_pyspark("semistream.stage of a DataFrame")
    from semistream.runtime.spark.staging.dataframe_source import open_data as open_dataframe

    return open_dataframe(data)
