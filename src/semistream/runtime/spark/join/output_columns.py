"""What leaves the join, as Spark declares it and as Arrow carries it there."""

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from semistream.core.errors import KeyTypeMismatch, SchemaMismatch, UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.runtime.spark.collation import BINARY_COLLATION, other_collation
from semistream.runtime.spark.columns import arrow_schema

__all__ = ["as_declared", "blank_row", "output_columns", "require_binary_keys", "require_names_without_case"]


_WIDER: tuple[tuple[pa.DataType, pa.DataType], ...] = (
    (pa.uint8(), pa.int16()),
    (pa.uint16(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.float16(), pa.float32()),
    (pa.date64(), pa.date32()),
    (pa.string_view(), pa.string()),
    (pa.binary_view(), pa.binary()),
)


def output_columns(stream: StructType, spec: JoinSpec) -> tuple[StructType, pa.Schema]:
    """Return the schema of the joined DataFrame, and the Arrow schema of what tasks return for it.

    Stream columns stay as they are, with their metadata: a watermark is part of it.
    """
    master = [_spark_field(spec.output_schema.field(name)) for name in spec.master_columns]
    declared = StructType([*stream.fields, *master])
    return declared, arrow_schema(declared)


def require_names_without_case(declared: StructType) -> None:
    """Raise `SchemaMismatch` when two names differ in case alone: Spark takes them for one unless told otherwise."""
    seen: dict[str, str] = {}
    for name in declared.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaMismatch(
                f"columns {other!r} and {name!r} are one name to Spark: rename one, leave it out with columns=[...], "
                "or set spark.sql.caseSensitive"
            )


def require_binary_keys(stream: StructType, spec: JoinSpec) -> None:
    """Raise `KeyTypeMismatch` for a key of text that Spark compares in another way than byte by byte."""
    for name in spec.stream_keys:
        collation = other_collation(stream[name].dataType)
        if collation is not None:
            raise KeyTypeMismatch(
                f"stream key {name!r} has collation {collation}, master keys are compared byte by byte: "
                f"cast it with collate({name}, {BINARY_COLLATION!r})"
            )


def _spark_field(field: pa.Field) -> StructField:
    try:
        return StructField(field.name, from_arrow_type(_wider(field.type)), field.nullable)
    except PySparkException:
        raise UnsupportedType(
            f"master column {field.name!r} has type {field.type}, which Spark does not have: "
            "leave it out with columns=[...], or stage it as another type"
        ) from None


def _wider(dtype: pa.DataType) -> pa.DataType:
    """Return a type that Spark has and that holds all values of one that it lacks."""
    return next((wider for lacking, wider in _WIDER if dtype == lacking), dtype)


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of an operator's result in the types of ``schema``; a value that does not fit is an error."""
    return [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]


def blank_row(schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of one row without meaning: NULL where that is allowed, something empty elsewhere."""
    return [pa.nulls(1, field.type) if field.nullable else _blank(field.type) for field in schema]


def _blank(dtype: pa.DataType) -> pa.Array:
    if pt.is_struct(dtype):
        fields = [dtype.field(position) for position in range(dtype.num_fields)]
        # What is inside may be declared without NULLs.
        struct: pa.Array = pa.StructArray.from_arrays([_blank(field.type) for field in fields], fields=fields)
        return struct
    if pt.is_list(dtype) or pt.is_large_list(dtype) or pt.is_map(dtype):
        return pa.array([[]], dtype)
    if pt.is_string(dtype) or pt.is_large_string(dtype):
        return pa.array([""], dtype)
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return pa.array([b""], dtype)
    if pt.is_null(dtype):
        return pa.nulls(1, dtype)
    zero = pa.py_buffer(bytes(-(-dtype.bit_width // 8)))
    return pa.Array.from_buffers(dtype, 1, [None, zero])
