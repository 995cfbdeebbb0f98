"""Joins of streaming DataFrames: micro-batches, restarts, replays, and versions published in between."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from semistream.storage import MasterTable
from semistream.testing.oracle import Row, multiset
from tests.runtime.spark.join.joins import MEMORY, customers, expected, orders, staged, write_files


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Orders in four files: two micro-batches."""
    write_files(orders(), tmp_path / "orders", files=4)
    return tmp_path / "orders"


def _stream(spark: SparkSession, source: Path) -> DataFrame:
    schema = spark.read.parquet(str(source)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(source))


def _run(joined: DataFrame, folder: Path, sink: Callable[[DataFrame, int], None] | None = None) -> StreamingQuery:
    """Run to the end of what is there, into Parquet files unless a sink is given."""
    writer = joined.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer = writer.format("parquet").option("path", str(folder / "out")) if sink is None else writer.foreachBatch(sink)
    query = writer.start()
    query.awaitTermination()
    return query


def _written(folder: Path) -> "Counter[Row]":
    rows = pq.read_table(folder / "out")
    for position, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):  # Spark writes instants without saying so
            instants = rows.column(position).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
            rows = rows.set_column(position, column.name, instants)
    return multiset(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize(
    ("layout", "how"), [("heap", "left"), pytest.param("clustered", "inner", marks=pytest.mark.slow)]
)
def test_micro_batches_a_restart_and_the_metrics_of_each(
    spark: SparkSession, tmp_path: Path, source: Path, layout: str, how: str
) -> None:
    table = staged(tmp_path, layout)

    def run() -> StreamingQuery:
        joined = ss.join(_stream(spark, source), table.path, "custkey", how, memory=MEMORY, name="enriched")  # type: ignore[arg-type]
        return _run(joined, tmp_path)

    first = run()
    assert _written(tmp_path) == expected(orders(), customers(), how)
    more = orders(300, seed=5)
    write_files(more, source, files=2, prefix="more")
    second = run()
    assert first.id == second.id
    everything = pa.concat_tables([orders(), more])
    assert _written(tmp_path) == expected(everything, customers(), how)
    found = [
        (ss.JoinMetrics.from_progress(progress), progress["numInputRows"])
        for query in (first, second)
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]
    assert [metrics.batch_id for metrics, _ in found if metrics] == [0, 1, 2]
    for metrics, rows in found:
        assert metrics is not None
        assert metrics.name == "enriched"
        assert metrics.tuples_in == metrics.tuples_answered == rows
        assert metrics.pending == 0
        assert metrics.hits + metrics.misses == rows - metrics.null_keys
        assert metrics.version == 1
        assert 0 < metrics.memory_bytes <= metrics.budget_bytes
        assert sum(metrics.memory.values()) >= metrics.memory_bytes
    assert sum(metrics.rows_out for metrics, _ in found if metrics) == sum(_written(tmp_path).values())
    assert sum(metrics.null_keys for metrics, _ in found if metrics) == everything.column("custkey").null_count
    latest = ss.metrics(second)
    assert latest == found[-1][0]


class _SinkFailed(Exception):
    pass


def _names_by_batch(seen: dict[int, list[str]]) -> Callable[[DataFrame, int], None]:
    def sink(rows: DataFrame, batch: int) -> None:
        names = [row["name"] or "" for row in rows.select("name").where("name is not null").collect()]
        seen.setdefault(batch, []).append(names[0].split("customer")[0].strip() or "first")

    return sink


def test_a_replayed_batch_keeps_its_version_and_the_next_one_sees_the_new(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    table = staged(tmp_path, "clustered", customers(marker="old "))
    seen: dict[int, list[str]] = {}
    note = _names_by_batch(seen)

    def failing(rows: DataFrame, batch: int) -> None:
        note(rows, batch)
        table.latest().replace(customers(marker="new "))
        raise _SinkFailed("the sink is full")

    def joined() -> DataFrame:
        return ss.join(_stream(spark, source), table.path, "custkey", memory=MEMORY)

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        _run(joined(), tmp_path, failing)
    assert seen == {0: ["old"]}
    # Whatever runs the batch again, driver and version of the plan included, meets the version it began with.
    assert ss.open_table(table.path).version == 2
    query = _run(joined(), tmp_path, note)
    assert seen == {0: ["old", "old"], 1: ["new"]}
    versions = [metrics.version for p in query.recentProgress if (metrics := ss.JoinMetrics.from_progress(p))]
    assert versions[:2] == [1, 2]


@pytest.mark.parametrize(("refresh", "second"), [("batch", "new"), ("never", "old")])
def test_a_new_version_is_used_from_the_next_micro_batch_on_or_never(
    spark: SparkSession, tmp_path: Path, source: Path, refresh: Any, second: str
) -> None:
    table = staged(tmp_path, "heap", customers(marker="old "))
    seen: dict[int, list[str]] = {}
    note = _names_by_batch(seen)

    def publishing(rows: DataFrame, batch: int) -> None:
        note(rows, batch)
        if batch == 0:
            table.latest().replace(customers(marker="new "))
            note(rows, batch)  # the same batch, computed again

    _run(ss.join(_stream(spark, source), table, "custkey", memory=MEMORY, refresh=refresh), tmp_path, publishing)
    assert seen == {0: ["old", "old"], 1: [second]}
    assert (Path(table.path) / "_pins").exists() == (refresh == "batch")


def test_a_table_that_cannot_be_written_needs_another_place_for_pins(
    spark: SparkSession, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = staged(tmp_path, "clustered")
    (Path(table.path) / "_pins").write_text("no folder can be made here")

    def joined(**arguments: Any) -> DataFrame:
        return ss.join(_stream(spark, source), table, "custkey", "semi", memory=MEMORY, **arguments)

    with pytest.raises(StreamingQueryException, match=r"PinFailed: cannot write .*pins=, or use refresh='never'"):
        _run(joined(), tmp_path)
    monkeypatch.chdir(tmp_path)  # workers are in another folder: a relative path is the driver's
    query = _run(joined(pins="elsewhere"), tmp_path)
    assert _written(tmp_path) == expected(orders(), customers(), "semi")
    assert sorted(path.name for path in (tmp_path / "elsewhere").glob(f"{table.table_id}/_pins/{query.id}/*")) == [
        "0",
        "1",
    ]


def _damage_newest(table: MasterTable) -> None:
    table.replace(customers(marker="new "))
    manifest = Path(table.path) / "versions" / f"{2:020d}.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])


def _damage_page(table: MasterTable) -> None:
    path = Path(table.path) / table.pages.files[0].path
    raw = bytearray(path.read_bytes())
    raw[int(table.pages.offset[0]) + 200] ^= 0xFF
    path.write_bytes(raw)


def _remove(table: MasterTable) -> None:
    table.store.remove("")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_damage_newest, r"DamagedTable: .*0002\.json (is not a table manifest|has been altered)"),
        pytest.param(
            _damage_page, r"DamagedTable: on executor .*: page 0 of .* has been altered", marks=pytest.mark.slow
        ),
        pytest.param(_remove, r"TableNotFound: on executor .*: there is no master table at ", marks=pytest.mark.slow),
    ],
    ids=["newest version", "page", "folder"],
)
def test_what_goes_wrong_while_it_runs_is_one_clear_line_and_nothing_is_written(
    spark: SparkSession,
    tmp_path: Path,
    source: Path,
    damage: Callable[[MasterTable], None],
    message: str,
) -> None:
    table = staged(tmp_path, "clustered")
    joined = ss.join(_stream(spark, source), table, "custkey", memory=MEMORY)
    damage(table)
    with pytest.raises(StreamingQueryException, match=rf"semistream\.core\.errors\.{message}"):
        _run(joined, tmp_path)
    assert not list((tmp_path / "out").glob("_spark_metadata/0"))


def test_a_watermark_goes_through_the_join(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    table = staged(tmp_path, "clustered")
    late = ss.join(_stream(spark, source).withWatermark("at", "1 minute"), table, "custkey", "left", memory=MEMORY)
    counted = late.groupBy("at").count()
    query = _run(counted, tmp_path)
    assert any(int(progress["numInputRows"]) for progress in query.recentProgress)
    assert sum(row[1] for row in _written(tmp_path).elements()) > 0


def test_two_joins_in_one_streaming_query_have_metrics_of_their_own(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    table = staged(tmp_path, "clustered")
    first = ss.join(_stream(spark, source), table, "custkey", "left", columns=["name"], memory=MEMORY, name="names")
    both = ss.join(first, table, "custkey", "semi", memory=MEMORY, name="known")
    query = _run(both, tmp_path)
    names, known = ss.metrics(query, "names"), ss.metrics(query, "known")
    assert names is not None
    assert known is not None
    assert known.tuples_in == names.rows_out
    with pytest.raises(ss.SemistreamError, match=r"several joins: give name= as one of '(names|known)'"):
        ss.metrics(query)
