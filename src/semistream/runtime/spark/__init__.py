"""The runtime on Spark; importing this package loads no pyspark."""

from semistream.runtime.spark.register_sources import register_sources

__all__ = ["register_sources"]
