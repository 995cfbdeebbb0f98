"""Shed tuples belong to the operator's state: they are in its snapshots, and joined with the version they came for."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, SnapshotMismatch
from semistream.core.semantics import Order
from semistream.operators.driver import StepOperator
from semistream.operators.shedding.load_shedding import Strategy
from semistream.storage import MasterTable
from semistream.testing import oracle
from tests.depth import slow_unless
from tests.operators.inside import inside
from tests.operators.shedding.overloaded import (
    COMBINATIONS,
    LOAD,
    ONE_OF_EACH,
    STRATEGIES,
    check,
    check_rows,
    operator,
    shedding_of,
    step,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return LOAD.staged(tmp_path_factory.mktemp("snapshots"))


@pytest.mark.parametrize(
    ("name", "strategy", "order"),
    [slow_unless(combination in ONE_OF_EACH, *combination, "stream") for combination in COMBINATIONS]
    + [slow_unless(combination in ONE_OF_EACH[1:3], *combination, "any") for combination in ONE_OF_EACH],
)
def test_results_are_the_same_when_every_step_is_that_of_a_restored_operator(
    name: str, strategy: Strategy, order: Order, table: MasterTable, tmp_path: Path
) -> None:
    def made() -> StepOperator:
        shedding = ss.SheddingConfig(strategy=strategy, spool_bytes="1MB", directory=tmp_path)
        return operator(name, table, LOAD.stream.schema, shedding, how="semi", order=order)

    op = made()
    results: list[pa.RecordBatch] = []
    taken = carried = shed = reloaded = 0
    while taken < LOAD.stream.num_rows or shedding_of(op).tuples_inside > 20:
        snapshot, pending, inside = op.snapshot(), op.pending, shedding_of(op).tuples_inside
        carried = max(carried, inside)
        op.close()
        op = made()
        op.restore(snapshot)
        assert (op.pending, shedding_of(op).tuples_inside) == (pending, inside)
        check(op, pending, inside)
        taken += op.offer(LOAD.stream.slice(taken, 150))
        results += step(op, pending, inside)
        shed += op.metrics.tuples_shed
        reloaded += op.metrics.tuples_reloaded
    assert carried > 40
    assert shed == reloaded + shedding_of(op).tuples_inside  # what each operator did itself
    results += list(op.drain())
    op.close()
    check_rows(results, LOAD.expected("semi"), order)
    assert list(tmp_path.iterdir()) == []


def _overloaded(
    name: str, strategy: Strategy, table: MasterTable, **settings: Any
) -> tuple[StepOperator, int, list[pa.RecordBatch]]:
    """Return an operator that has shed tuples, how many of the stream it took, and its results so far."""
    shedding = ss.SheddingConfig(strategy=strategy, spool_bytes="1MB")
    op = operator(name, table, LOAD.stream.schema, shedding, **settings)
    results: list[pa.RecordBatch] = []
    taken = 0
    while shedding_of(op).tuples_inside < 20:
        taken += op.offer(LOAD.stream.slice(taken))
        results += step(op)
    return op, taken, results


@pytest.mark.parametrize(("name", "strategy"), ONE_OF_EACH)
def test_a_snapshot_with_shed_tuples_needs_an_operator_that_keeps_them(
    name: str, strategy: Strategy, table: MasterTable
) -> None:
    op, _, _ = _overloaded(name, strategy, table)
    snapshot, inside = op.snapshot(), shedding_of(op).tuples_inside
    op.close()
    without = operator(name, table, LOAD.stream.schema, None)
    with pytest.raises(
        SnapshotMismatch, match=f"the snapshot has shedding '{strategy}', this operator None: restore .*options"
    ):
        without.restore(snapshot)
    dropping = operator(name, table, LOAD.stream.schema, ss.SheddingConfig(strategy=strategy, to="drop"))
    with pytest.raises(InvalidArgument, match=f"to='drop' would lose the {inside} shed tuples"):
        dropping.restore(snapshot)
    tiny = operator(name, table, LOAD.stream.schema, ss.SheddingConfig(strategy=strategy, spool_bytes=500))
    with pytest.raises(InvalidArgument, match=r"spool_bytes=500 is too small .*give at least the spool_bytes"):
        tiny.restore(snapshot)
    for other in (without, dropping, tiny):
        other.close()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_snapshot_without_shed_tuples_restores_where_they_would_be_dropped(name: str, table: MasterTable) -> None:
    shedding = ss.SheddingConfig(strategy="keep", spool_bytes="1MB")
    op = operator(name, table, LOAD.stream.schema, shedding, how="left")
    taken = op.offer(LOAD.stream.slice(0, 20))
    snapshot = op.snapshot()
    op.close()
    dropping = operator(name, table, LOAD.stream.schema, ss.SheddingConfig(strategy="keep", to="drop"), how="left")
    dropping.restore(snapshot)
    rows = oracle.rows_of(dropping.drain())
    dropping.close()
    assert oracle.multiset(rows) == oracle.multiset(row for row in LOAD.expected("left") if row[1] < taken)


@pytest.mark.parametrize("strategy", ["considering", "keep", "random"])
def test_counts_of_dropped_tuples_begin_anew_with_a_restored_operator(strategy: Strategy, table: MasterTable) -> None:
    shedding = ss.SheddingConfig(strategy=strategy, to="drop", seed=1)
    op = operator("hybridjoin", table, LOAD.stream.schema, shedding)
    taken = 0
    while not op.metrics.tuples_dropped:
        taken += op.offer(LOAD.stream.slice(taken))
        list(op.step())
    snapshot, pending = op.snapshot(), op.pending
    op.close()
    op = operator("hybridjoin", table, LOAD.stream.schema, shedding)
    op.restore(snapshot)
    assert op.offer(LOAD.stream.slice(taken, 5)) == 5
    list(op.step())
    assert op.metrics.tuples_answered + op.pending + op.metrics.tuples_dropped == pending + 5
    list(op.drain())
    assert op.metrics.shed_strategy == strategy
    assert op.metrics.dropped_share <= 1
    op.close()


# --- a new version of the table ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "strategy"), [slow_unless(combination in ONE_OF_EACH, *combination) for combination in COMBINATIONS]
)
def test_shed_tuples_are_joined_with_the_version_they_came_for(name: str, strategy: Strategy, tmp_path: Path) -> None:
    table = LOAD.staged(tmp_path)
    op, taken, results = _overloaded(name, strategy, table, how="left", order="stream")
    added = pa.table({"id": range(50), "row": range(9000, 9050), "label": ["new"] * 50})
    newer = table.append(added)
    op.move_to(newer)
    waited = 0
    while op.pending:
        assert op.table.version == table.version
        assert op.offer(LOAD.stream.slice(taken)) == 0
        waited += shedding_of(op).tuples_inside > 0
        results += list(op.step())
    assert waited > 0
    check_rows(results, [row for row in LOAD.expected("left") if row[1] < taken], "stream")
    assert op.table.version == newer.version
    shed_before = op.metrics.tuples_shed
    assert shed_before == op.metrics.tuples_reloaded

    again = LOAD.stream.slice(0, 900)  # overload on the new version, too
    results, taken = [], 0
    while taken < again.num_rows:
        taken += op.offer(again.slice(taken, 300))
        results += step(op)
    results += list(op.drain())
    check(op)
    op.close()
    assert op.metrics.tuples_shed == op.metrics.tuples_reloaded > shed_before
    both = pa.concat_tables([LOAD.master, added])
    expected = oracle.join([again], both, [("id", "id")], "left", None, ["row", "label"])
    check_rows(results, expected, "stream")


def test_a_move_waits_for_the_spool_when_nothing_else_is_pending(tmp_path: Path) -> None:
    """Tuples of one key are shed; when they come back, a step answers all that the buffer has room for."""
    table = LOAD.staged(tmp_path)
    op = operator("hybridjoin", table, LOAD.stream.schema, ss.SheddingConfig(strategy="keep"), how="left")
    taken = 0
    while op.metrics.tuples_shed == 0:  # a window that is full
        taken += op.offer(LOAD.stream.slice(taken))
        step(op)
    same = pa.concat_batches([LOAD.stream.slice(0, 1)] * 100)
    for _ in range(15):
        op.offer(same)
        step(op)
    newer = table.append(LOAD.master.slice(0, 1))
    op.move_to(newer)
    alone = 0
    while op.pending:
        assert op.table.version == table.version
        list(op.step())
        alone += inside(op).stream.pending == 0 < shedding_of(op).tuples_inside
    assert alone > 0
    assert op.table.version == newer.version
    assert op.metrics.tuples_answered == op.metrics.tuples_in
    op.close()
