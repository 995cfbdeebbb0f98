"""How Spark compares text; keys of this library are compared byte by byte."""

from pyspark.sql.types import DataType, StringType

__all__ = ["BINARY_COLLATION", "other_collation"]

BINARY_COLLATION = "UTF8_BINARY"


def other_collation(dtype: DataType) -> str | None:
    """Return the collation of a text that Spark compares in another way than byte by byte; None for all else."""
    if isinstance(dtype, StringType) and dtype.collation != BINARY_COLLATION:
        return dtype.collation
    return None
