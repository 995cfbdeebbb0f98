"""The checks around every operator's calls, on the smallest operator there is."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.conditions import between
from semistream.core.contract import Operator
from semistream.core.errors import InvalidArgument, OperatorMisuse, SchemaMismatch, SnapshotMismatch
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.operators.driver import StepOperator
from semistream.operators.join import Join, JoinInputs, Part
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from tests.operators.inside import inside

STREAM = pa.schema([("k", pa.int64())])


class Waiting(Part):
    """Up to five numbers."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.closed = 0

    @property
    def pending(self) -> int:
        return len(self.numbers)

    @property
    def buffered(self) -> int:
        return len(self.numbers)

    def accept(self, batch: pa.RecordBatch) -> int:
        rows = batch.column("k").to_pylist()[: 5 - len(self.numbers)]
        self.numbers += rows
        return len(rows)

    def components(self) -> dict[str, int]:
        return {"queue": 8 * len(self.numbers)}

    def state(self, *, exact: bool) -> SavedState:
        return SavedState({"waiting": self.numbers})

    def set_state(self, saved: SavedState) -> None:
        self.numbers = saved.header["waiting"]

    def close(self) -> None:
        self.closed += 1

    def check(self) -> None:
        assert len(self.numbers) <= 5


class Echo(Join):
    """Returns what it was offered, two rows a step; fails on a negative key."""

    def __init__(self, inputs: JoinInputs) -> None:
        self._metrics = inputs.metrics
        self.stream = self.waiting = Waiting()
        self.parts = {"stream": self.waiting}

    def step(self) -> Iterator[pa.RecordBatch]:
        rows, self.waiting.numbers = self.waiting.numbers[:2], self.waiting.numbers[2:]
        yield pa.record_batch({"k": pa.array([], pa.int64())})
        for row in rows:
            if row < 0:
                raise ZeroDivisionError(row)
            yield pa.record_batch({"k": [row]})
        self._metrics.tuples_answered += len(rows)


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    rows = pa.table({"k": [1, 2], "low": [0, 0], "high": [9, None]})
    return ss.stage(rows, tmp_path / "t", key="k")


@pytest.fixture
def op(table: MasterTable) -> StepOperator:
    return _echo(table)


def _echo(table: MasterTable, **kwargs: Any) -> StepOperator:
    return StepOperator("echo", table, JoinSpec.resolve(STREAM, table.schema, "k", **kwargs), 1000, Echo)


def _batch(*keys: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys, pa.int64())})


def _keys(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [key for batch in batches for key in batch.column("k").to_pylist()]


def test_it_satisfies_the_contract(op: StepOperator) -> None:
    assert isinstance(op, Operator)


def test_counters_follow_offers_and_steps(op: StepOperator) -> None:
    assert op.offer(_batch(1, 2, 3, 4, 5, 6, 7)) == 5
    assert op.offer(_batch()) == 0
    assert op.memory().total_bytes == 40
    assert _keys(op.step()) == [1, 2]
    assert op.offer(_batch(6)) == 1
    metrics = op.metrics
    assert (metrics.tuples_in, metrics.offers_refused, metrics.steps, metrics.rows_out) == (6, 1, 1, 2)
    assert _keys(op.drain()) == [3, 4, 5, 6]
    assert (metrics.steps, metrics.rows_out, op.pending) == (3, 6, 0)


def test_a_step_with_nothing_pending_does_nothing(op: StepOperator) -> None:
    assert list(op.step()) == []
    assert list(op.drain()) == []
    assert op.metrics.steps == 0


def test_batches_without_rows_are_not_handed_out(op: StepOperator) -> None:
    op.offer(_batch(1, 2))
    assert all(batch.num_rows for batch in op.step())


def test_a_batch_of_another_schema_is_refused_and_counts_nothing(op: StepOperator) -> None:
    with pytest.raises(SchemaMismatch):
        op.offer(pa.record_batch({"k": ["text"]}))
    assert op.metrics.tuples_in == op.pending == 0


@pytest.mark.parametrize("value", [None, 5, [1], pa.table({"k": [1]})])
def test_what_is_no_batch_is_an_error_with_the_remedy(op: StepOperator, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a stream batch of type \w+ is none: give a pyarrow.RecordBatch"):
        op.offer(value)
    assert op.metrics.tuples_in == op.pending == 0


@pytest.mark.parametrize("call", ["offer", "step", "snapshot", "restore", "drain"])
def test_results_have_to_be_read_to_their_end(op: StepOperator, call: str) -> None:
    op.offer(_batch(1, 2, 3))
    results = op.step()
    next(results)
    with pytest.raises(OperatorMisuse, match=rf"{call}\(\) before the results of the last step\(\) were read"):
        _call(op, call)
    assert _keys(results) == [2]
    assert _keys(op.drain()) == [3]


@pytest.mark.parametrize("call", ["offer", "step", "snapshot", "restore", "drain"])
def test_an_operator_that_failed_is_done_for(op: StepOperator, call: str) -> None:
    op.offer(_batch(-1, 2))
    with pytest.raises(ZeroDivisionError):
        list(op.step())
    with pytest.raises(OperatorMisuse, match=rf"{call}\(\) on an operator that failed: restore"):
        _call(op, call)
    op.close()


@pytest.mark.parametrize("begun", [False, True])
def test_results_of_a_closed_operator_cannot_be_read(op: StepOperator, begun: bool) -> None:
    op.offer(_batch(1, 2))
    results = op.step()
    if begun:
        next(results)
    op.close()
    with pytest.raises(OperatorMisuse, match=r"step\(\) on a closed operator: make a new one"):
        next(results)


@pytest.mark.parametrize("call", ["offer", "step", "snapshot", "restore", "drain"])
def test_a_closed_operator_is_done_for(op: StepOperator, call: str) -> None:
    with op:
        op.offer(_batch(1))
    op.close()
    assert inside(op).waiting.closed == 1
    with pytest.raises(OperatorMisuse, match=rf"{call}\(\) on a closed operator: make a new one"):
        _call(op, call)


def _call(op: StepOperator, call: str) -> None:
    if call == "offer":
        op.offer(_batch(1))
    elif call == "restore":
        op.restore(b"")
    elif call == "drain":
        list(op.drain())
    else:
        getattr(op, call)()


def test_a_snapshot_goes_on_where_it_was_taken(table: MasterTable, op: StepOperator) -> None:
    op.offer(_batch(1, 2, 3))
    list(op.step())
    other = _echo(table)
    other.restore(op.snapshot())
    assert other.pending == 1
    assert _keys(other.drain()) == [3]


def test_an_operator_that_has_worked_takes_no_snapshot(table: MasterTable, op: StepOperator) -> None:
    snapshot = op.snapshot()
    op.offer(_batch(1))
    for _ in range(2):
        with pytest.raises(OperatorMisuse, match="nothing yet: make a new one"):
            op.restore(snapshot)
        list(op.drain())


@pytest.mark.parametrize(
    "other",
    [
        {"how": "left"},
        {"columns": ["low"]},
        {"condition": between("k", "low", "high")},
        {"condition": between("k", "low", "high", closed="low", null_is_open=True)},
    ],
    ids=str,
)
def test_a_snapshot_of_another_join_is_refused(table: MasterTable, other: dict[str, Any]) -> None:
    snapshot = _echo(table, **other).snapshot()
    ours = {"condition": between("k", "low", "high", closed="low")} if "condition" in other else {}
    with pytest.raises(SnapshotMismatch, match=r"the snapshot has \w+ .*, this operator .*: restore into"):
        _echo(table, **ours).restore(snapshot)


def test_a_snapshot_of_another_table_or_version_is_refused(table: MasterTable, tmp_path: Path) -> None:
    snapshot = _echo(table).snapshot()
    appended = table.append(pa.table({"k": [3], "low": [1], "high": [2]}))
    copy = ss.stage(pa.table({"k": [1, 2], "low": [0, 0], "high": [9, None]}), tmp_path / "copy", key="k")
    for other, what in ((appended, "version"), (copy, "table")):
        with pytest.raises(SnapshotMismatch, match=f"the snapshot has {what} "):
            _echo(other).restore(snapshot)


@pytest.mark.parametrize("value", [None, "t", 5], ids=repr)
def test_what_is_no_snapshot_and_no_table_is_an_error_with_the_remedy(op: StepOperator, value: Any) -> None:
    with pytest.raises(InvalidArgument, match="pass what snapshot"):
        op.restore(value)
    with pytest.raises(InvalidArgument, match="is no table: pass what open_table"):
        op.move_to(value)
    assert op.offer(_batch(1)) == 1  # and nothing has changed


@pytest.mark.parametrize("algorithm_name", ss.algorithm_names())
def test_the_memory_of_a_join_comes_free_at_once(tmp_path: Path, algorithm_name: str) -> None:
    """Also without the collector of cycles, which does not know how much memory hangs on one."""
    layout = algorithm(algorithm_name).layouts[0]
    first = ss.stage(pa.table({"k": range(500)}), tmp_path / "t", key="k", layout=layout, page_bytes=512)
    op = ss.operator(algorithm_name, first, STREAM, on="k", memory="400KB")
    gc.disable()
    try:
        op.offer(_batch(*range(50)))
        list(op.drain())
        old = weakref.ref(op.join)
        op.move_to(first.append(pa.table({"k": [7]})))
        assert old() is None, "the join with the old version is gone"
        new = weakref.ref(op.join)
        op.close()
        del op
        assert new() is None
    finally:
        gc.enable()


def test_a_snapshot_does_not_go_on_in_another_version_of_the_same_number(tmp_path: Path) -> None:
    """As after a restore from a backup: tuples would be answered by rows of both."""
    rows = pa.table({"k": range(400), "v": ["first"] * 400})
    table = ss.stage(rows, tmp_path / "t", key="k", page_bytes=1024)
    first = table.replace(rows)
    stream = pa.record_batch({"k": [number % 400 for number in range(500)]})
    op = ss.operator("meshjoin", first, stream.schema, on="k", memory=100_000)
    op.offer(stream)
    list(op.step())
    snapshot = op.snapshot()
    op.close()
    (tmp_path / "t" / "versions" / f"{2:020d}.json").unlink()
    second = table.replace(rows.set_column(1, "v", pa.array(["second"] * 400)))
    other = ss.operator("meshjoin", second, stream.schema, on="k", memory=100_000)
    with pytest.raises(ss.errors.SnapshotMismatch, match="version_id"):
        other.restore(snapshot)
    other.close()
