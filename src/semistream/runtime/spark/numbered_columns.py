"""Columns named by their position.

Spark looks columns up by name, and dots, backticks and upper case have a meaning of their own in it.
"""

from pyspark.sql import DataFrame

__all__ = ["column_name", "with_numbered_columns"]


def column_name(position: int) -> str:
    """Return the name that a column has by its position."""
    return f"column_{position}"


def with_numbered_columns(data: DataFrame) -> DataFrame:
    """Return a DataFrame with its columns renamed by position."""
    return data.toDF(*map(column_name, range(len(data.columns))))
