"""What is chosen goes where the cost model says, and follows what comes; times are those of a clock made for it."""

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt
from typing import Any

import pytest

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.metadata.cost_choice import CostChoice, Goal, LineCost, Settings, Standing
from semistream.stream_joins.metadata.scheduling import StreamOrder
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA, batch

_NOTHING = Standing(0, 0, 0, 0)


def _settled(choice: CostChoice, now: Standing) -> Settings:
    """Return what is chosen in the end: runs become longer by and by."""
    for _ in range(20):
        chosen = choice.choose(now)
    return chosen


class _Machine:
    """Work that takes what it is told to take."""

    def __init__(self, goal: Goal) -> None:
        self.now_s = 0.0
        self.choice = CostChoice(goal, lambda: self.now_s)

    def work(self, seconds: float) -> Iterator[None]:
        self.now_s += seconds
        yield None

    def run(self, costs: tuple[float, float, float, float], *, punctuations_to_tuple: float, garbage: float) -> None:
        run_s, tuple_s, purge_s, punctuation_s = costs
        for number in range(400):
            tuples = 50 + number * 7919 % 3000
            punctuations = int(tuples * punctuations_to_tuple)
            for _ in self.choice.timed_run(self.work(run_s + tuple_s * tuples)):
                self.now_s += 1.0  # whoever takes the results may take his time
            self.choice.observe_run(tuples, punctuations)
            for _ in self.choice.timed_purge(self.work(purge_s + punctuation_s * punctuations), punctuations):
                self.now_s += 1.0
            self.choice.observe_purge(punctuations, int(punctuations * garbage))


@pytest.mark.parametrize("slower", [0.01, 1.0, 30.0])
def test_costs_are_told_apart_on_any_machine(slower: float) -> None:
    cost = LineCost(1e-4, 1e-6)
    cost.observe(10, 1e6)  # something else ran meanwhile
    for number in range(600):
        elements = number * 7919 % 5000
        cost.observe(elements, slower * (7e-4 + 2e-7 * elements))
    assert cost.fixed_s == pytest.approx(slower * 7e-4, rel=0.2)
    assert cost.per_element_s == pytest.approx(slower * 2e-7, rel=0.2)


def test_for_the_output_fixed_costs_become_a_small_share() -> None:
    machine = _Machine("output")
    machine.run((1e-4, 1e-6, 3e-4, 1e-6), punctuations_to_tuple=0.2, garbage=2.0)
    chosen = _settled(machine.choice, Standing(100_000, 50_000, 0, 0))
    assert chosen.run_rows == pytest.approx(50 * 1e-4 / 1.2e-6, rel=0.15)
    assert chosen.purge_every == pytest.approx(50 * 0.2 * 3e-4 / 1.2e-6, rel=0.15)
    assert not chosen.by_value
    waiting = _settled(machine.choice, Standing(100_000, 50_000, 0, 10_000))
    assert waiting.purge_every > 3 * chosen.purge_every, "a purge looks at all punctuations that wait, and is dearer"


def test_for_the_memory_little_waits_to_be_purged() -> None:
    machine = _Machine("memory")
    machine.run((1e-4, 1e-6, 1e-4, 1e-6), punctuations_to_tuple=0.2, garbage=2.0)
    large = _settled(machine.choice, Standing(100_000, 0, 0, 0))
    assert large.purge_every * 2.0 <= 100_000 / 30
    assert large.run_rows <= 100_000 / 15
    small = _settled(machine.choice, _NOTHING)
    assert small.run_rows == pytest.approx(2e-4 / (4 * 1.2e-6), rel=0.15), "fixed costs are four times the others"


def test_for_the_propagation_a_run_is_the_square_root_of_what_waits() -> None:
    machine = _Machine("propagation")
    machine.run((1e-4, 1e-6, 1e-4, 1e-6), punctuations_to_tuple=0.2, garbage=2.0)
    for queued in (100, 10_000):
        chosen = _settled(machine.choice, Standing(0, queued, 0, 0))
        assert chosen.run_rows == pytest.approx(sqrt(2 * queued * 2e-4 / 1.2e-6), rel=0.15)
        assert chosen.purge_every == 1
    assert _settled(machine.choice, Standing(0, 100, 0, 5000)).by_value
    assert not _settled(machine.choice, Standing(0, 100, 0, 0)).by_value


def test_the_choice_follows_when_rates_and_costs_change() -> None:
    machine = _Machine("output")
    machine.run((1e-4, 1e-6, 3e-4, 1e-6), punctuations_to_tuple=0.01, garbage=1.0)
    before = _settled(machine.choice, Standing(100_000, 0, 0, 0))
    machine.run((1e-3, 1e-6, 3e-4, 1e-6), punctuations_to_tuple=0.5, garbage=1.0)
    after = _settled(machine.choice, Standing(100_000, 0, 0, 0))
    assert after.run_rows == pytest.approx(50 * 1e-3 / 1.5e-6, rel=0.15)
    assert after.purge_every == pytest.approx(50 * 0.5 * 3e-4 / 1.5e-6, rel=0.15)
    assert after.run_rows > 5 * before.run_rows
    assert after.purge_every > 5 * before.purge_every


def _feed(op: Mjoin, steps: int, punctuation_every: int, first: int) -> list[tuple[int, int, int]]:
    """Offer tuples with punctuations, and return the counts of rows, steps and purges after every step."""
    seen = []
    for step in range(steps):
        start = first + step * 600
        keys = list(range(start, start + 600))
        marks: list[tuple[int, int | None, int | None]] = [
            (at, start + at - 1, start + at - 1) for at in range(punctuation_every, 600, punctuation_every)
        ]
        for side in (LEFT, RIGHT):
            assert op.offer(side, batch(side, keys, start, marks)) == 600
        while op.queued(LEFT) + op.queued(RIGHT) > 300:
            rows = sum(result.rows.num_rows for result in op.step())
            seen.append((rows, op.metrics.steps, op.metrics.purges))
    return seen


@pytest.mark.parametrize("goal", ["output", "memory", "propagation"])
def test_without_a_clock_a_replay_from_a_snapshot_does_the_same(goal: Any) -> None:
    def make() -> Mjoin:
        return Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, goal=goal, clock=None)

    op, again = make(), make()
    _feed(op, 6, 20, 0)
    again.restore(op.snapshot())
    assert _feed(op, 6, 5, 10_000) == _feed(again, 6, 5, 10_000)


def test_a_join_purges_rarely_or_often_by_its_goal() -> None:
    goals: list[Goal] = ["output", "memory", "propagation"]
    purges = {}
    for goal in goals:
        op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, goal=goal, clock=None)
        purges[goal] = _feed(op, 20, 3, 0)[-1][2]
    assert purges["output"] < purges["memory"] < purges["propagation"]


def test_the_memory_is_kept_small_by_whose_turn_it_is() -> None:
    """The left stream comes first, but for the memory its tuples had better wait in the queue."""
    held = {}
    orders: list[StreamOrder] = ["priority", "chosen"]
    for order in orders:
        op = Mjoin(
            LEFT_SCHEMA,
            RIGHT_SCHEMA,
            "key",
            4 << 20,
            relation="one-to-many",
            goal="memory",
            stream_order=order,
            quota=50,
            purge_every=1,
        )
        op.offer(LEFT, batch(LEFT, list(range(2000)), 0, []))
        keys = [number // 10 for number in range(2000)]
        op.offer(RIGHT, batch(RIGHT, keys, 0, [(at, at // 10 - 1, at // 10 - 1) for at in range(10, 2001, 10)]))
        counts = []
        while op.queued(RIGHT):
            list(op.step())
            counts.append(sum(len(window) for window in op.state.windows))
        held[order] = max(counts)
    assert held["chosen"] <= 110 < 1500 < held["priority"]


def test_no_stream_waits_for_ever() -> None:
    """Right tuples always gain more rows, but left ones come to their turn."""
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, quota=10, clock=None)
    op.offer(LEFT, batch(LEFT, [1] * 10 + list(range(100, 3000)), 0, []))
    op.offer(RIGHT, batch(RIGHT, [1] * 3000, 0, []))
    taken = [0]
    while op.metrics.right_in < 2000:
        list(op.step())
        taken.append(op.metrics.left_in)
    assert all(before <= after for before, after in pairwise(taken))
    assert op.metrics.left_in >= 50


def test_the_clock_is_not_asked_when_nothing_is_chosen() -> None:
    def forbidden() -> float:
        raise AssertionError("nothing is chosen")

    op = Mjoin(
        LEFT_SCHEMA,
        RIGHT_SCHEMA,
        "key",
        4 << 20,
        stream_order="priority",
        tuple_order="value",
        quota=10,
        purge_every=2,
        clock=forbidden,
    )
    op.offer(LEFT, batch(LEFT, [1, 2, 3], 0, [(1, 1, 1), (3, 2, 3)]))
    results: list[PunctuatedBatch] = list(op.finish())
    assert sum(len(result.marks) for result in results) >= 2
