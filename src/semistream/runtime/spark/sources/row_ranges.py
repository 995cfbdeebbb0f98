"""Partitions of generated rows: each a range of row numbers."""

from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from semistream.core.errors import InvalidArgument

__all__ = ["RowRange", "check_schema", "row_ranges"]


@dataclass
class RowRange(InputPartition):
    """Rows ``start`` to ``stop - 1``."""

    start: int
    stop: int


def row_ranges(start: int, stop: int, partitions: int) -> list[RowRange]:
    """Cut rows ``start`` to ``stop - 1`` into at most ``partitions`` ranges of almost equal length, none empty."""
    bounds = [start + (stop - start) * number // partitions for number in range(partitions + 1)]
    return [RowRange(low, high) for low, high in pairwise(bounds) if low < high]


def check_schema(source: str, given: StructType, own: StructType) -> None:
    """Raise unless the schema, which the user may have given, is the source's own."""
    if given.simpleString() != own.simpleString():
        raise InvalidArgument(
            f"{source} has the columns {', '.join(own.names)} with types of its own: leave out .schema(...)"
        )
