"""A join that follows its arrival rate: same rows, memory up and down with the stream, nobody waits longer."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument
from semistream.cost.clock import DiskProfile
from semistream.runtime.local.self_tuning import SelfTuning, Tuned
from semistream.workloads.draws.bursts import Bursts
from tests.operators.inside import inside

ROWS = 20_000
BUDGET = 8 << 20


class Phases:
    """Rates one after the other, each for some seconds."""

    def __init__(self, *phases: tuple[float, float]) -> None:
        self.times: list[float] = []
        begin_s = 0.0
        for rate, seconds in phases:
            self.times += (begin_s + np.arange(int(rate * seconds)) / rate).tolist()
            begin_s += seconds

    def times_s(self, start: int, count: int) -> npt.NDArray[np.float64]:
        times = np.array(self.times[start : start + count])
        return np.concatenate([times, np.full(count - times.size, np.inf)])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    master = pa.table({"id": range(ROWS), "payload": ["p" * 40] * ROWS})
    path = tmp_path_factory.mktemp("self-tuning") / "r"
    return ss.stage(master, path, key="id", layout="heap", page_bytes="16KB")


@pytest.fixture(scope="module")
def disk(table: ss.MasterTable) -> DiskProfile:
    """On which a scan takes a second."""
    return DiskProfile("slow disk", seek_s=0.001, bytes_per_s=table.num_bytes)


def _stream(tuples: int, text_bytes: int = 0) -> list[pa.RecordBatch]:
    ids = np.arange(tuples) * 7 % ROWS
    columns: dict[str, Any] = {"id": ids, "number": np.arange(tuples)}
    if text_bytes:
        columns["text"] = ["t" * text_bytes] * tuples
    batch = pa.record_batch(columns)
    return [batch.slice(start, 1000) for start in range(0, tuples, 1000)]


class Run:
    """A replay with everything that was seen on the way."""

    def __init__(
        self, table: ss.MasterTable, disk: DiskProfile, arrivals: Any, tuples: int, text_bytes: int = 0, **options: Any
    ) -> None:
        stream = _stream(tuples, text_bytes)
        op = ss.operator("meshjoin", table, stream[0].schema, on="id", memory=options.pop("memory", BUDGET), **options)
        self.op = op
        self.changes: list[Tuned] = []
        self.seen: list[tuple[float, int, int]] = []
        self.tuning = ss.SelfTuning(op, disk, self.changes.append)

        def cost_s(step: Any) -> float:
            self.seen.append((self.replay.now_s, op.memory().total_bytes, self.replay.waiting_outside))
            assert op.memory().total_bytes <= op.budget_bytes
            return disk.work_s(step.before, step.after)

        self.replay = ss.Replay(op, stream, arrivals, cost_s, self.tuning)
        self.numbers = [number for batch in self.replay for number in batch.column("number").to_pylist()]

    def memory_between(self, begin_s: float, end_s: float) -> list[int]:
        return [held for at_s, held, _ in self.seen if begin_s <= at_s < end_s]


def test_memory_follows_the_rate_up_and_down(table: ss.MasterTable, disk: DiskProfile) -> None:
    phases = Phases((1000, 4), (16_000, 4), (1000, 4))
    run = Run(table, disk, phases, len(phases.times))
    assert sorted(run.numbers) == list(range(len(phases.times)))
    low, high, low_again = run.memory_between(2, 4), run.memory_between(6, 8), run.memory_between(10, 12)
    assert min(high) > 4 * max(low)
    assert max(low_again) < 1.1 * max(low)
    assert max(high) < BUDGET / 2, "it takes what the rate needs, not what it may"
    assert run.tuning.changes == len(run.changes) > 10


def test_a_fixed_join_with_a_tenth_less_does_not_keep_up(table: ss.MasterTable, disk: DiskProfile) -> None:
    phases = Phases((8000, 4))
    run = Run(table, disk, phases, len(phases.times))
    assert run.replay.longest_wait_s < 0.1
    held = max(run.memory_between(2, 4))
    assert _fixed_wait_s(table, disk, phases, held) < 0.1
    assert _fixed_wait_s(table, disk, phases, int(0.9 * held)) > 0.1


def _fixed_wait_s(table: ss.MasterTable, disk: DiskProfile, phases: Phases, memory: int) -> float:
    stream = _stream(len(phases.times))
    op = ss.operator("meshjoin", table, stream[0].schema, on="id", memory=memory, b=1, w=ROWS)
    replay = ss.Replay(op, stream, phases, lambda step: disk.work_s(step.before, step.after))
    for _ in replay:
        pass
    return replay.longest_wait_s


def test_tuples_of_a_burst_wait_for_a_few_iterations_at_most(table: ss.MasterTable, disk: DiskProfile) -> None:
    phases = Phases((500, 3), (20_000, 3), (500, 2), (20_000, 1), (500, 2))
    run = Run(table, disk, phases, len(phases.times))
    steps_s = [after[0] - before[0] for before, after in pairwise(run.seen)]
    assert run.replay.longest_wait_s <= 4 * max(steps_s)


def test_text_of_the_tuples_is_made_room_for(table: ss.MasterTable, disk: DiskProfile) -> None:
    """The model is not told of it: what the window holds shows it."""
    phases = Phases((4000, 6))
    run = Run(table, disk, phases, len(phases.times), text_bytes=200)
    assert sorted(run.numbers) == list(range(len(phases.times)))
    assert run.replay.longest_wait_s < 0.2
    assert all(outside == 0 for at_s, _, outside in run.seen if at_s > 2)


def test_output_in_stream_order_is_kept(table: ss.MasterTable, disk: DiskProfile) -> None:
    phases = Phases((500, 1), (8000, 1.5), (500, 2))
    run = Run(table, disk, phases, len(phases.times), order="stream")
    assert run.numbers == list(range(len(phases.times)))
    assert max(run.memory_between(4, 4.5)) < 0.6 * max(run.memory_between(2, 2.5))


def test_a_rate_that_no_memory_reaches_gets_the_whole_budget(table: ss.MasterTable, disk: DiskProfile) -> None:
    phases = Phases((60_000, 1))
    run = Run(table, disk, phases, len(phases.times), memory=1 << 20)
    assert sorted(run.numbers) == list(range(len(phases.times)))
    assert max(change.memory_bytes for change in run.changes) == 1 << 20


@pytest.mark.slow
def test_the_self_similar_stream_is_answered_exactly_and_alike_every_time(
    table: ss.MasterTable, disk: DiskProfile
) -> None:
    bursts = Bursts(4000, burstiness=0.6, period_s=12.0, seed=3)
    runs = [Run(table, disk, bursts, 20_000) for _ in range(2)]
    assert sorted(runs[0].numbers) == list(range(20_000))
    assert runs[0].changes == runs[1].changes
    held = [memory for _, memory, _ in runs[0].seen]
    assert np.mean(held) < 0.6 * max(held)


def test_a_snapshot_taken_while_tuning_goes_on_elsewhere(table: ss.MasterTable, disk: DiskProfile) -> None:
    stream = _stream(6000)
    op = ss.operator("meshjoin", table, stream[0].schema, on="id", memory=BUDGET)
    tuning = ss.SelfTuning(op, disk)
    numbers: list[int] = []
    accepted = 0
    for at, batch in enumerate(stream):
        while accepted < 1000 * (at + 1):
            accepted += op.offer(batch.slice(accepted - 1000 * at))
            tuning.observe(0.1 * at, 1000 * (at + 1))
            numbers += _numbers(op.step())
    assert op.pending > 0
    again = ss.operator("meshjoin", table, stream[0].schema, on="id", memory=BUDGET)
    again.restore(op.snapshot())
    op.close()
    tuning = ss.SelfTuning(again, disk)
    tuning.observe(5.0, 0)
    numbers += _numbers(again.drain())
    again.close()
    assert sorted(numbers) == list(range(6000))


def _numbers(batches: Any) -> Sequence[int]:
    return [number for batch in batches for number in batch.column("number").to_pylist()]


def test_run_tunes_by_the_time_of_this_machine(table: ss.MasterTable) -> None:
    stream = _stream(30_000)
    op = ss.operator("meshjoin", table, stream[0].schema, on="id", memory=BUDGET)
    tuning = SelfTuning(op, "hdd")
    assert sorted(_numbers(ss.run(op, stream, tuning))) == list(range(30_000))
    assert tuning.changes > 0


def test_another_version_of_the_table_is_followed(tmp_path: Path, disk: DiskProfile) -> None:
    master = pa.table({"id": range(2000)})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap", page_bytes="4KB")
    op = ss.operator("meshjoin", table, pa.schema([("id", pa.int64())]), on="id", memory=BUDGET)
    tuning = SelfTuning(op, disk)
    tuning.observe(0.0, 0)
    before = inside(op).memory_target_bytes
    assert before < BUDGET
    op.move_to(table.append(pa.table({"id": range(2000, 200_000)})))
    assert inside(op).memory_target_bytes == BUDGET
    tuning.observe(1.0, 0)
    assert before < inside(op).memory_target_bytes < BUDGET, "the index of a larger table takes more"
    op.close()


class TestBadInput:
    @pytest.mark.parametrize("clock", [None, 5])
    def test_a_clock_that_is_none(self, table: ss.MasterTable, clock: Any) -> None:
        op = ss.operator("meshjoin", table, pa.schema([("id", pa.int64())]), on="id", memory="4MB")
        with pytest.raises(InvalidArgument, match=f"clock={clock} is no clock: use one of machine, hdd, ssd, or"):
            SelfTuning(op, clock=clock)
        op.close()

    def test_an_operator_that_cannot_be_retuned(self, table: ss.MasterTable) -> None:
        op = ss.operator("cmeshjoin", table, pa.schema([("id", pa.int64())]), on="id", memory=BUDGET)
        with pytest.raises(InvalidArgument, match="cmeshjoin cannot be retuned while it runs: make the operator with"):
            ss.SelfTuning(op, "hdd")
        op.close()

    def test_an_operator_that_sheds(self, table: ss.MasterTable) -> None:
        schema = pa.schema([("id", pa.int64())])
        op = ss.operator("meshjoin", table, schema, on="id", memory=BUDGET, shedding="keep")
        with pytest.raises(InvalidArgument, match="sheds load keeps its memory: leave out"):
            ss.SelfTuning(op, "hdd")
        op.close()

    def test_a_tuning_of_another_operator(self, table: ss.MasterTable) -> None:
        schema = pa.schema([("id", pa.int64())])
        ours, other = (ss.operator("meshjoin", table, schema, on="id", memory=BUDGET) for _ in range(2))
        tuning = ss.SelfTuning(ours, "hdd")
        with pytest.raises(InvalidArgument, match="made for another operator"):
            ss.Replay(other, [], 1.0, tuning=tuning)
        with pytest.raises(InvalidArgument, match="made for another operator"):
            list(ss.run(other, [], tuning))
        ours.close()
        other.close()

    def test_an_unknown_clock(self, table: ss.MasterTable) -> None:
        op = ss.operator("meshjoin", table, pa.schema([("id", pa.int64())]), on="id", memory=BUDGET)
        with pytest.raises(InvalidArgument, match="clock='sundial' is unknown"):
            ss.SelfTuning(op, "sundial")
        op.close()
