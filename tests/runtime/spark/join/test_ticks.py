"""When the tick source ticks, what a tick says, and how blobs travel; without a Spark session."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)
from pyspark.sql.streaming.datasource import ReadAllAvailable

import semistream as ss
from semistream.core.errors import BudgetTooSmall, DamagedTable, InvalidArgument, PinFailed, SnapshotMismatch
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import TICK_PART, Epoch, PendingMarks, Tick, TickReader
from semistream.runtime.spark.stateful import packing
from semistream.runtime.spark.stateful.packing import BlobOrder
from semistream.runtime.spark.stateful.turns import state_keys
from tests.runtime.spark.join.staggered_cases import STREAM, make_plan, master, staged, stream_rows

Offset = dict[str, Any]


@pytest.fixture
def plan(tmp_path: Path) -> JoinPlan:
    return make_plan(staged(tmp_path / "table", "ssbj"), "ssbj")


def reader_of(plan: JoinPlan, *, available_now: bool = True) -> TickReader:
    reader = TickReader(plan)
    reader._looks_always = available_now  # without a wait between two looks
    return reader


def next_offset(reader: TickReader, start: Offset) -> Offset:
    return reader.latestOffset(start, ReadAllAvailable())


def marks_of(plan: JoinPlan, offset: Offset) -> PendingMarks:
    return PendingMarks(plan.table.store, offset["marks"])


def test_the_first_batch_ticks_for_every_bucket(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    start = reader.initialOffset()
    end = next_offset(reader, start)
    (partition,) = reader.partitions(start, end)
    rows = list(reader.read(partition))
    assert [row[:3] for row in rows] == [(key, TICK_PART, 1) for key in state_keys(2)]
    assert all(Tick.from_bytes(row[3]).epoch == Epoch.of(plan, 1, plan.table.version_id) for row in rows)


def test_it_ticks_while_tuples_are_pending_and_only_then(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    assert next_offset(reader, offset) != offset, "nobody has said that nothing is pending"
    marks = marks_of(plan, offset)
    marks.update(0, 0, pending=3)
    marks.update(1, 0, pending=0)
    assert next_offset(reader, offset)["number"] == offset["number"] + 1
    marks.update(0, 1, pending=0)
    assert next_offset(reader, offset) == offset
    assert reader.partitions(offset, offset) == []


def test_a_restarted_query_ticks_once_when_in_doubt(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    marks_of(plan, offset).update(0, 0, pending=0)
    assert next_offset(reader, offset) == offset
    restarted = reader_of(plan)
    again = next_offset(restarted, offset)
    assert again["number"] == offset["number"] + 1
    assert next_offset(restarted, again) == again


def test_a_late_task_does_not_remove_the_mark_of_a_later_batch(plan: JoinPlan) -> None:
    marks = PendingMarks(plan.table.store, "query")
    marks.update(0, 5, pending=9)
    marks.update(0, 4, pending=0)
    assert marks.any()
    marks.update(1, 6, pending=0)
    assert marks.any(), "another bucket's mark is not its own"
    marks.update(0, 6, pending=0)
    assert not marks.any()


def test_marks_of_queries_are_apart(plan: JoinPlan) -> None:
    one, other = reader_of(plan).initialOffset(), reader_of(plan).initialOffset()
    marks_of(plan, one).update(0, 0, pending=1)
    marks_of(plan, other).update(0, 0, pending=0)
    assert marks_of(plan, one).any()
    assert not marks_of(plan, other).any()


def test_a_new_version_and_new_settings_tick(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    marks_of(plan, offset).update(0, 0, pending=0)
    plan.table.replace(master(tag="town"))
    newer = next_offset(reader, offset)
    assert newer["epoch"]["version"] == 2
    assert next_offset(reader, newer) == newer
    larger = reader_of(dataclasses.replace(plan, task_bytes=2_000_000))
    assert next_offset(larger, newer)["epoch"]["task_bytes"] == 2_000_000


def test_a_number_given_twice_is_a_new_epoch(plan: JoinPlan) -> None:
    """As after a restore from a backup: the buckets would go on with the rows of the first."""
    plan.table.replace(master(tag="town"))
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    marks_of(plan, offset).update(0, 0, pending=0)
    assert offset["epoch"]["version"] == 2
    assert next_offset(reader, offset) == offset
    Path(plan.table.path, "versions", f"{2:020d}.json").unlink()
    again = plan.table.replace(master(tag="village"))
    newer = next_offset(reader, offset)
    assert newer["epoch"]["version"] == 2
    assert newer["epoch"]["version_id"] == again.version_id != offset["epoch"]["version_id"]


def test_a_replayed_batch_gets_the_tick_of_its_first_attempt(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    start = reader.initialOffset()
    end = next_offset(reader, start)
    second = plan.table.replace(master(tag="town"))
    restarted = reader_of(dataclasses.replace(plan, table=second, task_bytes=2_000_000))
    (first,), (again,) = reader.partitions(start, end), restarted.partitions(start, end)
    assert list(restarted.read(again)) == list(reader.read(first))
    assert Tick.from_bytes(again.value[1]).epoch == Epoch.of(plan, 1, plan.table.version_id)


def test_a_run_that_has_to_end_keeps_to_the_version_it_began_with(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    reader.prepareForTriggerAvailableNow()
    offset = next_offset(reader, reader.initialOffset())
    marks_of(plan, offset).update(0, 0, pending=0)
    plan.table.replace(master(tag="town"))
    assert next_offset(reader, offset) == offset
    assert next_offset(reader_of(plan), offset)["epoch"]["version"] == 2


def test_refresh_never_keeps_the_version_that_the_query_began_with(plan: JoinPlan) -> None:
    plan = dataclasses.replace(plan, refresh="never")
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    second = plan.table.replace(master(tag="town"))
    restarted = next_offset(reader_of(dataclasses.replace(plan, table=second)), offset)
    assert restarted["epoch"]["version"] == 1


def test_a_version_that_cannot_be_read_fails_before_any_batch_uses_it(plan: JoinPlan, tmp_path: Path) -> None:
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    plan.table.replace(master(tag="town"))
    manifest = tmp_path / "table" / "versions" / f"{2:020d}.json"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    with pytest.raises(DamagedTable, match="versions"):
        next_offset(reader, offset)


def test_a_version_that_needs_more_memory_fails_before_any_batch_uses_it(plan: JoinPlan) -> None:
    reader = reader_of(plan)
    offset = next_offset(reader, reader.initialOffset())
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "city": ["x", "y" * 4 * plan.task_bytes]})
    plan.table.replace(rows)
    with pytest.raises(BudgetTooSmall, match="which 2 tasks of an executor share, leaves each"):
        next_offset(reader, offset)
    enough = dataclasses.replace(plan, task_bytes=100 * plan.task_bytes)
    assert next_offset(reader_of(enough), offset)["epoch"]["version"] == 2


def test_marks_that_cannot_be_written_are_told(plan: JoinPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(plan.table.store), "publish", refuse)
    marks = PendingMarks(plan.query_files(), "query")
    with pytest.raises(
        PinFailed, match=r"_pending/query, which keeps .* \(Permission denied\): give a folder .* pins="
    ):
        marks.update(0, 0, pending=1)


def test_an_idle_query_does_not_list_folders_all_the_time(plan: JoinPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(plan, available_now=False)
    offset = next_offset(reader, reader.initialOffset())
    marks_of(plan, offset).update(0, 0, pending=0)
    looks: list[str] = []

    def look(marks: PendingMarks) -> bool:
        looks.append("at the folder")
        return False

    monkeypatch.setattr(PendingMarks, "any", look)
    for _ in range(50):
        assert next_offset(reader, offset) == offset
    assert 1 <= len(looks) < 10


def test_the_offset_of_another_join_is_refused(plan: JoinPlan, tmp_path: Path) -> None:
    offset = next_offset(reader := reader_of(plan), reader.initialOffset())
    other = reader_of(dataclasses.replace(plan, how="anti"))
    with pytest.raises(SnapshotMismatch, match="how 'inner', this one has 'anti'"):
        next_offset(other, offset)
    with pytest.raises(SnapshotMismatch, match="how 'inner', this one has 'anti'"):
        other.partitions(offset, offset)
    with pytest.raises(SnapshotMismatch, match=r"join with table '\w+', this one has '\w+'"):
        next_offset(reader_of(make_plan(staged(tmp_path / "other", "ssbj"), "ssbj")), offset)


def test_an_option_that_cannot_be_kept_is_refused(plan: JoinPlan) -> None:
    with pytest.raises(InvalidArgument, match=r"b=<object .* cannot be kept in a checkpoint"):
        Epoch.of(dataclasses.replace(plan, options={"b": object()}), 1, None)


# --- blobs ------------------------------------------------------------------------------------------------------------


def test_every_row_is_in_the_blob_of_its_bucket(tmp_path: Path) -> None:
    table = staged(tmp_path / "table", "ssbj", buckets=3)
    spec = make_plan(table, "ssbj").spec(table)
    batches = [stream_rows(500, seed) for seed in range(4)]
    part = 4
    blobs = list(packing.Bucketing(spec, table, part, 8_000, 2_000).blobs(batches))
    rows = {bucket: pa.Table.from_batches([], STREAM) for bucket in range(3)}
    for bucket, blob in blobs:
        assert blob.size < 3_000
        rows[bucket] = pa.concat_tables([rows[bucket], pa.Table.from_batches(packing.unpack([blob], STREAM))])
    assert sum(found.num_rows for found in rows.values()) == 2000
    for bucket, rows_of_bucket in rows.items():
        stored = set(ss_ids(table.bucket(bucket)))
        ids = [row for row in rows_of_bucket.column("id").to_pylist() if row is not None and row < 4000]
        assert set(ids) <= stored
        # Those with a NULL key go by their part of the stream, not by where it was cut.
        assert (rows_of_bucket.column("id").null_count > 0) == (bucket == part % 3)


def ss_ids(table: Any) -> list[int]:
    op = ss.operator("meshjoin", table, STREAM, on="id", how="semi", memory="2MB")
    every = pa.RecordBatch.from_arrays([pa.array(np.arange(4000)), pa.array(np.arange(4000))], schema=STREAM)
    return [row["id"] for batch in ss.run(op, [every]) for row in batch.to_pylist()]


def test_a_row_larger_than_a_blob_has_its_own() -> None:
    batch = pa.record_batch({"text": ["x" * 10, "y" * 5000, "z" * 10, "z"]})
    blobs = list(packing.pack([batch, batch], 1000))
    rows = [rows.column("text").to_pylist() for rows in packing.unpack(blobs, batch.schema)]
    assert [text for part in rows for text in part] == batch.column("text").to_pylist() * 2
    assert ["y" * 5000] in rows


def test_blobs_come_back_in_order_from_memory_and_from_disk() -> None:
    places = [(part, number) for part in range(5) for number in range(10)]
    mixed = random.Random(1).sample(places, len(places))
    order = BlobOrder(memory_bytes=150)
    for part, number in mixed:
        order.add(part, number, f"{part}-{number:04d}".encode())
    assert list(order) == [f"{part}-{number:04d}".encode() for part, number in places]
    order.close()


@pytest.mark.parametrize("partitions", [1, 2, 4, 8])
def test_buckets_spread_evenly_over_state_partitions(spark: SparkSession, partitions: int) -> None:
    keys = state_keys(8)
    assert len(set(keys)) == 8
    assert keys == state_keys(16)[:8], "a bucket's key does not depend on their number"
    frame = spark.createDataFrame([(key,) for key in keys], "key int")
    spread = frame.repartition(partitions, "key").groupBy(F.spark_partition_id().alias("p")).count().collect()
    assert sorted(row["count"] for row in spread) == [8 // partitions] * partitions


@pytest.mark.parametrize("content", [b"", b"\xff", b"5", b"{}", b'{"epoch": 5}', b'{"epoch": {"version": 1}}'])
def test_a_tick_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(SnapshotMismatch, match="start from a new checkpointLocation"):
        Tick.from_bytes(content)


@pytest.mark.parametrize("marks", ["", "..", "../x", "/tmp", "a/b", "\0", 5, None])
def test_marks_stay_in_their_folder(plan: JoinPlan, marks: Any) -> None:
    with pytest.raises(SnapshotMismatch, match="the checkpoint has its marks in"):
        PendingMarks(plan.table.store, marks)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("identity", 5),
        ("number", "1"),
        ("number", -1),
        ("marks", "../x"),
        ("epoch", 5),
        ("epoch", {"version": 1}),
    ],
)
def test_a_changed_offset_is_refused(plan: JoinPlan, field: str, value: object) -> None:
    start = reader_of(plan).initialOffset()
    sound = next_offset(reader_of(plan), start)
    with pytest.raises(SnapshotMismatch):
        next_offset(reader_of(plan), {**sound, field: value})
    with pytest.raises(SnapshotMismatch):
        reader_of(plan).partitions(start, {**sound, field: value})
    with pytest.raises(SnapshotMismatch):
        reader_of(plan).partitions(start, {name: sound[name] for name in sound if name != field})
