"""Spark and this library put every key into the same bucket."""

import random
import struct
from decimal import Decimal
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

import semistream as ss
from semistream.kernels.keys.key_codes import KeyCoder, bucket_ids
from semistream.runtime.spark.buckets import arrow_hash_column, bucket_column, bucket_of_hash, hash_column
from semistream.runtime.spark.columns import arrow_schema, relabel
from tests.runtime.spark.cases import KEY_VALUES

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


COMPOSITE_KEYS = [
    ("string", "bigint"),
    ("double", "int", "string"),
    ("date", "decimal(9,2)"),
    ("boolean", "decimal(38,6)"),
]
KEYS = [*[(dtype,) for dtype in KEY_VALUES], *COMPOSITE_KEYS]
IN_ARROW = [("bigint",), ("string",), ("timestamp",), ("decimal(38,6)",), ("boolean", "decimal(38,6)")]
ROWS = 300


class Hashed(NamedTuple):
    """Keys of every type, and their buckets as Spark's expression (None: it has none) and as Arrow functions say."""

    keys: dict[str, pa.Array]
    spark: dict[tuple[str, ...], list[int] | None]
    arrow: dict[tuple[str, ...], list[int]]


@pytest.fixture(scope="module")
def hashed(spark: SparkSession) -> Hashed:
    names = {dtype: f"c{number}" for number, dtype in enumerate(KEY_VALUES)}
    columns = {}
    for dtype, edges in KEY_VALUES.items():
        values = [*edges, None, *random_values(dtype, ROWS - len(edges) - 1)]
        values += [RANDOM.choice([*edges, None]) for _ in range(ROWS - len(values))]
        columns[names[dtype]] = dtype, values
    frame = frame_of(spark, columns)
    schema = arrow_schema(frame.schema)
    buckets = {}
    for number, key in enumerate(KEYS):
        parts = [F.col(names[dtype]) for dtype in key]
        types = [schema.field(names[dtype]).type for dtype in key]
        in_spark = hash_column(parts, types)
        if key in IN_ARROW:
            buckets[f"arrow{number}"] = bucket_of_hash(arrow_hash_column(parts, types), BUCKETS)
        if in_spark is not None:
            buckets[f"spark{number}"] = bucket_of_hash(in_spark, BUCKETS)
    rows = frame.select("*", *[column.alias(name) for name, column in buckets.items()]).toArrow()
    (batch,) = rows.select(schema.names).combine_chunks().to_batches()
    batch = relabel(batch, schema)
    return Hashed(
        keys={dtype: batch.column(name) for dtype, name in names.items()},
        spark={key: rows[f"spark{i}"].to_pylist() if f"spark{i}" in buckets else None for i, key in enumerate(KEYS)},
        arrow={key: rows[f"arrow{i}"].to_pylist() for i, key in enumerate(KEYS) if key in IN_ARROW},
    )


@pytest.mark.parametrize("key", KEYS, ids="+".join)
def test_spark_gives_every_key_the_bucket_that_this_library_gives_it(hashed: Hashed, key: tuple[str, ...]) -> None:
    columns = [hashed.keys[dtype] for dtype in key]
    coder = KeyCoder(key, [column.type for column in columns])
    expected = bucket_ids(coder, coder.codes(columns), BUCKETS)
    assert len(set(expected.tolist())) > 1
    assert (hashed.spark[key] is None) == bool(NOT_PROVEN & set(key))
    assert hashed.spark[key] is not None or key in hashed.arrow
    for found in (hashed.spark[key], hashed.arrow.get(key)):
        if found is not None:
            wrong = np.flatnonzero(np.array(found) != expected).tolist()
            assert not wrong, [[column[i] for column in columns] for i in wrong[:3]]


CASTS = [
    ("tinyint", pa.int64()),
    ("int", pa.int64()),
    ("int", pa.float64()),
    ("float", pa.float64()),
    ("int", pa.decimal128(18, 4)),
    ("decimal(9,2)", pa.decimal128(18, 6)),
    ("string", pa.large_string()),
    ("binary", pa.large_binary()),
]


def test_the_stream_is_cast_to_the_masters_type(spark: SparkSession, tmp_path: Path) -> None:
    keys = [[*KEY_VALUES[stream_type], None] for stream_type, _ in CASTS]
    rows = max(map(len, keys))
    columns = {
        f"c{number}": (stream_type, list(islice(cycle(values), rows)))
        for number, ((stream_type, _), values) in enumerate(zip(CASTS, keys, strict=True))
    }
    frame = frame_of(spark, columns).coalesce(1)
    stream = frame.toArrow()
    buckets, expected = {}, {}
    for name, (stream_type, master_type) in zip(columns, CASTS, strict=True):
        key = stream[name].combine_chunks().cast(master_type)
        table = ss.stage(pa.table({"m": key}), tmp_path / name, key="m", buckets=BUCKETS)
        assert hash_column([F.col(name)], [master_type]) is not None
        column = bucket_column([F.col(name)], table)
        coder = KeyCoder(["m"], [master_type])
        cast = f"{stream_type} to {master_type}"
        buckets[cast] = column.alias(cast)
        expected[cast] = bucket_ids(coder, coder.codes([key]), BUCKETS).tolist()
    assert frame.select(*buckets.values()).toArrow().to_pydict() == expected


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
