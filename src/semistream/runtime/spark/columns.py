"""Columns of a DataFrame in Arrow types and names that no setting of the session changes.

Spark labels timestamps with the session's time zone and may use large text types. Here timestamps are in UTC, types are
the plain ones, and fields inside lists, maps and structs are nullable: Spark infers their nullability differently for
expressions of the same meaning.
"""

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from semistream.core.errors import UnsupportedType

__all__ = [
    "BINARY_COLLATION",
    "arrow_schema",
    "cast_columns",
    "column_name",
    "other_collation",
    "relabel",
    "with_numbered_columns",
]

BINARY_COLLATION = "UTF8_BINARY"
"""Text compared byte by byte, as keys of this library are."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's schema; raise UnsupportedType when a column has no Arrow type."""
    for field in schema.fields:
        _require_arrow_type(field)
    plain: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_type(_nullable_inside(field.type)) for field in plain])


def _require_arrow_type(field: StructField) -> None:
    try:
        to_arrow_type(field.dataType, timezone="UTC", error_on_duplicated_field_names_in_struct=True)
    except PySparkException:
        raise UnsupportedType(
            f"column {field.name!r} has type {field.dataType.simpleString()}, which Spark cannot give to Python: "
            "cast it to another type, or drop it"
        ) from None


def _nullable_inside(dtype: pa.DataType) -> pa.DataType:
    if pt.is_list(dtype):
        dtype = pa.list_(_nullable(dtype.value_field))
    elif pt.is_struct(dtype):
        dtype = pa.struct([_nullable(dtype.field(i)) for i in range(dtype.num_fields)])
    elif pt.is_map(dtype):
        key = dtype.key_field
        dtype = pa.map_(key.with_type(_nullable_inside(key.type)), _nullable(dtype.item_field))
    return dtype


def _nullable(field: pa.Field) -> pa.Field:
    return field.with_nullable(True).with_type(_nullable_inside(field.type))


def cast_columns(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of a batch in the types of a schema; a value that does not fit is an error."""
    return [
        column if column.type.equals(field.type, check_metadata=True) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]


def relabel(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch from Spark in the types of `arrow_schema`; the join checks it for NULLs later."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(cast_columns(batch, schema), schema=nullable)


def column_name(position: int) -> str:
    """Return the name of a column in `with_numbered_columns`."""
    return f"column_{position}"


def with_numbered_columns(data: DataFrame) -> DataFrame:
    """Return a DataFrame with its columns named by position: Spark gives dots, backticks and case a meaning."""
    return data.toDF(*map(column_name, range(len(data.columns))))


def other_collation(dtype: DataType) -> str | None:
    """Return the collation of text that Spark does not compare byte by byte; None for all else."""
    if isinstance(dtype, StringType) and dtype.collation != BINARY_COLLATION:
        return dtype.collation
    return None
