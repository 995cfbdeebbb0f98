"""Replays on a simulated clock, worked out by hand on an operator whose steps are known."""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument
from semistream.runtime.local import StepCost
from semistream.workloads.draws.bursts import Bursts
from tests.runtime.local.fake_operator import FakeOperator, batches, keys


def _run(op: FakeOperator, sizes: tuple[int, ...], rate: float, cost_s: float) -> ss.Replay:
    replay = ss.Replay(op, batches(*sizes), rate, step_cost_s=lambda step: cost_s)
    assert keys(iter(replay)) == list(range(sum(sizes)))
    assert op.closed == 1
    return replay


@pytest.mark.parametrize("sizes", [(5,), (1, 1, 1, 1, 1), (2, 0, 3)])
def test_tuples_that_arrive_during_a_step_wait_for_its_end(sizes: tuple[int, ...]) -> None:
    """Arrivals at 0 1 2 3 4; steps 0-2 (tuple 0), 2-4 (1, 2), 4-6 (3, 4): 2 + 3 + 2 + 3 + 2 s in the system."""
    op = FakeOperator()
    replay = _run(op, sizes, rate=1, cost_s=2.0)
    assert replay.now_s == replay.busy_s == 6.0
    assert replay.utilisation == 1.0
    assert replay.longest_wait_s == 1.0
    assert replay.mean_time_in_system_s == pytest.approx(12 / 5)
    assert op.metrics.steps == 3


def test_the_clock_moves_to_the_next_arrival_when_nothing_is_pending() -> None:
    """Arrivals at 0 2 4, each answered in half a second."""
    replay = _run(FakeOperator(), (3,), rate=0.5, cost_s=0.5)
    assert replay.now_s == 4.5
    assert replay.busy_s == 1.5
    assert replay.utilisation == pytest.approx(1 / 3)
    assert replay.longest_wait_s == 0.0
    assert replay.mean_time_in_system_s == pytest.approx(0.5)


def test_tuples_count_as_in_the_system_over_all_the_steps_they_take() -> None:
    """Arrivals at 0 0.25 0.5, one answered per second: 1 + 1.75 + 2.5 s in the system."""
    replay = _run(FakeOperator(per_step=1), (3,), rate=4, cost_s=1.0)
    assert replay.now_s == 3.0
    assert replay.longest_wait_s == 0.75
    assert replay.mean_time_in_system_s == pytest.approx(5.25 / 3)


def test_a_full_buffer_makes_tuples_wait_longer_outside_and_no_longer_in_all() -> None:
    """As before, but the third tuple gets into the buffer at 2 s instead of 1 s."""
    op = FakeOperator(capacity=1, per_step=1)
    replay = _run(op, (3,), rate=4, cost_s=1.0)
    assert replay.now_s == 3.0
    assert replay.longest_wait_s == 1.5
    assert replay.mean_time_in_system_s == pytest.approx(5.25 / 3)


def test_steps_are_costed_by_the_counters_around_them() -> None:
    seen: list[StepCost] = []

    def cost_s(step: StepCost) -> float:
        seen.append(step)
        return 10.0 * (step.after.tuples_answered - step.before.tuples_answered)

    op = FakeOperator(per_step=2)
    replay = ss.Replay(op, batches(5), rate=1000.0, step_cost_s=cost_s)
    assert len(keys(iter(replay))) == 5
    assert [step.after.tuples_answered for step in seen] == [1, 3, 5]
    assert [step.before.tuples_answered for step in seen] == [0, 1, 3]
    assert all(step.elapsed_s >= 0 for step in seen)
    assert replay.busy_s == 50.0


def test_steps_are_measured_by_default() -> None:
    replay = ss.Replay(FakeOperator(), batches(3), rate=1e9)
    assert keys(iter(replay)) == [0, 1, 2]
    assert 0 < replay.busy_s <= replay.now_s


def test_nothing_is_offered_before_it_arrives() -> None:
    op = FakeOperator()
    _run(op, (100,), rate=10, cost_s=1.05)
    # Ten intervals and a half: step n begins at 1.05 n, when floor(10.5 n) + 1 tuples have arrived.
    arrived = [min(100, math.floor(10.5 * step) + 1) for step in range(11)]
    assert op.offered == [arrived[0], *(b - a for a, b in pairwise(arrived))]


def test_an_empty_stream_takes_no_time() -> None:
    for sizes in [(), (0,)]:
        replay = _run(FakeOperator(), sizes, rate=1, cost_s=1.0)
        assert replay.now_s == replay.busy_s == replay.utilisation == replay.mean_time_in_system_s == 0.0


def test_the_operator_is_closed_when_reading_stops_early_and_when_it_fails() -> None:
    op = FakeOperator()
    results = iter(ss.Replay(op, batches(5), rate=1e9, step_cost_s=lambda step: 1.0))
    next(results)
    results.close()
    assert op.closed == 1
    failing = FakeOperator(fail_at=0)
    with pytest.raises(ZeroDivisionError):
        list(ss.Replay(failing, batches(5), rate=1))
    assert failing.closed == 1


@pytest.mark.parametrize("rate", [0, -1, -0.5, math.nan, math.inf, -math.inf])
def test_a_rate_at_which_nothing_or_everything_arrives_is_an_error(rate: float) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ss.Replay(FakeOperator(), batches(1), rate=rate)
    assert str(caught.value).startswith(f"rate={rate} must be")


@pytest.mark.parametrize("rate", [1 / 3, 0.1, 7.0, 1e-9, 1e9])
def test_rounding_never_leaves_a_tuple_behind(rate: float) -> None:
    replay = _run(FakeOperator(capacity=3), (40, 1, 9), rate=rate, cost_s=0.1 / rate)
    assert replay.now_s >= 49 / rate


def test_a_replay_of_a_real_operator_gives_its_results(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"k": [0, 2, 4]}), tmp_path / "t", key="k")
    stream: list[Any] = batches(6)
    op = ss.operator("meshjoin", table, stream[0].schema, on="k", memory="1MB")
    replay = ss.Replay(op, stream, rate=1, step_cost_s=lambda step: 0.5)
    assert sorted(keys(iter(replay))) == [0, 2, 4]
    assert replay.now_s == 5.5
    assert replay.mean_time_in_system_s == pytest.approx(0.5)


class _WithWindow(FakeOperator):
    """Takes tuples out of the buffer a step before it answers them."""

    in_window = 0

    @property
    def buffered(self) -> int:
        return self.pending - self.in_window

    def step(self) -> Iterator[pa.RecordBatch]:
        self._per_step, self.in_window = self.in_window, self.pending - self.in_window
        return super().step()


def test_time_in_the_stream_buffer_is_waiting_and_the_rest_processing() -> None:
    """Arrivals at 0 1 2 3; a step of 2 s takes in what is there, the next one answers it.

    Tuple 0 is taken in at 0 and answered at 4, tuples 1 and 2 at 2 and 6, tuple 3 at 4 and 8.
    """
    replay = _run(_WithWindow(), (4,), rate=1, cost_s=2.0)
    assert replay.now_s == 8.0
    assert replay.mean_time_in_system_s == pytest.approx((4 + 5 + 4 + 5) / 4)
    assert replay.mean_waiting_s == pytest.approx((0 + 1 + 0 + 1) / 4)


def test_an_operator_that_does_not_tell_has_no_waiting_time() -> None:
    assert _run(FakeOperator(), (3,), rate=1, cost_s=1.0).mean_waiting_s is None


def test_means_can_begin_anew() -> None:
    """Each tuple is alone: what comes after the first has its own mean."""
    costs = iter([3.0, 0.25, 0.25, 0.25])
    replay = ss.Replay(FakeOperator(), batches(4), rate=0.1, step_cost_s=lambda step: next(costs))
    results = iter(replay)
    next(results)
    next(results)  # the step of the first tuple is over
    replay.forget()
    assert keys(results) == [2, 3]
    assert replay.tuples_counted == 2
    assert replay.mean_time_in_system_s == pytest.approx(0.75 / 2)


class Given:
    """Arrivals at given times."""

    def __init__(self, *times: float) -> None:
        self._times = times

    def times_s(self, start: int, count: int) -> npt.NDArray[np.float64]:
        after = [math.inf] * count
        return np.array([*self._times[start : start + count], *after][:count])


def test_tuples_arrive_at_given_times() -> None:
    """Arrivals at 0 0 0.5 5; steps 0-1 (two tuples), 1-2 (one), 5-6 (one): 1 + 1 + 1.5 + 1 s in the system."""
    op = FakeOperator()
    replay = ss.Replay(op, batches(3, 1), Given(0.0, 0.0, 0.5, 5.0), step_cost_s=lambda step: 1.0)
    assert keys(iter(replay)) == [0, 1, 2, 3]
    assert (replay.now_s, replay.busy_s, replay.longest_wait_s) == (6.0, 3.0, 0.5)
    assert replay.mean_time_in_system_s == pytest.approx(4.5 / 4)


def test_what_has_arrived_and_finds_no_room_waits_outside() -> None:
    op = FakeOperator(capacity=2, per_step=1)
    waiting: list[int] = []

    def cost_s(step: StepCost) -> float:
        waiting.append(replay.waiting_outside)
        return 1.0

    replay = ss.Replay(op, batches(5), Given(0.0, 0.0, 0.0, 0.0, 2.5), cost_s)
    assert keys(iter(replay)) == [0, 1, 2, 3, 4]
    assert waiting == [2, 1, 0, 0, 0]


def test_bursts_are_replayed_at_their_own_times() -> None:
    bursts = Bursts(50, burstiness=0.6, period_s=20.0, seed=1)
    replay = ss.Replay(FakeOperator(), batches(300, 200), bursts, step_cost_s=lambda step: 0.0)
    assert keys(iter(replay)) == list(range(500))
    assert replay.now_s == pytest.approx(bursts.times_s(499, 1)[0])


@pytest.mark.parametrize("rate", [object(), "fast", None])
def test_arrivals_that_have_no_times(rate: Any) -> None:
    with pytest.raises(InvalidArgument, match="neither tuples per second nor has it times_s"):
        ss.Replay(FakeOperator(), [], rate)
