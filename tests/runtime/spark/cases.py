"""Rows, and ways to compare them, that the tests on Spark share."""

from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from semistream.storage import MasterTable, open_table
from semistream.testing.oracle import Row, multiset
from tests.storage.cases import read_all

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# Per Spark type: values with the edges of the type.
KEY_VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127, 0, -1, 5],
    "smallint": [-(2**15), 2**15 - 1, 0, -1, 300],
    "int": [-(2**31), 2**31 - 1, 0, -1, 70_000],
    "bigint": [INT64_MIN, INT64_MIN + 1, INT64_MAX, 0, -1, 1, 2**40],
    "float": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.25, 2.0**-149],
    "double": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, 0.1, 5e-324, -1.7e308],
    "decimal(9,2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("1.50")],
    "decimal(18,0)": [Decimal("9" * 18), Decimal("-" + "9" * 18), Decimal(0), Decimal(7)],
    "decimal(38,6)": [Decimal("9" * 32 + ".999999"), Decimal("-" + "9" * 32 + ".999999"), Decimal(0), Decimal("-1.5")],
    "string": ["", "a", "Ab", "ß∂ü", "🦆", "a\0b", "x" * 31, "y" * 32, "z" * 33, "long " * 40],
    "binary": [b"", b"\0", b"\xff\xfe", b"abc", b"q" * 32, bytes(range(256))],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31), date(2024, 2, 29)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31)],
    "timestamp": [
        datetime(1900, 1, 1, tzinfo=timezone.utc),
        datetime(2024, 3, 10, 7, 30, tzinfo=timezone.utc),
        datetime(1970, 1, 1, tzinfo=timezone.utc),
    ],
    "interval day to second": [timedelta(0), timedelta(days=-3, microseconds=1), timedelta(days=10_000)],
    "time": [time(0), time(23, 59, 59, 999_999), time(12, 30)],
}


def _hashable(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def _rows(table: pa.Table) -> "Counter[Row]":
    return multiset(tuple(_hashable(value) for value in row.values()) for row in table.to_pylist())


def by_rows(table: MasterTable) -> "Counter[Row]":
    """The content of a version as a multiset; every page is verified on the way."""
    table.verify()
    return _rows(read_all(table))


def of_frame(frame: DataFrame) -> "Counter[Row]":
    """The content of a DataFrame as a multiset, by way of Arrow as tables keep it."""
    return _rows(frame.toArrow())


def master_frame(spark: SparkSession, rows: int, seed: int = 0) -> DataFrame:
    """Rows with a key that repeats and is sometimes NULL, and text of varying length."""
    return spark.range(0, rows, 1, 3).selectExpr(
        "id arrival",
        f"if(id % 50 = 7, null, pmod(xxhash64(id, {seed}), 400) - 200) k",
        f"repeat('x', cast(pmod(xxhash64(id, {seed}, 1), 60) as int)) text",
    )


def litter(path: Path) -> set[str]:
    """Files under a table that no version names."""
    named = {".lock"}
    for version in (path / "versions").glob("*.json"):
        named.add(f"versions/{version.name}")
        files = open_table(path, int(version.stem)).pages.files
        named.update(name for file in files for name in (file.path, file.index_path))
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} - named
