"""Operators that a Python worker keeps between tasks, and the task function, without Spark."""

import os
import pickle
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import DamagedTable
from semistream.runtime.spark.join import batch, cache_folder
from semistream.runtime.spark.join.batch import join_task
from semistream.runtime.spark.join.operator_pool import WORKER_POOL, OperatorPool
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.metrics.join_metrics import METRICS_COLUMN
from semistream.storage import MasterTable

MB = 1 << 20
STREAM = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    rows = pa.table({"k": list(range(50)), "v": [f"row {n}" for n in range(50)]})
    return ss.stage(rows, tmp_path / "t", key="k", buckets=3)


def _plan(table: MasterTable, join_id: str = "a", megabytes: int = 4, kept: int = 1) -> JoinPlan:
    return JoinPlan(
        join_id=join_id,
        table=table,
        stream_schema=STREAM,
        on={"k": "k"},
        how="left",
        columns=None,
        algorithm="chybridjoin",
        task_bytes=megabytes * MB,
        slots=1,
        exchange="none",
        refresh="never",
        completion="batch",
        operators_kept=kept,
        output_schema=pa.schema([*STREAM, ("v", pa.string())]),
    )


def test_an_operator_is_found_again_by_join_version_and_bucket(table: MasterTable) -> None:
    pool = OperatorPool()
    plan = _plan(table, kept=2)
    with pool.borrowed(plan, table, 0) as first:
        pass
    with pool.borrowed(plan, table, 1) as other:
        assert other is not first
    with pool.borrowed(plan, table, 0) as again:
        assert again is first
    assert len(pool) == 2
    newer = table.append(pa.table({"k": [99], "v": ["new"]}))
    with pool.borrowed(plan, newer, 0) as op:
        assert op is not first
        assert op.table.version == 2
    assert len(pool) == 1, "operators of a version that went out of use are closed"
    pool.clear()
    assert len(pool) == 0


def test_a_number_given_twice_gets_another_operator(table: MasterTable, tmp_path: Path) -> None:
    """As after a restore from a backup: the operator of the first would answer from its cache."""
    pool, plan = OperatorPool(), _plan(table)
    second = table.append(pa.table({"k": [99], "v": ["first"]}))
    with pool.borrowed(plan, second, 0) as op:
        pass
    (tmp_path / "t" / "versions" / f"{2:020d}.json").unlink()
    again = table.append(pa.table({"k": [99], "v": ["second"]}))
    assert again.version == second.version
    with pool.borrowed(plan, again, 0) as other:
        assert other is not op
    pool.clear()


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Spark gives an executor, on a machine where processes share no memory."""
    local = tmp_path / "spark-local"
    local.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(local))
    monkeypatch.setattr(cache_folder, "_MEMORY", str(tmp_path / "no memory"))
    return local


def _sharing(table: MasterTable, join_id: str) -> JoinPlan:
    # Pages that stay in the page cache are used there, and leave the cache empty.
    options = {"io": "drop_behind"}
    return replace(_plan(table, join_id, megabytes=8), algorithm="sweepjoin", how="inner", options=options)


def _use(plan: JoinPlan, table: MasterTable) -> None:
    """Let a worker of its own look up all keys often enough to cache them."""
    pool = OperatorPool()
    for _ in range(4):
        with pool.borrowed(plan, table, None) as op:
            op.offer(pa.record_batch({"k": list(range(50)), "s": ["x"] * 50}, schema=STREAM))
            for _ in op.drain():
                pass
    pool.clear()


def test_what_workers_share_is_for_their_user_alone(table: MasterTable, executor: Path) -> None:
    before = os.umask(0)
    try:
        _use(_sharing(table, "a"), table)
    finally:
        os.umask(before)
    inside = list((executor / "semistream").rglob("*"))
    assert any(path.suffix == ".block" for path in inside)
    assert {path.stat().st_mode & 0o777 for path in inside if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in inside if path.is_dir()} == {0o700}


def test_rows_stay_off_the_disk_where_spark_encrypts_its_files(table: MasterTable, executor: Path) -> None:
    _use(replace(_sharing(table, "a"), may_write_rows=False), table)
    assert not list(executor.iterdir())


def test_caches_of_other_versions_and_of_joins_that_ended_go(table: MasterTable, executor: Path) -> None:
    def caches() -> set[str]:
        return {path.parent.name for path in (executor / "semistream").glob("*/version-*")}

    _use(_sharing(table, "a"), table)
    newer = table.append(pa.table({"k": [99], "v": ["new"]}))
    _use(_sharing(table, "a"), newer)
    assert [path.name for path in (executor / "semistream" / "a").iterdir()] == [f"version-{newer.version_id}"]
    _use(_sharing(table, "b"), table)
    assert caches() == {"a", "b"}
    an_hour_ago = time.time() - 3600
    os.utime(executor / "semistream" / "a", (an_hour_ago, an_hour_ago))
    _use(_sharing(table, "b"), newer)
    assert caches() == {"b"}

    minutes_ago = time.time() - 120
    (executor / "semistream" / "b" / "large").write_bytes(bytes(9 * MB))
    os.utime(executor / "semistream" / "b", (minutes_ago, minutes_ago))
    _use(_sharing(table, "c"), table)
    assert caches() == {"c"}, "more bytes than the join in use may have"


def test_a_table_that_is_missing_on_an_executor_names_the_host(table: MasterTable, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "t" / "data")
    batch = pa.record_batch({"k": [1], "s": ["x"]}, schema=STREAM)
    sent: MasterTable = pickle.loads(pickle.dumps(table))  # without its page index
    with pytest.raises(DamagedTable, match=rf"on executor {socket.gethostname()}: .* is missing"):
        list(join_task(_plan(sent), iter([batch])))


def test_all_operators_of_a_worker_stay_within_a_tasks_memory(table: MasterTable) -> None:
    pool = OperatorPool()
    large, small = _plan(table, "large", megabytes=8, kept=4), _plan(table, "small", megabytes=3)
    for bucket in (0, 1, 2, None):
        with pool.borrowed(large, table, bucket) as op:
            assert op.budget_bytes == 2 * MB
    assert len(pool) == 4
    with pool.borrowed(small, table, None):
        assert len(pool) == 0
    with pool.borrowed(large, table, 2):
        assert len(pool) == 1  # 3 MB of the other join and 2 of this one
    pool.clear()


def test_an_operator_that_failed_or_was_interrupted_is_closed(table: MasterTable) -> None:
    pool = OperatorPool()
    with pytest.raises(DamagedTable), pool.borrowed(_plan(table), table, None) as failed:
        raise DamagedTable("a page")
    with pytest.raises(ss.SemistreamError, match="closed operator"):
        failed.offer(pa.RecordBatch.from_pylist([], STREAM))

    def task() -> Iterator[int]:
        with pool.borrowed(_plan(table), table, None) as op:
            op.offer(pa.record_batch({"k": [1], "s": ["x"]}, schema=STREAM))
            yield 1

    running = task()
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert len(pool) == 0


def test_a_task_without_rows_reads_nothing_and_returns_nothing(
    table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "task_version", None)  # calling it would fail
    empty = pa.RecordBatch.from_pylist([], STREAM)
    assert list(join_task(_plan(table), iter([]))) == []
    assert list(join_task(_plan(table), iter([empty, empty]))) == []


def test_a_task_returns_the_declared_columns_and_one_row_of_metrics(table: MasterTable) -> None:
    batch = pa.record_batch({"k": [1, 200, 3], "s": pa.array(["x", None, "z"], pa.large_string())})
    *joined, last = join_task(_plan(table), iter([batch, batch]))
    for part in (*joined, last):
        assert part.schema.names == ["k", "s", "v", METRICS_COLUMN]
        assert part.schema.field("k").nullable is False
        assert part.schema.field("s").type == pa.string()
    assert sum(part.num_rows for part in joined) == 6
    assert all(part.column(METRICS_COLUMN).null_count == part.num_rows for part in joined)
    assert last.num_rows == 1
    assert '"tuples_in": 6' in last.column(METRICS_COLUMN)[0].as_py()
    WORKER_POOL.clear()


def test_rows_of_another_bucket_are_noticed(table: MasterTable) -> None:
    shuffled = replace(_plan(table), exchange="bucket")
    batch = pa.record_batch({"k": list(range(50)), "s": [None] * 50}, schema=STREAM)
    with pytest.raises(AssertionError, match="rows of several buckets"):
        list(join_task(shuffled, iter([batch])))
