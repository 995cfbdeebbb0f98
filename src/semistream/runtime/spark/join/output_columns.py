"""The columns of the joined DataFrame, as Spark declares them and as tasks return them in Arrow."""

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from semistream.core.errors import KeyTypeMismatch, UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.runtime.spark.columns import BINARY_COLLATION, arrow_schema, other_collation

__all__ = ["blank_row", "output_columns", "require_binary_keys"]

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
    """Return the schema of the joined DataFrame, and its Arrow schema, which tasks return.

    Stream columns keep their metadata: a watermark is part of it.
    """
    master = [_spark_field(spec.output_schema.field(name)) for name in spec.master_columns]
    declared = StructType([*stream.fields, *master])
    return declared, arrow_schema(declared)


def require_binary_keys(stream: StructType, spec: JoinSpec) -> None:
    """Raise `KeyTypeMismatch` for a text key that Spark does not compare byte by byte."""
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
    """Return a type of Spark that holds all values of a type that Spark lacks."""
    return next((wider for lacking, wider in _WIDER if dtype == lacking), dtype)


def blank_row(schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of one meaningless row: NULL where the schema allows it, something empty elsewhere."""
    return [pa.nulls(1, field.type) if field.nullable else _blank(field.type) for field in schema]


def _blank(dtype: pa.DataType) -> pa.Array:
    if pt.is_struct(dtype):
        fields = [dtype.field(position) for position in range(dtype.num_fields)]
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
