"""An operator that takes over an exact state goes on exactly like the one it was taken of, cache and all."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import OperatorMisuse, SnapshotMismatch
from semistream.core.saved_state import SavedState, pack_state, unpack_state
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from semistream.testing import cases
from tests.depth import examples

pytestmark = pytest.mark.parametrize("name", ss.algorithm_names())

MASTER_ROWS = 3000


@pytest.fixture
def table(name: str, tmp_path: Path) -> MasterTable:
    rows = pa.table({"id": list(range(MASTER_ROWS)), "city": [f"city {n}" for n in range(MASTER_ROWS)]})
    return ss.stage(rows, tmp_path / "master", key="id", layout=algorithm(name).layouts[0], page_bytes=1024)


def skewed(rows: int, seed: int) -> pa.RecordBatch:
    ids = np.random.default_rng(seed).zipf(1.3, rows) % (MASTER_ROWS + 50)
    return pa.record_batch({"id": ids, "note": [f"note {n}" for n in range(rows)]})


def make(name: str, table: MasterTable) -> StepOperator:
    op = ss.operator(name, table, skewed(1, 0).schema, on="id", how="left", memory="600KB")
    assert isinstance(op, StepOperator)
    return op


def taken_over(op: StepOperator, fresh: StepOperator) -> StepOperator:
    fresh.set_exact_state(unpack_state(pack_state(op.exact_state())))
    op.close()
    fresh.check()
    return fresh


def as_lists(batches: Iterator[pa.RecordBatch]) -> list[list[dict[str, object]]]:
    return [batch.to_pylist() for batch in batches]


def kept_bytes(op: StepOperator) -> dict[str, int]:
    """Return the memory report without the pages that a look-up keeps, which are no part of the state."""
    return {part: nbytes for part, nbytes in op.memory().components.items() if part != "buffer pool"}


def test_the_taker_answers_the_same_tuples_in_the_same_steps(name: str, table: MasterTable) -> None:
    steady, moving = make(name, table), make(name, table)
    rest = {id(op): skewed(1, 0).slice(1) for op in (steady, moving)}
    moves = 0
    for round_number in range(60):
        batch = skewed(400, round_number)
        moving_before = moving
        if round_number % 3 == 1:
            moving = taken_over(moving, make(name, table))
            rest[id(moving)] = rest[id(moving_before)]
            moves += 1
        accepted = []
        for op in (steady, moving):
            offered = pa.concat_batches([rest[id(op)], batch])
            accepted.append(op.offer(offered))
            rest[id(op)] = offered.slice(accepted[-1])
        assert accepted[0] == accepted[1]
        assert as_lists(steady.step()) == as_lists(moving.step())
        assert steady.pending == moving.pending
        assert kept_bytes(steady) == kept_bytes(moving)
    assert moves == 20
    front_stage = getattr(moving.join, "front_stage", None)
    assert front_stage is None or front_stage.num_keys > 0, "nothing was cached: the test shows too little"
    assert as_lists(steady.drain()) == as_lists(moving.drain())
    for op in (steady, moving):
        op.close()


@examples(0.2)
@given(data=st.data())
def test_any_join_is_the_same_when_taken_over_at_any_step(name: str, data: st.DataObject) -> None:
    case = dataclasses.replace(data.draw(cases(name)), order="any")
    random = data.draw(st.randoms(use_true_random=False))
    results: list[pa.RecordBatch] = []
    with case.staged() as table:
        op = case.operator(name, table)
        for batch in case.batches:
            taken = 0
            while True:
                if random.random() < 0.3:
                    op = taken_over(op, case.operator(name, table))
                taken += op.offer(batch.slice(taken))
                if taken == batch.num_rows:
                    break
                results.extend(op.step())
            results.extend(op.step())
        while op.pending:
            op = taken_over(op, case.operator(name, table))
            results.extend(op.step())
        op.close()
    case.check(results)


def test_the_taker_counts_from_zero(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.offer(skewed(50, 1))
    list(op.step())
    op = taken_over(op, make(name, table))
    assert not any(op.metrics.as_dict().values())
    list(op.drain())
    assert op.metrics.cycles <= 1
    op.close()


def test_only_an_operator_that_has_done_nothing_takes_a_state_over(name: str, table: MasterTable) -> None:
    op, busy = make(name, table), make(name, table)
    busy.offer(skewed(5, 1))
    with pytest.raises(OperatorMisuse, match="done nothing"):
        busy.set_exact_state(op.exact_state())
    op.close()
    busy.close()


def test_the_state_of_another_join_is_refused(name: str, table: MasterTable) -> None:
    op = make(name, table)
    other = ss.operator(name, table, skewed(1, 0).schema, on="id", how="left", memory="700KB")
    assert isinstance(other, StepOperator)
    with pytest.raises(SnapshotMismatch, match="the snapshot has memory 614400, this operator 716800"):
        other.set_exact_state(op.exact_state())
    with pytest.raises(SnapshotMismatch, match="the snapshot has operator None"):
        make(name, table).set_exact_state(SavedState(exact=True))
    op.close()
    other.close()


def test_state_that_lies_in_files_is_refused(name: str, table: MasterTable) -> None:
    op = ss.operator(name, table, skewed(1, 0).schema, on="id", memory="2MB", order="stream")
    assert isinstance(op, StepOperator)
    if op.identity().get("order") == "stream":
        with pytest.raises(OperatorMisuse, match="order='stream'"):
            op.exact_state()
    op.close()
