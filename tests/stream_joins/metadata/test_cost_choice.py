"""What is chosen goes where the cost model says, and follows what comes."""

from itertools import pairwise
from math import sqrt
from typing import Any

import pytest

from semistream.stream_joins.metadata.cost_choice import CostChoice, Goal, Settings, Standing
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


def _observed(goal: Goal, *, punctuations_to_tuple: float, garbage: float) -> CostChoice:
    """Return a choice that has seen many runs and purges."""
    choice = CostChoice(goal, {})
    _observe(choice, punctuations_to_tuple, garbage)
    return choice


def _observe(choice: CostChoice, punctuations_to_tuple: float, garbage: float) -> None:
    for number in range(400):
        tuples = 50 + number * 7919 % 3000
        punctuations = int(tuples * punctuations_to_tuple)
        choice.observe_run(tuples, punctuations)
        choice.observe_purge(punctuations, int(punctuations * garbage))


def test_for_the_output_fixed_costs_become_a_small_share() -> None:
    choice = _observed("output", punctuations_to_tuple=0.2, garbage=2.0)
    chosen = _settled(choice, Standing(100_000, 50_000, 0, 0))
    assert chosen.run_rows == pytest.approx(50 * 1200 / 1.2, rel=0.05)
    assert chosen.purge_every == pytest.approx(50 * 0.2 * 600 / 1.2, rel=0.05)
    assert not chosen.by_value
    waiting = _settled(choice, Standing(100_000, 50_000, 0, 10_000))
    assert waiting.purge_every > 3 * chosen.purge_every, "a purge looks at all punctuations that wait, and is dearer"


def test_for_the_memory_little_waits_to_be_purged() -> None:
    choice = _observed("memory", punctuations_to_tuple=0.2, garbage=2.0)
    large = _settled(choice, Standing(100_000, 0, 0, 0))
    assert large.purge_every * 2.0 <= 100_000 / 30
    assert large.run_rows <= 100_000 / 15
    small = _settled(choice, _NOTHING)
    assert small.run_rows == pytest.approx(1800 / (4 * 1.2), rel=0.05), "fixed costs are four times the others"


def test_for_the_propagation_a_run_is_the_square_root_of_what_waits() -> None:
    choice = _observed("propagation", punctuations_to_tuple=0.2, garbage=2.0)
    for queued in (100, 10_000):
        chosen = _settled(choice, Standing(0, queued, 0, 0))
        assert chosen.run_rows == pytest.approx(sqrt(2 * queued * 1800 / 1.2), rel=0.05)
        assert chosen.purge_every == 1
    assert _settled(choice, Standing(0, 100, 0, 5000)).by_value
    assert not _settled(choice, Standing(0, 100, 0, 0)).by_value


def test_the_choice_follows_when_rates_change() -> None:
    choice = _observed("output", punctuations_to_tuple=0.01, garbage=1.0)
    before = _settled(choice, Standing(100_000, 0, 0, 0))
    _observe(choice, 0.5, 1.0)
    after = _settled(choice, Standing(100_000, 0, 0, 0))
    assert after.run_rows == pytest.approx(50 * 1200 / 1.5, rel=0.05)
    assert after.purge_every == pytest.approx(50 * 0.5 * 600 / 1.5, rel=0.05)
    assert after.run_rows < before.run_rows
    assert after.purge_every > 5 * before.purge_every


def test_what_is_given_is_not_chosen() -> None:
    choice = CostChoice("propagation", {"run_rows": 10, "by_value": False})
    chosen = _settled(choice, Standing(0, 100, 0, 5000))
    assert chosen == Settings(10, 1, False)
    assert choice.is_open
    assert not CostChoice("output", {"run_rows": 10, "purge_every": 3, "by_value": True}).is_open


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
def test_a_replay_from_a_snapshot_does_the_same(goal: Any) -> None:
    def make() -> Mjoin:
        return Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, goal=goal)

    op, again = make(), make()
    _feed(op, 6, 20, 0)
    again.restore(op.snapshot())
    assert _feed(op, 6, 5, 10_000) == _feed(again, 6, 5, 10_000)


def test_a_join_purges_rarely_or_often_by_its_goal() -> None:
    goals: list[Goal] = ["output", "memory", "propagation"]
    purges = {}
    for goal in goals:
        op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, goal=goal)
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


@pytest.mark.parametrize("goal", ["output", "memory"])
def test_no_stream_waits_for_ever(goal: Any) -> None:
    """Right tuples are never kept, and gain rows, but left ones come to their turn."""
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, goal=goal, quota=10)
    op.offer(LEFT, batch(LEFT, [1] * 10 + list(range(100, 3000)), 0, [(10, 1, 1)]))
    op.offer(RIGHT, batch(RIGHT, [1] * 3000, 0, []))
    taken = [0]
    while op.metrics.right_in < 2000:
        list(op.step())
        taken.append(op.metrics.left_in)
    assert all(before <= after for before, after in pairwise(taken))
    assert op.metrics.left_in >= 50
    if goal == "memory":
        assert op.metrics.left_in < 100, "right tuples go first as long as that may be"
