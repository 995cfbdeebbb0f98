"""The row that carries a task's metrics fits every schema that a join can have."""

import pyarrow as pa
import pytest

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
