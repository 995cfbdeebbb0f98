"""DataFrames become tables with exactly their rows, and versions of them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from semistream.core.errors import (
    ConcurrentWrite,
    EmptyTable,
    InvalidArgument,
    SchemaMismatch,
    TableExists,
    UnknownColumn,
    UnsupportedType,
)
from semistream.kernels.keys.key_codes import bucket_ids
from semistream.runtime.spark.staging import dataframe_source
from semistream.storage import MasterTable, PageReader
from semistream.storage.files.manifest import read_manifest
from semistream.storage.files.store import LocalStore
from semistream.storage.writing.page_writer import key_coder
from tests.runtime.spark.cases import by_rows, litter, master_frame, of_frame

EVERY_TYPE = """
    id,
    if(id % 9 = 0, null, concat('key ', id % 40)) text_key,
    if(id % 8 = 0, null, cast(id % 30 as decimal(38, 6))) wide_key,
    if(id % 7 = 0, double('nan'), id % 5 - 2.5) double_key,
    timestamp_seconds(id * 100000) ts_key,
    cast(date '2024-01-01' + cast(id as int) as timestamp_ntz) ntz,
    date '1969-12-01' + cast(id as int) day,
    cast(concat('raw ', id) as binary) raw,
    id % 2 = 0 flag,
    cast(id as tinyint) small,
    array(id, null) list,
    named_struct('a', id, 'at', timestamp_seconds(id)) struct,
    map(concat('k', id), timestamp_seconds(id)) map,
    make_dt_interval(cast(id as int)) span,
    null nothing
"""


@pytest.fixture(scope="module")
def every_type(spark: SparkSession) -> DataFrame:
    return spark.range(0, 120, 1, 3).selectExpr(*[part.strip() for part in EVERY_TYPE.split(",\n")])


@pytest.mark.parametrize(
    ("layout", "buckets"),
    [
        ("heap", 2),
        ("clustered", 1),
        ("clustered", 5),
        *[pytest.param(*case, marks=pytest.mark.slow) for case in (("heap", 1), ("heap", 5), ("clustered", 2))],
    ],
)
def test_versions_hold_exactly_the_rows(
    spark: SparkSession, tmp_path: Path, layout: str, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataframe_source, "_ONE_BUCKET_TASKS", 2)  # five buckets: tasks with three and with two
    first, second = master_frame(spark, 3_000), master_frame(spark, 500, seed=1)
    table = ss.stage(first, tmp_path / "t", key="k", layout=layout, buckets=buckets, page_bytes="2KB")
    assert (table.version, table.layout, table.buckets, table.num_rows) == (1, layout, buckets, 3_000)
    assert by_rows(table) == of_frame(first)
    require_buckets(table)
    if layout == "clustered":  # a look-up searches every file of a bucket
        assert len({file.bucket for file in table.pages.files}) == len(table.pages.files)
    appended = table.append(second.select("text", "k", "arrival"))
    assert by_rows(appended) == of_frame(first) + of_frame(second)
    require_buckets(appended)
    replaced = appended.replace(second)
    assert by_rows(replaced) == of_frame(second)
    assert replaced.versions() == [1, 2, 3]
    assert by_rows(ss.open_table(tmp_path / "t", 1)) == of_frame(first)
    assert litter(tmp_path / "t") == set()


def require_buckets(table: MasterTable) -> None:
    coder = key_coder(read_manifest(table.store, table.version).form)
    with PageReader(table) as reader:
        for page in range(table.num_pages):
            rows = reader.read(page).combine_chunks().to_batches()[0]
            codes = coder.codes([rows.column(name) for name in table.key])
            found = bucket_ids(coder, codes, table.buckets) if table.buckets > 1 else np.zeros(rows.num_rows)
            assert set(found.tolist()) == {table.pages.files[table.pages.file[page]].bucket}


@pytest.mark.parametrize(
    "key",
    [
        "wide_key",
        ["text_key", "small"],
        *[pytest.param(key, marks=pytest.mark.slow) for key in ("double_key", "ts_key", "span", ["wide_key", "raw"])],
    ],
    ids=str,
)
def test_every_type_is_kept_under_any_key(every_type: DataFrame, tmp_path: Path, key: str | list[str]) -> None:
    table = ss.stage(every_type, tmp_path / "t", key=key, buckets=2, page_bytes="4KB")
    require_buckets(table)
    assert table.schema.field("ts_key").type == pa.timestamp("us", "UTC")
    assert table.schema.field("ntz").type == pa.timestamp("us")
    assert not table.schema.field("id").nullable
    stored = by_rows(table)
    assert stored == of_frame(every_type)


def test_a_table_takes_arrow_data_and_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([5, None, 1]), "s": pa.array(["a", "b", None], pa.large_string())})
    table = ss.stage(rows, tmp_path / "t", key="k", buckets=4)
    table = table.append(spark.sql("select 'z' s, cast(7 as int) k"))
    table = table.append(pa.table({"k": [9], "s": ["y"]}))
    assert sorted(by_rows(table), key=str) == sorted([(5, "a"), (None, "b"), (1, None), (7, "z"), (9, "y")], key=str)
    require_buckets(table)


def test_timestamps_keep_their_instant_in_any_session(spark: SparkSession, tmp_path: Path) -> None:
    rows = "select timestamp_seconds(id) at, array(timestamp_seconds(id)) list from range(5)"
    table = ss.stage(spark.sql(rows), tmp_path / "t", key="at", buckets=2)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        table = table.append(spark.sql(rows))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
    assert set(by_rows(table).values()) == {2}


def test_column_names_of_any_spelling(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("select id `a.b`, id `c``d e`, id k, -id K, id hash from range(10)")
    table = ss.stage(frame, tmp_path / "t", key=["a.b", "c`d e", "K"], buckets=3)
    assert table.schema.names == ["a.b", "c`d e", "k", "K", "hash"]
    assert by_rows(table) == of_frame(frame)


def test_progress_tells_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    told: list[int] = []
    ss.stage(spark.range(50), tmp_path / "t", key="id", buckets=2, progress=told.append)
    assert told == [50]


def test_data_without_rows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(EmptyTable):
        ss.stage(spark.range(0), tmp_path / "t", key="id", buckets=2)
    assert litter(tmp_path / "t") == set()
    table = ss.stage(spark.range(3), tmp_path / "t", key="id")
    with pytest.raises(EmptyTable):
        table.replace(spark.range(0))
    assert table.latest().version == 1


@pytest.mark.parametrize(
    ("columns", "key", "error", "message"),
    [
        ("1 k, interval '1' month odd", "k", UnsupportedType, "column 'odd' has type interval month"),
        ("1 k, make_interval(1) odd", "k", UnsupportedType, "column 'odd' has type interval"),
        ("array(1) k", "k", UnsupportedType, "key column 'k' has type list"),
        ("null k", "k", UnsupportedType, "key column 'k' has type null"),
        ("'a' collate UTF8_LCASE k", "k", UnsupportedType, "'k' has collation UTF8_LCASE"),
        ("1 k, 'a' collate UTF8_LCASE c", "k", UnsupportedType, "'c' has collation UTF8_LCASE, which a master table"),
        ("1 k, array('a' collate UNICODE_CI) c", "k", UnsupportedType, "'c' has collation UNICODE_CI"),
        ("1 k, 2 k", "k", SchemaMismatch, "'k' occurs more than once"),
        ("1 k", "j", UnknownColumn, "key column 'j'"),
    ],
)
def test_what_cannot_be_stored_is_named(
    spark: SparkSession, tmp_path: Path, columns: str, key: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ss.stage(spark.sql(f"select {columns}"), tmp_path / "t", key=key)


def test_wrong_kinds_of_data_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="streaming"):
        ss.stage(spark.readStream.format("rate").load(), tmp_path / "t", key="value")
    with pytest.raises(InvalidArgument, match="SparkSession cannot be staged"):
        ss.stage(spark, tmp_path / "t", key="value")
    table = ss.stage(spark.range(3), tmp_path / "t", key="id")
    with pytest.raises(TableExists):
        ss.stage(spark.range(3), tmp_path / "t", key="id")
    with pytest.raises(SchemaMismatch, match="'id' has type string"):
        table.append(spark.sql("select 'a' id"))
    with LocalStore(str(tmp_path / "t")).writing(), pytest.raises(ConcurrentWrite, match="another writer"):
        table.append(spark.range(3))
