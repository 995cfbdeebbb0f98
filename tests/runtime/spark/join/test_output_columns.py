"""Columns that a join gives to Spark: which are refused, and the row that carries a task's metrics."""

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from semistream.core.errors import UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.runtime.spark.columns import output_columns
from semistream.runtime.spark.join.batch import blank_row

_TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(3, 2),
    pa.decimal128(12, 2),
    pa.decimal128(38, 18),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.duration("us"),
    pa.time64("ns"),
    pa.month_day_nano_interval(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.int32()),
    pa.struct(
        [pa.field("a", pa.decimal128(2, 1), nullable=False), pa.field("b", pa.null()), ("c", pa.list_(pa.date32()))]
    ),
]


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("nullable", [True, False])
def test_a_blank_row(dtype: pa.DataType, nullable: bool) -> None:
    schema = pa.schema([pa.field("column", dtype, nullable=nullable)])
    (column,) = blank_row(schema)
    assert (column.type, len(column)) == (dtype, 1)
    column.validate(full=True)
    assert column.null_count == int(nullable)
    with pa.ipc.new_stream(pa.BufferOutputStream(), schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], schema=schema))


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        (pa.timestamp("ns"), "microseconds"),
        (pa.duration("ns"), "microseconds"),
        (pa.list_(pa.timestamp("ns", tz="UTC")), "microseconds"),
        (pa.date64(), "no such type"),
        (pa.string_view(), "no such type"),
        (pa.binary_view(), "no such type"),
        (pa.decimal256(50, 2), "38 digits"),
        (pa.decimal128(10, -2), "negative scale"),
        (pa.struct([("inside", pa.decimal128(5, 7))]), "negative scale"),
    ],
    ids=str,
)
def test_master_columns_that_spark_would_fail_on_are_refused_before_it_starts(dtype: pa.DataType, reason: str) -> None:
    master = pa.schema([("k", pa.int64()), ("odd", dtype)])
    spec = JoinSpec.resolve(pa.schema([("k", pa.int64())]), master, "k")
    stream = StructType([StructField("k", LongType())])
    with pytest.raises(UnsupportedType, match=f"master column 'odd' has type .*{reason}.*columns=") as caught:
        output_columns(stream, spec)
    assert "\n" not in str(caught.value)
    without = JoinSpec.resolve(pa.schema([("k", pa.int64())]), master, "k", columns=["k"])
    output_columns(stream, without)
