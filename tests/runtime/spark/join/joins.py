"""Small joins for the tests on Spark, and the same joins by Spark itself or by the oracle."""

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from semistream.storage import MasterTable
from semistream.testing import oracle
from semistream.testing.oracle import Row, multiset

HOWS = ("inner", "left", "semi", "anti")
MEMORY = "48MB"
UTC = dt.timezone.utc


def customers(rows: int = 400, marker: str = "") -> pa.Table:
    """Customers with a key that is sometimes NULL and now and then there twice."""
    return pa.table(
        {
            "custkey": pa.array([None if n % 41 == 40 else n - n % 29 // 28 for n in range(rows)], pa.int64()),
            "name": pa.array([None if n % 31 == 30 else f"{marker}customer {n}" for n in range(rows)]),
            "balance": pa.array([Decimal(n) / 4 for n in range(rows)], pa.decimal128(12, 2)),
            "since": pa.array(
                [dt.datetime(2020, 1, 1, tzinfo=UTC) + dt.timedelta(hours=n) for n in range(rows)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def orders(rows: int = 900, seed: int = 0) -> pa.Table:
    """Orders: many of few customers, some of none that exists, some without one; the key is narrower than theirs."""
    keys = [None if n % 37 == 0 else (n * n + seed) % 23 if n % 3 else (n * 7 + seed) % 600 for n in range(rows)]
    return pa.table(
        {
            "order": pa.array([seed * 1_000_000 + n for n in range(rows)], pa.int64()),
            "custkey": pa.array(keys, pa.int32()),
            "note": pa.array([None if n % 5 == 0 else "n" * (n % 20) for n in range(rows)]),
            "at": pa.array(
                [dt.datetime(2024, 3, 10, 6, tzinfo=UTC) + dt.timedelta(minutes=n) for n in range(rows)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def frame(spark: SparkSession, rows: pa.Table, folder: Path) -> DataFrame:
    """The rows as a DataFrame read from files, in more than one partition."""
    write_files(rows, folder, files=3)
    return spark.read.parquet(str(folder))


def write_files(rows: pa.Table, folder: Path, files: int, prefix: str = "part") -> None:
    folder.mkdir(exist_ok=True)
    size = -(-rows.num_rows // files)
    for number in range(files):
        part = rows.slice(number * size, size)
        pq.write_table(part, folder / f".{prefix}-{number}", coerce_timestamps="us")
        (folder / f".{prefix}-{number}").rename(folder / f"{prefix}-{number}.parquet")


def staged(folder: Path, layout: str, rows: pa.Table | None = None, **options: Any) -> MasterTable:
    data = customers() if rows is None else rows
    settings = {"key": "custkey", "buckets": 3, "page_bytes": 4096, **options}
    return ss.stage(data, folder / f"customers-{layout}", layout=layout, **settings)


def expected(stream: pa.Table, master: pa.Table, how: str, on: dict[str, str] | None = None) -> "Counter[Row]":
    """The join as the nested loop has it."""
    keys = {"custkey": "custkey"} if on is None else on
    shared = {name for name, other in keys.items() if name == other}
    columns = [name for name in master.column_names if name not in shared] if how in ("inner", "left") else []
    return multiset(oracle.join(stream.to_batches(), master, list(keys.items()), how, None, columns))


def rows_of(joined: DataFrame) -> "Counter[Row]":
    return multiset(oracle.rows_of(joined.toArrow().to_batches()))
