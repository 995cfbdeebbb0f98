"""Every join moves to another version of its table between two tuples: each tuple meets exactly one version."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import BudgetTooSmall, OperatorMisuse, SchemaMismatch, SnapshotMismatch
from semistream.core.semantics import How
from semistream.operators.driver import StepOperator
from semistream.operators.registry import Algorithm, algorithm
from semistream.storage import MasterTable
from semistream.testing import oracle
from tests.depth import examples

# SSBJ needs scans to learn before it caches: `test_ssbj_joins.py` moves it to another version in each of its phases.
# The pages of a table that was just written are in memory: SWEEPJOIN uses them there, unless it reads from the disk.
_FROM_DISK = "sweepjoin from disk"
NAMES = [*(name for name in ss.algorithm_names() if name != "ssbj"), _FROM_DISK]
OLD = pa.table({"id": [n // 2 for n in range(400)], "v": [f"old {n}" for n in range(400)]})
MORE = pa.table({"id": [n % 250 for n in range(0, 300, 3)], "v": [f"more {n}" for n in range(100)]})
NEW = pa.table({"id": [n % 180 for n in range(360)], "v": [f"new {n}" for n in range(360)]})
SCHEMA = pa.schema([("id", pa.int64()), ("number", pa.int64())])

pytestmark = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def table(name: str, tmp_path: Path) -> MasterTable:
    return ss.stage(OLD, tmp_path / "r", key="id", layout=_algorithm(name).layouts[0], page_bytes=512)


def _algorithm(name: str) -> Algorithm:
    return algorithm(name.split()[0])


def make(name: str, table: MasterTable, memory: int = 400_000, **options: Any) -> StepOperator:
    options = {"io": "drop_behind", **options} if name == _FROM_DISK else options
    return ss.operator(name.split()[0], table, SCHEMA, on="id", memory=memory, **options)


def tuples(first: int, count: int = 60) -> pa.RecordBatch:
    return pa.record_batch({"id": [n * n % 260 for n in range(count)], "number": range(first, first + count)})


def expected(parts: Iterable[tuple[pa.RecordBatch, pa.Table]], how: How = "left") -> list[oracle.Row]:
    columns = ["v"] if how in ("inner", "left") else []
    return [row for batch, master in parts for row in oracle.join([batch], master, [("id", "id")], how, None, columns)]


class Watched:
    """Steps an operator and sees that no counter ever falls."""

    def __init__(self, op: StepOperator) -> None:
        self.op = op
        self.results: list[oracle.Row] = []
        self._before = op.metrics.as_dict()

    def check(self) -> None:
        now = self.op.metrics.as_dict()
        assert {name: value for name, value in now.items() if value < self._before[name]} == {}
        self._before = now
        assert now["tuples_in"] == now["tuples_answered"] + self.op.pending
        assert self.op.memory().total_bytes <= self.op.budget_bytes
        self.op.check()

    def step(self) -> None:
        self.results += oracle.rows_of(self.op.step())
        self.check()

    def drain(self) -> None:
        while self.op.pending:
            self.step()


def is_cached(name: str) -> bool:
    return name.startswith("c") or name == _FROM_DISK


def cached_keys(op: StepOperator) -> int:
    front_stage, cache = getattr(op.join, "front_stage", None), getattr(op.join, "cache", None)
    return sum(part.num_keys for part in (front_stage, cache) if part is not None)


@pytest.mark.parametrize("order", ["any", "stream"])
@pytest.mark.parametrize("change", ["append", "replace"])
def test_tuples_meet_the_version_they_were_offered_to(name: str, table: MasterTable, change: str, order: str) -> None:
    op = make(name, table, how="left", order=order)
    watched = Watched(op)
    first = pa.concat_batches([tuples(60 * n) for n in range(12)])
    for start in range(0, 720, 60):
        assert op.offer(first.slice(start, 60)) == 60
        watched.step()
    op.offer(tuples(720))
    assert op.pending
    newer = table.append(MORE) if change == "append" else table.replace(NEW)
    had_cached = cached_keys(op)
    assert had_cached or not is_cached(name)
    op.move_to(newer)
    assert op.table is table
    refused = op.metrics.offers_refused
    assert op.offer(tuples(780)) == 0  # until those before are answered
    assert op.metrics.offers_refused == refused + 1
    watched.drain()
    assert op.table is newer
    assert cached_keys(op) == 0
    late = pa.concat_batches([tuples(780 + 60 * n) for n in range(12)])
    for start in range(0, 720, 60):
        assert op.offer(late.slice(start, 60)) == 60
        watched.step()
    watched.drain()
    assert cached_keys(op) or not is_cached(name)
    newest = pa.concat_tables([OLD, MORE]) if change == "append" else NEW
    want = expected([(first, OLD), (tuples(720), OLD), (late, newest)])
    assert Counter(watched.results) == Counter(want)
    if order == "stream":
        assert [row[1] for row in watched.results] == [row[1] for row in want]
    op.close()


@examples(0.06)
@given(data=st.data())
def test_any_number_of_moves_at_any_step(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    layout = data.draw(st.sampled_from(_algorithm(name).layouts))
    versions = [ss.stage(OLD, tmp_path_factory.mktemp("r") / "r", key="id", layout=layout, page_bytes=512)]
    contents = [OLD]
    how: How = data.draw(st.sampled_from(["inner", "left", "semi", "anti"]))
    op = make(name, versions[0], how=how, order=data.draw(st.sampled_from(["any", "stream"])))
    watched = Watched(op)
    parts: list[tuple[pa.RecordBatch, pa.Table]] = []
    number = 0
    for _ in range(5):
        for _ in range(data.draw(st.integers(0, 3))):
            batch = tuples(number, data.draw(st.sampled_from([1, 40])))
            taken = op.offer(batch)
            parts.append((batch.slice(0, taken), contents[-1]))
            number += taken
            for _ in range(data.draw(st.integers(0, 3))):
                watched.step()
        if data.draw(st.booleans()):
            contents.append(pa.concat_tables([contents[-1], MORE]))
            versions.append(versions[-1].append(MORE))
        else:
            contents.append(NEW)
            versions.append(versions[-1].replace(NEW))
        op.move_to(versions[-1])
        watched.drain()
        assert op.table is versions[-1]
    op.close()
    assert Counter(watched.results) == Counter(expected(parts, how))


def test_the_last_of_several_moves_counts(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.offer(tuples(0))
    op.move_to(table.append(MORE))
    newest = table.replace(NEW)
    op.move_to(newest)
    rows = oracle.rows_of(op.drain())
    assert op.table is newest
    op.offer(tuples(60))
    rows += oracle.rows_of(op.drain())
    assert Counter(rows) == Counter(expected([(tuples(0), OLD), (tuples(60), NEW)], "inner"))
    op.close()


def test_an_idle_operator_moves_at_once(name: str, table: MasterTable) -> None:
    op = make(name, table)
    newer = table.replace(NEW)
    op.move_to(newer)
    assert op.table is newer
    op.offer(tuples(0))
    assert Counter(oracle.rows_of(op.drain())) == Counter(expected([(tuples(0), NEW)], "inner"))
    op.move_to(newer.append(MORE))
    op.move_to(table)  # an older version is one too
    op.offer(tuples(60))
    assert Counter(oracle.rows_of(op.drain())) == Counter(expected([(tuples(60), OLD)], "inner"))
    op.close()


def test_another_table_is_refused_and_nothing_changes(name: str, table: MasterTable, tmp_path: Path) -> None:
    layout = _algorithm(name).layouts[0]
    copy = ss.stage(OLD, tmp_path / "copy", key="id", layout=layout)
    other = ss.stage(OLD.append_column("more", OLD["id"]), tmp_path / "other", key="id", layout=layout)
    op = make(name, table)
    op.offer(tuples(0))
    for stranger in (copy, other):
        with pytest.raises(SchemaMismatch, match=r"is not a version of .* make a new operator") as caught:
            op.move_to(stranger)
        assert "\n" not in str(caught.value)
        assert str(stranger.path) in str(caught.value)
    assert op.offer(tuples(60)) == 60
    got = Counter(oracle.rows_of(op.drain()))
    assert got == Counter(expected([(tuples(0), OLD), (tuples(60), OLD)], "inner"))
    assert op.table is table
    op.close()


def test_other_columns_under_the_same_id_are_refused(
    name: str, table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = make(name, table)
    newer = table.append(MORE)
    with monkeypatch.context() as patch:
        patch.setattr(MasterTable, "schema", property(lambda self: SCHEMA if self is newer else OLD.schema))
        with pytest.raises(SchemaMismatch, match="with the same columns"):
            op.move_to(newer)
    op.close()


def test_a_move_that_is_pending_is_no_part_of_a_snapshot(name: str, table: MasterTable) -> None:
    """The snapshot is of the version that answers its tuples; the move is asked for again after restoring it."""
    newer = table.replace(NEW)
    op = make(name, table)
    op.offer(tuples(0))
    op.move_to(newer)
    snapshot = op.snapshot()
    op.close()
    wrong = make(name, newer)
    with pytest.raises(SnapshotMismatch, match="version 1, this operator 2"):
        wrong.restore(snapshot)
    wrong.close()
    restored = make(name, table)
    restored.restore(snapshot)
    assert restored.pending == 60
    assert restored.offer(tuples(60)) == 60  # it knows of no move
    restored.move_to(newer)
    rows = oracle.rows_of(restored.drain())
    restored.offer(tuples(120))
    rows += oracle.rows_of(restored.drain())
    restored.close()
    parts = [(tuples(0), OLD), (tuples(60), OLD), (tuples(120), NEW)]
    assert Counter(rows) == Counter(expected(parts, "inner"))


def test_after_a_move_snapshots_are_of_the_new_version(name: str, table: MasterTable) -> None:
    newer = table.replace(NEW)
    op = make(name, table, order="stream")
    op.offer(tuples(0))
    list(op.drain())
    op.move_to(newer)
    op.offer(tuples(60))
    rows = oracle.rows_of(op.step())
    restored = make(name, newer, order="stream")
    restored.restore(op.snapshot())
    op.close()
    rows += oracle.rows_of(restored.drain())
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert Counter(rows) == Counter(expected([(tuples(60), NEW)], "inner"))
    restored.close()


@pytest.mark.parametrize("pending", [True, False])
def test_a_version_beyond_the_budget_fails_after_all_answers_are_out(
    name: str, table: MasterTable, pending: bool
) -> None:
    files = len(os.listdir("/proc/self/fd"))
    op = make(name, table)
    op.offer(tuples(0))
    rows: list[oracle.Row] = []
    if not pending:
        rows += oracle.rows_of(op.drain())
    wide = table.replace(pa.table({"id": [1], "v": ["x" * 900_000]}))

    def go_on() -> None:
        op.move_to(wide)
        for batch in op.drain():
            rows.extend(oracle.rows_of([batch]))

    with pytest.raises(BudgetTooSmall, match=r"memory=400000 bytes is too small .* give at least"):
        go_on()
    assert Counter(rows) == Counter(expected([(tuples(0), OLD)], "inner"))
    assert (op.metrics.tuples_answered, op.metrics.tuples_in, op.metrics.rows_out) == (60, 60, len(rows))
    with pytest.raises(OperatorMisuse, match="failed"):
        op.offer(tuples(60))
    op.close()
    op.close()
    assert len(os.listdir("/proc/self/fd")) <= files


def test_shed_tuples_are_joined_with_the_version_they_came_before(name: str, table: MasterTable) -> None:
    if name not in ("meshjoin", "cmeshjoin"):
        pytest.skip("one join that sheds, with and without a cache, tells enough")
    op = make(name, table, how="left", shedding="keep", order="stream", b=1)
    watched = Watched(op)
    number = 0
    while op.metrics.tuples_shed == 0 and number < 90_000:
        while taken := op.offer(tuples(number, 900)):
            number += taken
        watched.step()
    assert op.metrics.tuples_shed > op.metrics.tuples_reloaded
    op.move_to(table.replace(NEW))
    watched.drain()
    late = tuples(number, 60)
    assert op.offer(late) == 60
    watched.drain()
    assert op.metrics.tuples_shed == op.metrics.tuples_reloaded
    got = Counter(row[1] for row in watched.results)
    assert set(got) == set(range(number + 60))
    assert [row[1] for row in watched.results] == sorted(row[1] for row in watched.results)
    assert {str(row[2])[:3] for row in watched.results if row[1] < number} == {"old", "Non"}
    assert Counter(row for row in watched.results if row[1] >= number) == Counter(expected([(late, NEW)]))
    op.close()


def test_results_have_to_be_read_before_a_move(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.offer(tuples(0))
    unread = op.step()
    with pytest.raises(OperatorMisuse, match=r"move_to\(\) before the results .* exhaust the iterator"):
        op.move_to(table)
    list(unread)
    op.close()
    with pytest.raises(OperatorMisuse, match="closed"):
        op.move_to(table)
