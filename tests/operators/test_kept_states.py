"""State outlives a release: what an earlier commit wrote is read, and no class or module is named in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import unpack_state
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.operators.kept_states import MASTER, STREAM, begun, join_of, kept, table_in

pytestmark = pytest.mark.parametrize("name", ss.algorithm_names())


def _rest_of_the_stream(op: StepOperator, taken: int) -> list[oracle.Row]:
    results: list[pa.RecordBatch] = []
    while taken < STREAM.num_rows:
        taken += op.offer(STREAM.slice(taken))
        results += op.step()
    return oracle.rows_of([*results, *op.drain()])


def _take_over(op: StepOperator, name: str, kind: str) -> None:
    if kind == "snapshot":
        op.restore(kept(name, kind))
    else:
        op.set_exact_state(unpack_state(kept(name, kind)))


@pytest.mark.parametrize("kind", ["snapshot", "exact"])
def test_a_state_of_an_earlier_commit_is_taken_over(tmp_path: Path, name: str, kind: str) -> None:
    table = table_in(tmp_path, name)
    with join_of(name, table) as first, join_of(name, table) as op:
        taken, before = begun(first)
        _take_over(op, name, kind)
        op.check()
        assert op.pending == first.pending > 0
        answered = oracle.rows_of(before) + _rest_of_the_stream(op, taken)
    expected = oracle.join([STREAM], MASTER, [("id", "id")], "left", master_columns=["name"])
    assert oracle.multiset(answered) == oracle.multiset(expected)


@contextmanager
def _renamed_classes(op: StepOperator) -> Iterator[None]:
    kinds: list[type] = [StepOperator, type(op.join), *map(type, op.join.parts.values())]
    before = [(kind, kind.__name__, kind.__qualname__, kind.__module__) for kind in kinds]
    try:
        for kind in kinds:
            kind.__name__, kind.__qualname__, kind.__module__ = "Another", "Another", "elsewhere"
        yield
    finally:
        for kind, name, qualname, module in before:
            kind.__name__, kind.__qualname__, kind.__module__ = name, qualname, module


@pytest.mark.parametrize("kind", ["snapshot", "exact"])
def test_a_state_survives_that_classes_are_renamed(tmp_path: Path, name: str, kind: str) -> None:
    with join_of(name, table_in(tmp_path, name)) as op, _renamed_classes(op):
        _take_over(op, name, kind)
        assert op.pending > 0
    assert b"semistream." not in kept(name, kind)


def test_a_state_that_lacks_a_part_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    saved = unpack_state(kept(name, "exact"))
    del saved.header["stream"]["buffer" if "buffer" in saved.header["stream"] else "next_number"]
    with join_of(name, table_in(tmp_path, name)) as op, pytest.raises(SnapshotMismatch, match=r"^[^\n]+$"):
        op.set_exact_state(saved)
