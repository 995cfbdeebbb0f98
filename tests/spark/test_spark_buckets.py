"""Spark and this library put every key into the same bucket."""

import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

import semistream as ss
from semistream.kernels.key_codes import KeyCoder, bucket_ids
from semistream.runtime.spark.arrow_schema import arrow_schema, relabel
from semistream.runtime.spark.buckets import arrow_hash_column, bucket_column, bucket_of_hash, hash_column
from tests.spark.cases import KEY_VALUES

BUCKETS = 97
NOT_PROVEN = {"decimal(38,6)"}
RANDOM = random.Random(20_240_611)


def random_values(dtype: str, count: int) -> list[Any]:
    if dtype == "bigint":
        return [RANDOM.getrandbits(64) - 2**63 for _ in range(count)]
    if dtype == "int":
        return [RANDOM.getrandbits(32) - 2**31 for _ in range(count)]
    if dtype == "double":
        return [struct.unpack("<d", RANDOM.randbytes(8))[0] for _ in range(count)]
    if dtype == "float":
        return [struct.unpack("<f", RANDOM.randbytes(4))[0] for _ in range(count)]
    if dtype == "decimal(18,0)":
        return [Decimal(RANDOM.randint(-(10**18) + 1, 10**18 - 1)) for _ in range(count)]
    if dtype == "decimal(38,6)":
        return [Decimal(RANDOM.randint(-(10**27), 10**27)).scaleb(-6) for _ in range(count)]
    if dtype == "string":
        return ["".join(chr(RANDOM.choice((65, 0xE9, 0x20AC, 0x1F986))) for _ in range(n % 45)) for n in range(count)]
    if dtype == "binary":
        return [RANDOM.randbytes(n % 45) for n in range(count)]
    return []


def frame_of(spark: SparkSession, columns: dict[str, tuple[str, list[Any]]]) -> DataFrame:
    parsed = spark.sql("select " + ", ".join(f"cast(null as {dtype}) {name}" for name, (dtype, _) in columns.items()))
    fields = [StructField(field.name, field.dataType) for field in parsed.schema.fields]
    return spark.createDataFrame(
        list(zip(*(values for _, values in columns.values()), strict=True)), StructType(fields)
    )


def expected_buckets(frame: DataFrame, keys: list[str]) -> "np.ndarray[Any, np.dtype[np.int32]]":
    schema = arrow_schema(frame.schema)
    (batch,) = frame.toArrow().combine_chunks().to_batches()
    batch = relabel(batch, schema)
    coder = KeyCoder(keys, [schema.field(key).type for key in keys])
    return bucket_ids(coder, coder.codes([batch.column(key) for key in keys]), BUCKETS)


@pytest.mark.parametrize("dtype", KEY_VALUES)
def test_bucket_of_every_key_type(spark: SparkSession, dtype: str) -> None:
    values = [*KEY_VALUES[dtype], None, *random_values(dtype, 400)]
    frame = frame_of(spark, {"k": (dtype, values)}).coalesce(1)
    types = [field.type for field in arrow_schema(frame.schema)]
    expected = expected_buckets(frame, ["k"])
    hashed = hash_column([F.col("k")], types)
    assert (hashed is None) == (dtype in NOT_PROVEN)
    ways = {"arrow": arrow_hash_column([F.col("k")], types)} | ({} if hashed is None else {"spark": hashed})
    rows = frame.select(*[bucket_of_hash(way, BUCKETS).alias(name) for name, way in ways.items()]).toArrow()
    for name in ways:
        found = rows[name].to_numpy()
        wrong = [values[i] for i in np.flatnonzero(found != expected)]
        assert not wrong, (name, wrong[:5])


@pytest.mark.parametrize(
    "types", [("string", "bigint"), ("double", "int", "string"), ("date", "decimal(9,2)"), ("boolean", "decimal(38,6)")]
)
def test_bucket_of_composite_keys(spark: SparkSession, types: tuple[str, ...]) -> None:
    columns = {
        f"c{i}": (dtype, [RANDOM.choice([*KEY_VALUES[dtype], None]) for _ in range(300)])
        for i, dtype in enumerate(types)
    }
    frame = frame_of(spark, columns).coalesce(1)
    keys = [F.col(name) for name in columns]
    arrow_types = [field.type for field in arrow_schema(frame.schema)]
    hashed = hash_column(keys, arrow_types)
    assert (hashed is None) == bool(NOT_PROVEN & set(types))
    way = arrow_hash_column(keys, arrow_types) if hashed is None else hashed
    found = frame.select(bucket_of_hash(way, BUCKETS).alias("b")).toArrow()["b"].to_numpy()
    assert found.tolist() == expected_buckets(frame, list(columns)).tolist()


@pytest.mark.parametrize(
    ("stream_type", "master_type"),
    [
        ("tinyint", pa.int64()),
        ("int", pa.int64()),
        ("int", pa.float64()),
        ("float", pa.float64()),
        ("int", pa.decimal128(18, 4)),
        ("decimal(9,2)", pa.decimal128(18, 6)),
        ("string", pa.large_string()),
        ("binary", pa.large_binary()),
    ],
)
def test_the_stream_is_cast_to_the_masters_type(
    spark: SparkSession, tmp_path: Path, stream_type: str, master_type: pa.DataType
) -> None:
    frame = frame_of(spark, {"s": (stream_type, [*KEY_VALUES[stream_type], None])}).coalesce(1)
    stream = frame.toArrow()["s"].combine_chunks()
    table = ss.stage(pa.table({"m": stream.cast(master_type)}), tmp_path / "t", key="m", buckets=BUCKETS)
    column = bucket_column([F.col("s")], table)
    assert column is not None
    coder = KeyCoder(["m"], [master_type])
    expected = bucket_ids(coder, coder.codes([stream.cast(master_type)]), BUCKETS)
    assert [row[0] for row in frame.select(column).collect()] == expected.tolist()


@pytest.mark.parametrize(
    "dtype",
    [
        pa.uint64(),
        pa.timestamp("ns"),
        pa.timestamp("s", "UTC"),
        pa.date64(),
        pa.time64("us"),
        pa.decimal128(19, 0),
        pa.duration("ms"),
    ],
    ids=str,
)
def test_types_that_are_not_proven_equal_have_no_expression(spark: SparkSession, dtype: pa.DataType) -> None:
    assert hash_column([F.col("k")], [dtype]) is None
    assert hash_column([F.col("j"), F.col("k")], [pa.int64(), dtype]) is None
