"""Which Arrow schema a DataFrame has, whatever the session's settings are.

Spark labels timestamps with the session's time zone and may use large text types; both are settings that another
session has otherwise. Here timestamps are in UTC, types are the plain ones, and fields inside lists, maps and
structs may be NULL, because expressions of the same meaning differ in what Spark infers about that.
"""

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructField, StructType

from semistream.core.errors import UnsupportedType

__all__ = ["arrow_schema", "relabel"]


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


def relabel(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch that Spark gave, under the types that `arrow_schema` says its columns have."""
    columns = [
        column if column.type.equals(field.type, check_metadata=True) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    fields = [field.with_nullable(True) for field in schema]  # NULLs are looked for when the batch is conformed
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
