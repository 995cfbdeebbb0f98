"""Columns of DataFrames: those that come in, in Arrow types and names that no setting changes, and those that go out.

Spark labels timestamps with the session's time zone and may use large text types. Here timestamps are in UTC, types are
the plain ones, and fields inside lists, maps and structs are nullable: Spark infers their nullability differently for
expressions of the same meaning.
"""

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema, to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, UserDefinedType

from semistream.core.errors import KeyTypeMismatch, UnsupportedType
from semistream.core.semantics import JoinSpec

__all__ = [
    "BINARY_COLLATION",
    "all_nullable",
    "arrow_schema",
    "cast_columns",
    "column_name",
    "other_collation",
    "output_columns",
    "plain_fields",
    "quoted",
    "relabel",
    "require_binary_keys",
    "require_storable",
    "with_numbered_columns",
]

BINARY_COLLATION = "UTF8_BINARY"
"""Text compared byte by byte, as keys of this library are."""

_WIDER = {  # types of Spark for those that it lacks
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
_MOST_DIGITS = 38


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's schema; raise UnsupportedType when a column has no Arrow type."""
    for field in schema.fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC", error_on_duplicated_field_names_in_struct=True)
        except PySparkException:
            raise UnsupportedType(
                f"column {field.name!r} has type {field.dataType.simpleString()}, which Spark cannot give to Python: "
                "cast it to another type, or drop it"
            ) from None
    plain: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_type(_nullable_inside(field.type)) for field in plain])


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
    return pa.RecordBatch.from_arrays(cast_columns(batch, schema), schema=all_nullable(schema))


def all_nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def column_name(position: int) -> str:
    return f"column_{position}"


def with_numbered_columns(data: DataFrame) -> DataFrame:
    """Return a DataFrame with its columns named by position: Spark gives dots, backticks and case a meaning."""
    return data.toDF(*map(column_name, range(len(data.columns))))


def quoted(name: str) -> str:
    """Return the name of a column as Spark reads it in an expression."""
    return f"`{name.replace('`', '``')}`"


def plain_fields(columns: StructType) -> StructType:
    """Return columns without metadata: a watermark, which is part of it, would drop rows that leave later."""
    return StructType([StructField(field.name, field.dataType, field.nullable) for field in columns])


def other_collation(dtype: DataType) -> str | None:
    """Return the collation of text that Spark does not compare byte by byte; None for all else."""
    if isinstance(dtype, StringType) and dtype.collation != BINARY_COLLATION:
        return dtype.collation
    return None


def require_storable(columns: StructType) -> None:
    """Raise `UnsupportedType` for a column whose meaning a table would lose: collated text, and user-defined types."""
    for field in columns.fields:
        lost = _lost(field.dataType)
        if lost:
            raise UnsupportedType(
                f"column {field.name!r} has {lost}, which a master table does not keep: cast it, "
                f"text with collate({field.name}, {BINARY_COLLATION!r})"
            )


def _lost(dtype: DataType) -> str | None:
    if isinstance(dtype, UserDefinedType):
        return f"the user-defined type {dtype.simpleString()}"
    collation = other_collation(dtype)
    if collation is not None:
        return f"collation {collation}"
    inner: list[DataType] = []
    if isinstance(dtype, ArrayType):
        inner = [dtype.elementType]
    elif isinstance(dtype, MapType):
        inner = [dtype.keyType, dtype.valueType]
    elif isinstance(dtype, StructType):
        inner = [field.dataType for field in dtype.fields]
    return next(filter(None, map(_lost, inner)), None)


# --- columns of a join with a table -----------------------------------------------------------------------------------


def output_columns(stream: StructType, spec: JoinSpec) -> tuple[StructType, pa.Schema]:
    """Return the schema of the joined DataFrame, and its Arrow schema, which tasks return.

    Stream columns keep their metadata: a watermark is part of it.
    """
    master = [_spark_field(spec.output_schema.field(name)) for name in spec.master_columns]
    declared = StructType([*stream.fields, *master])
    return declared, arrow_schema(declared)


def _spark_field(field: pa.Field) -> StructField:
    reason = _unfit(field.type)
    if reason:
        raise UnsupportedType(
            f"master column {field.name!r} has type {field.type}, but {reason}: leave it out with columns=[...], or "
            "stage it as another type"
        )
    try:
        return StructField(field.name, from_arrow_type(_WIDER.get(field.type, field.type)), field.nullable)
    except PySparkException:
        raise UnsupportedType(
            f"master column {field.name!r} has type {field.type}, which Spark does not have: "
            "leave it out with columns=[...], or stage it as another type"
        ) from None


def _unfit(dtype: pa.DataType) -> str | None:
    """Return why Spark would fail on values of a type that it takes for one of its own."""
    if (pt.is_timestamp(dtype) or pt.is_duration(dtype)) and dtype.unit == "ns":
        return "Spark counts microseconds"
    if pt.is_decimal(dtype) and not 0 <= dtype.scale <= dtype.precision <= _MOST_DIGITS:
        return f"Spark's decimals have at most {_MOST_DIGITS} digits, and no negative scale"
    if pt.is_date64(dtype) or pt.is_string_view(dtype) or pt.is_binary_view(dtype):
        return "Spark has no such type"
    return next(filter(None, (_unfit(dtype.field(at).type) for at in range(dtype.num_fields))), None)


def require_binary_keys(stream: StructType, spec: JoinSpec) -> None:
    """Raise `KeyTypeMismatch` for a text key that Spark does not compare byte by byte."""
    for name in spec.stream_keys:
        collation = other_collation(stream[name].dataType)
        if collation is not None:
            raise KeyTypeMismatch(
                f"stream key {name!r} has collation {collation}, master keys are compared byte by byte: "
                f"cast it with collate({name}, {BINARY_COLLATION!r})"
            )
