"""One micro-batch of a bucket after the other, without Spark: what leaves is a function of state and input."""

import copy
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import SnapshotMismatch, TableNotFound
from semistream.core.semantics import How
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.runtime.spark.join.bucket_turn import BucketState, BucketTurn
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import Epoch, Tick
from semistream.runtime.spark.stateful import chunks
from semistream.runtime.spark.stateful.chunks import ChunkFiles
from semistream.runtime.spark.stateful.packing import Bucketing, unpack
from semistream.storage import MasterTable
from tests.runtime.spark.join.staggered_cases import (
    MASTER_ROWS,
    STREAM,
    Answer,
    Chunks,
    answers_of,
    expected,
    make_plan,
    master,
    staged,
    stream_rows,
)


class Query:
    """All buckets of a join, from one micro-batch to the next."""

    def __init__(self, plan: JoinPlan, local: Path | None = None) -> None:
        self.plan = plan
        self.local = local
        self.stores = [Chunks() for _ in range(plan.table.buckets)]
        self.turns: list[BucketTurn] = []
        self._number = 0

    def tick(self, plan: JoinPlan | None = None) -> Tick:
        self.plan = plan or self.plan
        self._number += 1
        return Tick(
            number=self._number,
            epoch=Epoch.of(self.plan, self.plan.table.version, self.plan.table.version_id),
            marks="marks",
        )

    def batch(self, rows: pa.RecordBatch | None, tick: Tick | None = None) -> "Counter[Answer]":
        plan = self.plan
        blobs: list[list[pa.Buffer]] = [[] for _ in self.stores]
        for bucket, blob in Bucketing(plan.spec(plan.table), plan.table, 0, 1 << 20, 1 << 14).blobs(
            [rows] if rows else []
        ):
            blobs[bucket].append(blob)
        answers: Counter[Answer] = Counter()
        self.turns = []
        for bucket, store in enumerate(self.stores):
            if blobs[bucket] or tick:
                files = None if self.local is None else ChunkFiles(str(self.local / str(bucket)))
                turn = BucketTurn(plan, bucket, BucketState(store, plan.identity(), files))
                answers.update(answers_of(turn.run([tick] if tick else [], unpack(blobs[bucket], STREAM))))
                self.turns.append(turn)
        return answers

    @property
    def pending(self) -> int:
        headers = [BucketState(store, self.plan.identity()).header for store in self.stores]
        return sum(header.pending for header in headers if header)

    def drain(self) -> "Counter[Answer]":
        answers: Counter[Answer] = Counter()
        for _ in range(100):
            if not self.pending:
                return answers
            answers.update(self.batch(None, self.tick()))
        raise AssertionError(f"{self.pending} tuples never left")


@pytest.fixture
def table(name: str, tmp_path: Path) -> MasterTable:
    return staged(tmp_path / "master", name)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("name", ss.algorithm_names())
def test_all_rows_leave_once(name: str, table: MasterTable, how: How) -> None:
    query = Query(make_plan(table, name, how))
    batches = [stream_rows(300, seed) for seed in range(6)]
    answers = query.batch(None, query.tick())
    for batch in batches:
        answers.update(query.batch(batch))
    answers.update(query.drain())
    assert answers == expected(batches, how)


@pytest.mark.parametrize("name", ss.algorithm_names())
def test_a_replayed_batch_lets_the_same_rows_out(name: str, table: MasterTable) -> None:
    query = Query(make_plan(table, name))
    query.batch(None, query.tick())
    replays: list[Query] = []
    for seed in range(8):
        replays.append(copy.deepcopy(query))
        rows = stream_rows(300, seed)
        tick = query.tick() if seed % 3 == 0 else None
        left = query.batch(rows, tick)
        # The batch itself, and what comes after one that was replayed.
        for replay in replays[-3:]:
            assert replay.batch(rows, tick) == left
            assert replay.pending == query.pending


@pytest.mark.parametrize("name", ["meshjoin", "cmeshjoin", "ssbj"])
def test_a_pass_over_the_table_takes_the_batches_that_were_asked_for(name: str, table: MasterTable) -> None:
    query = Query(make_plan(table, name, "anti", cycle_batches=5))
    missing = pa.RecordBatch.from_arrays([pa.array([MASTER_ROWS + 1] * 20), pa.array(range(20))], schema=STREAM)
    answers = [query.batch(missing, query.tick())]
    while query.pending:
        answers.append(query.batch(None, query.tick()))
    assert [sum(rows.values()) for rows in answers] == [0, 0, 0, 0, 20]


@pytest.mark.parametrize("name", ["cmeshjoin", "ssbj"])
def test_hot_rows_leave_in_their_batch_while_a_pass_takes_many(name: str, table: MasterTable) -> None:
    query = Query(make_plan(table, name, cycle_batches=10))
    query.batch(None, query.tick())
    hot_shares = []
    for seed in range(45):
        random = np.random.default_rng(seed)
        ids = np.where(random.random(200) < 0.7, random.integers(0, 5, 200), random.integers(0, MASTER_ROWS, 200))
        numbers = np.arange(200) + 1000 * seed
        rows = pa.RecordBatch.from_arrays([pa.array(ids), pa.array(numbers)], schema=STREAM)
        left = query.batch(rows, query.tick())
        hot = set(numbers[ids < 5].tolist())
        hot_shares.append(sum(answer[1] in hot for answer in left) / len(hot))
    assert min(hot_shares[-5:]) == 1.0
    assert query.pending > 200, "the others still wait for the scan"


@pytest.mark.parametrize("name", ["cmeshjoin", "ssbj", "chybridjoin"])
def test_a_new_version_joins_only_what_comes_after_it(name: str, table: MasterTable) -> None:
    query = Query(make_plan(table, name, "left"))
    old, new = [stream_rows(300, seed) for seed in (1, 2)], [stream_rows(300, 3)]
    answers = query.batch(old[0], query.tick()) + query.batch(old[1])
    second = table.replace(master(tag="town"))
    answers += query.batch(new[0], query.tick(make_plan(second, name, "left")))
    answers += query.drain()
    assert answers == expected(old, "left") + expected(new, "left", "town")


def test_the_version_comes_from_the_tick_and_not_from_what_is_newest(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "cmeshjoin")
    query = Query(make_plan(table, "cmeshjoin"))
    tick = query.tick()
    query.plan = make_plan(table.replace(master(tag="town")), "cmeshjoin")  # a restart finds a newer version
    answers = query.batch(stream_rows(300, 1), tick) + query.batch(stream_rows(300, 2)) + query.drain()
    assert answers == expected([stream_rows(300, 1), stream_rows(300, 2)], tag="city")


def test_settings_change_between_two_batches(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "ssbj")
    query = Query(make_plan(table, "ssbj", "left"))
    batches = [stream_rows(300, seed) for seed in range(3)]
    answers = query.batch(batches[0], query.tick())
    answers += query.batch(batches[1], query.tick(make_plan(table, "ssbj", "left", task_bytes=3_000_000)))
    answers += query.batch(batches[2], query.tick(make_plan(table, "meshjoin", "left")))
    assert answers + query.drain() == expected(batches, "left")


@pytest.mark.parametrize("name", ["ssbj", "meshjoin", "cmeshjoin", "hybridjoin", "chybridjoin"])
def test_buckets_without_rows_go_from_batch_to_batch(name: str, tmp_path: Path) -> None:
    few = master().slice(0, 2)
    table = ss.stage(few, tmp_path / "master", key="id", layout=algorithm(name).layouts[0], buckets=4)
    assert min(table.bucket_bytes) == 0
    query = Query(make_plan(table, name, "left"))
    batches = [stream_rows(300, seed) for seed in range(4)]
    answers = query.batch(batches[0], query.tick())
    for batch in batches[1:]:
        answers += query.batch(batch)
    answers += query.drain()
    names = {row["id"]: row for row in few.to_pylist()}
    assert sum(answers.values()) == 1200
    assert sum(count for answer, count in answers.items() if answer[-1] is not None) == sum(
        key in names for batch in batches for key in batch.column("id").to_pylist()
    )


def test_a_batch_in_which_memory_falls_reports_what_it_was_allowed(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "ssbj", buckets=1)
    query = Query(make_plan(table, "ssbj", task_bytes=6_000_000))
    query.batch(stream_rows(300, 1), query.tick())
    query.batch(stream_rows(300, 2), query.tick(make_plan(table, "ssbj", task_bytes=600_000)))
    metrics = query.turns[0].metrics(partition=0)
    assert metrics.memory_bytes <= metrics.budget_bytes


def test_what_has_not_changed_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 1 << 12)
    table = staged(tmp_path / "master", "cmeshjoin", buckets=1)
    query = Query(make_plan(table, "cmeshjoin"))
    query.batch(stream_rows(2000, 1), query.tick())
    (store,) = query.stores
    whole, store.written_bytes = sum(map(len, store.content.values())), 0
    query.batch(stream_rows(20, 2))
    assert 0 < store.written_bytes < whole / 2
    store.written_bytes = 0
    query.drain()
    store.written_bytes = 0
    query.batch(None, query.tick())
    assert store.written_bytes == 0, "a bucket with nothing to do is left alone"


def test_chunks_come_from_files_where_these_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 1 << 14)
    table = staged(tmp_path / "master", "ssbj", buckets=1)
    query = Query(make_plan(table, "ssbj"), tmp_path / "local")
    batches = [stream_rows(300, seed) for seed in range(8)]
    folder = tmp_path / "local" / "0"

    def damage(number: int) -> None:
        for at, path in enumerate(sorted(folder.iterdir())):
            content = bytearray(path.read_bytes())
            if at % 3 == 0:
                path.unlink()
            elif at % 3 == 1:
                content[number % len(content)] ^= 1
                path.write_bytes(content)
            else:
                path.write_bytes(content[:-1])

    (store,) = query.stores
    answers = query.batch(batches[0], query.tick())
    for number, batch in enumerate(batches[1:]):
        store.read_chunks = 0
        if number % 2:
            damage(number)
            (folder / "left-by-another-time").write_bytes(b"x")
        answers += query.batch(batch)
        assert (store.read_chunks > 0) == bool(number % 2)
        assert {path.name for path in folder.iterdir()} == set(store.content)
    assert answers + query.drain() == expected(batches)


def test_a_disk_that_takes_no_files_does_not_matter(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "ssbj")
    (tmp_path / "local").write_bytes(b"a file where the folder would be")
    query = Query(make_plan(table, "ssbj"), tmp_path / "local")
    batches = [stream_rows(300, seed) for seed in range(3)]
    answers = query.batch(batches[0], query.tick())
    for batch in batches[1:]:
        answers += query.batch(batch)
    assert answers + query.drain() == expected(batches)


def test_memory_stays_within_the_share_of_a_task(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "ssbj", buckets=1)
    query = Query(make_plan(table, "ssbj", task_bytes=600_000))
    query.batch(None, query.tick())
    for seed in range(20):
        query.batch(stream_rows(500, seed))
        metrics = query.turns[0].metrics(partition=0)
        assert metrics.memory_bytes <= metrics.budget_bytes < 600_000
    assert metrics.counters["tuples_in"] == 500


def test_the_state_of_another_join_is_refused(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "meshjoin")
    query = Query(make_plan(table, "meshjoin"))
    query.batch(stream_rows(300, 1), query.tick())
    with pytest.raises(SnapshotMismatch, match=r"a join with how 'inner', this one has 'left'.*new checkpointLocation"):
        BucketState(query.stores[0], make_plan(table, "meshjoin", "left").identity())


def test_a_version_that_was_removed_fails_the_batch(tmp_path: Path) -> None:
    table = staged(tmp_path / "master", "meshjoin")
    query = Query(make_plan(table, "meshjoin"))
    query.batch(stream_rows(300, 1), query.tick())
    second = table.replace(master(tag="town"))
    table.expire_versions()
    with pytest.raises(TableNotFound, match=r"version 1 of .* has been removed: keep more versions"):
        query.batch(None, query.tick(make_plan(second, "meshjoin")))


def test_memory_that_runs_out_in_a_step_is_no_fault_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_memory(_: StepOperator) -> None:
        raise MemoryError("Unable to allocate 3. GiB")

    table = staged(tmp_path / "master", "meshjoin")
    query = Query(make_plan(table, "meshjoin"))
    query.batch(stream_rows(300, 1), query.tick())
    monkeypatch.setattr(StepOperator, "step", without_memory)
    with pytest.raises(MemoryError, match=r"^Unable to allocate 3\. GiB$"):
        query.batch(stream_rows(300, 2))
