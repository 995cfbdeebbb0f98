"""Operators that a Python worker keeps between tasks, and the task function, without Spark."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import DamagedTable
from semistream.runtime.spark.join import batch
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
