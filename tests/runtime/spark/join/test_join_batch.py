"""Joins of batch DataFrames with every algorithm, against Spark's own join."""

import datetime as dt
from collections import Counter
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)

import semistream as ss
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from semistream.testing import oracle
from semistream.testing.oracle import Row, multiset
from tests.runtime.spark.join.joins import HOWS, MEMORY, UTC, customers, expected, frame, orders, rows_of, staged


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("join")


@pytest.fixture(scope="module")
def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return frame(spark, orders(), folder / "orders").cache()


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, MasterTable]:
    return {layout: staged(folder, layout) for layout in ("heap", "clustered")}


def _marked(joined: DataFrame, mark: str) -> DataFrame:
    return joined.select(F.lit(mark).alias("mark"), "*")


def _all_hows(joins: dict[str, DataFrame]) -> DataFrame:
    """All four kinds of join in one job, each row with its kind."""
    wide = [joined.withColumn("how", F.lit(how)) for how, joined in joins.items()]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), wide)


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, stream: DataFrame, folder: Path) -> "Counter[Row]":
    master = frame(spark, customers(), folder / "customers")
    joins = {how: stream.join(master, "custkey", how) for how in HOWS}
    return rows_of(
        _all_hows({how: joined.select("order", "custkey", *joined.columns[2:]) for how, joined in joins.items()})
    )


# In the quick run each algorithm has a left join, which shows rows of every kind, and one of the others in turn.
CASES = [
    *[(name, ("left", HOWS[number % 4])) for number, name in enumerate(ss.algorithm_names())],
    *[pytest.param(name, HOWS, marks=pytest.mark.slow) for name in ss.algorithm_names()],
]


@pytest.mark.parametrize(("name", "hows"), CASES)
def test_every_algorithm_gives_the_rows_of_sparks_own_join(
    stream: DataFrame, tables: dict[str, MasterTable], by_spark: "Counter[Row]", name: str, hows: tuple[str, ...]
) -> None:
    table = tables[algorithm(name).layouts[0]]

    def joined(how: str) -> DataFrame:
        rows = ss.join(stream, table, "custkey", how, algorithm=name, memory=MEMORY)  # type: ignore[arg-type]
        assert rows.columns[: len(stream.columns)] == stream.columns
        return rows

    wanted = Counter({row: count for row, count in by_spark.items() if row[-1] in hows})
    assert rows_of(_all_hows({how: joined(how) for how in hows})) == wanted


@pytest.mark.parametrize(
    ("layout", "exchange"),
    [
        ("heap", "none"),
        ("clustered", "bucket"),
        # Those that the layout has by itself are in other tests too.
        pytest.param("heap", "bucket", marks=pytest.mark.slow),
        pytest.param("clustered", "none", marks=pytest.mark.slow),
    ],
)
def test_both_exchanges_give_the_same_rows(
    stream: DataFrame, tables: dict[str, MasterTable], layout: str, exchange: str
) -> None:
    joined = ss.join(stream, tables[layout], "custkey", "left", memory=MEMORY, exchange=exchange)
    assert rows_of(joined) == expected(orders(), customers(), "left")
    metrics = ss.metrics(joined)
    assert metrics is not None
    buckets = [task.bucket for task in metrics.tasks]
    assert buckets == ([0, 1, 2] if exchange == "bucket" else [None] * len(buckets))


def test_the_exchange_that_auto_chooses_is_that_of_the_layout(
    stream: DataFrame, tables: dict[str, MasterTable]
) -> None:
    def shuffles(layout: str) -> bool:
        joined = ss.join(stream, tables[layout], "custkey", memory=MEMORY)
        plan: str = joined._jdf.queryExecution().toString()
        return "REPARTITION_BY_NUM" in plan or "Exchange" in plan

    assert shuffles("heap")
    assert not shuffles("clustered")


def test_composite_keys_of_other_names_and_types(spark: SparkSession, tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=n % 7) for n in range(60)]
    master = pa.table(
        {
            "shop": pa.array([None if n % 11 == 10 else f"shop {n % 5}" for n in range(60)]),
            "day": pa.array(days, pa.date32()),
            "price": pa.array([Decimal(n) for n in range(60)], pa.decimal128(20, 3)),
        }
    )
    stream = pa.table(
        {
            "d": pa.array([None if n % 13 == 12 else days[n % 9] for n in range(80)], pa.date32()),
            "s": pa.array([None if n % 17 == 16 else f"shop {n % 7}" for n in range(80)]),
            "n": pa.array(range(80), pa.int16()),
        }
    )
    table = staged(tmp_path, "clustered", master, key=["day", "shop"], buckets=4)
    on = {"s": "shop", "d": "day"}
    data = frame(spark, stream, tmp_path / "stream")
    by_bucket, anywhere = (
        ss.join(data, table, on, "left", memory=MEMORY, exchange=exchange) for exchange in ("bucket", "none")
    )
    assert by_bucket.columns == anywhere.columns == ["d", "s", "n", "shop", "day", "price"]
    wanted = {(exchange, *row): n for row, n in expected(stream, master, "left", on).items() for exchange in "ba"}
    assert rows_of(_marked(by_bucket, "b").union(_marked(anywhere, "a"))) == wanted


KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "text": (pa.array(["a", "ß", "", None, "🦆"] * 6), pa.array(["ß", "", "zz", "🦆"])),
    "decimal": (
        pa.array([Decimal("1.50"), Decimal("-7.25"), None], pa.decimal128(9, 2)),
        pa.array([Decimal("1.5"), Decimal("-7.25"), Decimal("0.001")], pa.decimal128(25, 3)),
    ),
    "timestamp": (
        pa.array([dt.datetime(2024, 3, 10, 7, n, tzinfo=UTC) for n in range(9)], pa.timestamp("us", "UTC")),
        pa.array([dt.datetime(2024, 3, 10, 7, n, tzinfo=UTC) for n in range(0, 20, 2)], pa.timestamp("us", "UTC")),
    ),
    "tinyint to bigint": (pa.array([1, -1, None, 5], pa.int8()), pa.array([5, -1, 900], pa.int64())),
    "unsigned": (pa.array([1, 255, None, 5], pa.int16()), pa.array([5, 255, 70_000], pa.int32())),
    "double": (pa.array([0.0, -0.0, float("nan"), 1.5]), pa.array([-0.0, float("nan"), 2.0])),
}


def test_keys_of_every_kind_find_their_bucket(spark: SparkSession, tmp_path: Path) -> None:
    joins, wanted = [], {}
    for kind, (stream_keys, master_keys) in KEYS.items():
        stream = pa.table({"k": stream_keys, "n": pa.array(range(len(stream_keys)))})
        master = pa.table({"k": master_keys, "v": pa.array(range(len(master_keys)))})
        table = staged(tmp_path / kind, "clustered", master, key="k", buckets=5)
        data = frame(spark, stream, tmp_path / kind / "stream")
        joined = ss.join(data, table, "k", "left", memory=MEMORY, exchange="bucket")
        joins.append(_marked(joined, kind).withColumnRenamed("k", kind))
        wanted[kind] = expected(stream, master, "left", {"k": "k"})
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), joins).toArrow()
    found = {kind: rows.filter(pc.field("mark") == kind).select([kind, "n", "v"]).to_batches() for kind in KEYS}
    assert {kind: multiset(oracle.rows_of(batches)) for kind, batches in found.items()} == wanted


@pytest.mark.parametrize("how", ["left", pytest.param("anti", marks=pytest.mark.slow)])
def test_null_keys_and_keys_of_empty_buckets_still_leave(spark: SparkSession, tmp_path: Path, how: str) -> None:
    stream = pa.table({"k": pa.array([*range(40), None, None], pa.int64())})
    master = pa.table({"k": pa.array([7], pa.int64()), "v": ["seven"]})
    table = staged(tmp_path, "heap", master, key="k", buckets=6)
    assert table.bucket_bytes.count(0) == 5
    data = frame(spark, stream, tmp_path / "stream")
    joined = ss.join(data, table, "k", how, memory=MEMORY)  # type: ignore[arg-type]
    assert rows_of(joined) == expected(stream, master, how, {"k": "k"})


def test_master_columns_of_types_that_spark_lacks_become_wider_ones(spark: SparkSession, tmp_path: Path) -> None:
    master = pa.table(
        {
            "k": pa.array([1, 2], pa.int64()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "large": pa.array(["x", None], pa.large_string()),
            "half": pa.array([1.5, None], pa.float16()),
            "fixed": pa.array([b"abcd", None], pa.binary(4)),
            "list": pa.array([[1, None], None], pa.list_(pa.int64())),
            "struct": pa.array([{"a": 1, "b": ["x"]}, None]),
            "naive": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("ms")),
        },
    )
    table = staged(tmp_path, "clustered", master, key="k", buckets=1)
    joined = ss.join(spark.range(1, 4).withColumnRenamed("id", "k"), table, "k", "left", memory=MEMORY)
    types = dict(joined.dtypes)
    assert (types["u64"], types["large"], types["half"]) == ("decimal(20,0)", "string", "float")
    assert (types["naive"], types["struct"]) == ("timestamp_ntz", "struct<a:bigint,b:array<string>>")
    rows = {row["k"]: row for row in joined.collect()}
    assert rows[1]["u64"] == Decimal(2**64 - 1)
    assert (rows[1]["large"], rows[1]["half"], rows[1]["fixed"]) == ("x", 1.5, bytearray(b"abcd"))
    assert (rows[1]["list"], rows[1]["struct"]["b"]) == ([1, None], ["x"])
    assert rows[1]["naive"] == dt.datetime(2024, 1, 1)
    assert all(value is None for name, value in rows[3].asDict().items() if name != "k")


def test_columns_that_cannot_be_null_stay_so_and_rows_without_output_harm_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), pa.field("day", pa.date32(), nullable=False), ("v", pa.string())]
    )
    master = pa.table({"k": [1], "day": [dt.date(2024, 1, 1)], "v": ["x"]}, schema=schema)
    table = staged(tmp_path, "clustered", master, key="k")
    data = spark.range(10).select(
        F.col("id").alias("k"),
        F.array(F.lit(1)).alias("a"),
        F.struct(F.lit("t").alias("s"), F.lit(2).alias("n")).alias("b"),
    )
    joined = ss.join(data.where("k > 1"), table, "k", memory=MEMORY)
    assert [field.nullable for field in joined.schema] == [False, False, False, False, True]
    assert joined.collect() == []
    assert [field.nullable for field in ss.join(data, table, "k", "left", memory=MEMORY).schema][3:] == [True, True]
    assert ss.join(data, table, "k", memory=MEMORY).collect()[0]["day"] == dt.date(2024, 1, 1)


def test_a_projection_and_a_chain(stream: DataFrame, tables: dict[str, MasterTable]) -> None:
    path = tables["clustered"].path
    joined = stream.transform(ss.enrich(path, on="custkey", how="left", columns=["name"], memory=MEMORY))
    assert joined.columns == [*stream.columns, "name"]
    assert rows_of(joined) == expected(orders(), customers().select(["custkey", "name"]), "left")


def test_two_joins_in_one_query_and_one_join_used_twice(stream: DataFrame, tables: dict[str, MasterTable]) -> None:
    first = ss.join(stream, tables["heap"], "custkey", "left", columns=["name"], memory=MEMORY)
    both = ss.join(first, tables["clustered"], "custkey", "left", columns=["balance"], memory=MEMORY)
    want = expected(orders(), customers().select(["custkey", "name"]), "left")
    assert sum(rows_of(both.unionByName(both)).values()) >= 2 * sum(want.values())
    same = [ss.join(stream, tables["heap"], "custkey", "left", columns=["name"], memory=MEMORY) for _ in range(2)]
    assert rows_of(same[0].union(same[1])) == want + want


def test_names_with_dots_backticks_and_spaces(spark: SparkSession, tmp_path: Path) -> None:
    master = pa.table({"the key": [1, 2, 3], "v`1.x": ["a", "b", "c"]})
    table = staged(tmp_path, "heap", master, key="the key")
    stream = spark.range(5).toDF("a.`b")
    joined = ss.join(stream, table, {"a.`b": "the key"}, "left", memory=MEMORY)
    assert joined.columns == ["a.`b", "the key", "v`1.x"]
    assert sorted(row[2] for row in joined.collect() if row[2]) == ["a", "b", "c"]


def test_a_join_on_other_columns_than_the_key_scans(stream: DataFrame, tmp_path: Path, folder: Path) -> None:
    master = pa.table({"id": pa.array(range(60)), "custkey": pa.array([n % 30 for n in range(60)], pa.int64())})
    table = staged(tmp_path, "clustered", master, key="id")
    joined = ss.join(stream, table, "custkey", memory=MEMORY)
    assert rows_of(joined) == expected(orders(), master, "inner")


def test_a_batch_dataframe_uses_the_version_that_was_newest_when_it_was_joined(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = staged(tmp_path, "clustered")
    data = spark.range(5).withColumnRenamed("id", "custkey")
    joined = ss.join(data, table.path, "custkey", memory=MEMORY)
    table.replace(customers(marker="new "))
    assert all("new" not in row["name"] for row in joined.collect())
    assert all("new" in row["name"] for row in ss.join(data, table.path, "custkey", memory=MEMORY).collect())
