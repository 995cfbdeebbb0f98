"""Runs SSBJ step by step and looks at what it has cached."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.kernels.arrays import Int64s
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.switching import Phase
from semistream.operators.driver import StepOperator
from semistream.storage.files.row_sizes import batch_overhead_bytes
from tests.operators.inside import inside

Pair = tuple[int, int | None]

STREAM = pa.schema([("id", pa.int64()), ("number", pa.int64())])


def ssbj(table: ss.MasterTable, schema: pa.Schema = STREAM, memory: int | str = "1MB", **options: Any) -> StepOperator:
    """Return the operator for a join on ``id``, or on what the options say."""
    return ss.operator("ssbj", table, schema, memory=memory, **{"on": "id", **options})


def master_of(ids: Int64s) -> pa.Table:
    """Return master rows with these keys; ``row`` is the position of each."""
    return pa.table({"id": ids, "row": np.arange(ids.size)})


def stage_heap(path: Path, ids: Int64s, rows_per_page: int, **options: Any) -> ss.MasterTable:
    """Stage rows in their order, so many to a page."""
    master = master_of(ids)
    page_bytes = batch_overhead_bytes(master.schema) + 17 * rows_per_page
    return ss.stage(master, path, key="id", layout="heap", page_bytes=page_bytes, **options)


def stream_of(ids: Int64s, first_number: int = 0) -> pa.RecordBatch:
    """Return tuples with these keys; ``number`` is the position of each in the stream."""
    return pa.record_batch([pa.array(ids), pa.array(np.arange(ids.size) + first_number)], schema=STREAM)


def step(op: StepOperator) -> list[pa.RecordBatch]:
    """Run one step; the promise of memory and the invariants hold after it."""
    results = list(op.step())
    report = op.memory()
    assert report.total_bytes <= report.budget_bytes, str(report)
    op.check()
    return results


def feed(
    op: StepOperator,
    stream: pa.RecordBatch,
    tuples_per_step: int | None = None,
    after: Callable[[], None] | None = None,
) -> list[pa.RecordBatch]:
    """Offer a whole stream with one step after every offer, at most so many tuples in each."""
    results: list[pa.RecordBatch] = []
    taken = 0
    while taken < stream.num_rows:
        taken += op.offer(stream.slice(taken, tuples_per_step))
        results += step(op)
        if after is not None:
            after()
    return results


def finish(op: StepOperator) -> list[pa.RecordBatch]:
    """Step until nothing is pending."""
    results: list[pa.RecordBatch] = []
    while op.pending:
        results += step(op)
    return results


def pairs_of(results: list[pa.RecordBatch]) -> list[Pair]:
    """Return the (number, row) pairs of an inner or left join, sorted."""
    pairs = [(row["number"], row["row"]) for batch in results for row in batch.to_pylist()]
    return sorted(pairs, key=lambda pair: (pair[0], -1 if pair[1] is None else pair[1]))


def expected_pairs(stream_ids: Int64s, master_ids: Int64s, how: str = "inner") -> list[Pair]:
    """Return the (number, row) pairs that the join has to give, sorted."""
    rows_of: dict[int, list[int]] = {}
    for row, key in enumerate(master_ids.tolist()):
        rows_of.setdefault(key, []).append(row)
    nothing: list[int | None] = [None] if how == "left" else []
    return [(number, row) for number, key in enumerate(stream_ids.tolist()) for row in rows_of.get(key) or nothing]


def cached_keys(op: StepOperator) -> set[int]:
    """Return the codes of the cached keys: the keys themselves where they are integers."""
    cache = inside(op).front_stage.cache
    return set() if cache is None else set(cache.keys.codes_at(cache.keys.live_slots()).tolist())


def cached_rows(front_stage: FrontStage, column: str) -> dict[int, list[Any]]:
    """Return one column of the cached rows by key, sorted."""
    cache = front_stage.cache
    assert cache is not None
    found: dict[int, list[Any]] = {}
    for entry in cache.keys.live_slots().tolist():
        entries = np.array([entry], dtype=np.int32)
        count = int(cache.row_count(entries)[0])
        tuples, rows = np.empty(count + 1, dtype=np.int32), np.empty(count + 1, dtype=np.int32)
        _, filled = cache.pairs(np.zeros(1, dtype=np.int32), cache.first_rows(entries), 0, tuples, rows)
        code = int(cache.keys.codes_at(entries)[0])
        found[code] = sorted(cache.take(rows[:filled]).column(column).to_pylist())
    return found


def check_cached_sets_are_whole(op: StepOperator, master_ids: Int64s) -> None:
    """Assert that every cached key is there with all its rows and no other."""
    if inside(op).front_stage.cache is None:
        return
    for key, rows in cached_rows(inside(op).front_stage, "row").items():
        assert rows == np.flatnonzero(master_ids == key).tolist(), f"key {key}"


def step_until(op: StepOperator, state: Phase, offer: Callable[[], pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Offer and step until a scan in this state has begun, for as many as six scans."""
    results: list[pa.RecordBatch] = []
    for _ in range(6 * inside(op).plan.iterations_per_cycle + 1):
        if inside(op).switching.cycle and inside(op).switching.phase is state:
            return results
        batch = offer()
        assert op.offer(batch) == batch.num_rows
        results += step(op)
    raise AssertionError(f"{state} was not reached")


def inequality_of(op: StepOperator) -> InequalityPolicy:
    """Return the policy, once rows were measured."""
    policy = inside(op).front_stage.inequality
    assert isinstance(policy, InequalityPolicy)
    return policy


@contextmanager
def sizes(tuple_bytes: float, row_bytes: float, key_bytes: float) -> Iterator[None]:
    """Let the inequality of operators go by these sizes in place of the measured ones."""
    make = FrontStage._make_policy

    def make_with_sizes(self: FrontStage, *shapes: Any) -> Any:
        policy = make(self, *shapes)
        assert isinstance(policy, InequalityPolicy)
        policy._tuple_bytes, policy._row_bytes, policy._key_bytes = tuple_bytes, row_bytes, key_bytes
        return policy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrontStage, "_make_policy", make_with_sizes)
        yield
