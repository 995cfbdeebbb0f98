"""The cache that the workers of an executor share: warm between queries, of one version, never part of a result."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from semistream.runtime.spark.metrics.join_metrics import JoinMetrics
from semistream.storage import MasterTable

# Pages that stay in the page cache are used there, and leave the cache empty.
_CACHING: dict[str, Any] = {"on": "id", "algorithm": "sweepjoin", "memory": "16MB", "io": "drop_behind"}


def _table(path: Path) -> MasterTable:
    return ss.stage(_rows(1), path, key="id", page_bytes="2KB")


def _rows(version: int) -> pa.Table:
    ids = list(range(5000))
    return pa.table({"id": ids, "label": [f"v{version}-{key}" for key in ids]})


def _orders(spark: SparkSession, rows: int = 20_000) -> DataFrame:
    return spark.range(rows, numPartitions=2).selectExpr("id AS number", "pmod(id * 7919, 300) AS id")


def _answer(joined: DataFrame) -> tuple[Counter[tuple[Any, ...]], JoinMetrics]:
    rows = Counter(tuple(row) for row in joined.select("number", "id", "label").collect())
    found = ss.metrics(joined)
    assert found is not None
    return rows, found


def _expected(version: int, rows: int = 20_000) -> Counter[tuple[Any, ...]]:
    return Counter((number, number * 7919 % 300, f"v{version}-{number * 7919 % 300}") for number in range(rows))


def test_the_cache_is_warm_in_the_next_job_and_dropped_with_the_version(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path / "master")
    for _ in range(3):
        rows, metrics = _answer(ss.join(_orders(spark), table, **_CACHING))
        assert rows == _expected(1)
    assert metrics.misses == 0, "whichever worker gets a task finds what the others learned"
    assert metrics.pages_read == 0
    assert metrics.counters["tuples_through_cache"] == 20_000
    newer = table.replace(_rows(2))
    rows, metrics = _answer(ss.join(_orders(spark), newer, **_CACHING))
    assert rows == _expected(2)
    assert metrics.misses > 0


def test_joins_with_other_columns_do_not_share(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path / "master")
    for _ in range(3):
        rows, metrics = _answer(ss.join(_orders(spark), table, **_CACHING))
        assert rows == _expected(1)
    assert metrics.counters["tuples_through_cache"] == 20_000
    kept = ss.join(_orders(spark), table, how="semi", **_CACHING)
    assert kept.count() == 20_000
    found = ss.metrics(kept)
    assert found is not None
    assert found.misses > 0
