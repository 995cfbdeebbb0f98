"""Every registered operator gives the rows of the naive join, however its work is cut up and interrupted."""

import dataclasses
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.operators.driver import StepOperator
from tests.conformance.cases import Case, cases, check_results
from tests.depth import examples

SETTINGS = examples(0.6)


def step(op: StepOperator) -> list[pa.RecordBatch]:
    """Run one step and check that the promise of memory holds after it."""
    results = list(op.step())
    check_invariants(op)
    return results


def check_invariants(op: StepOperator) -> None:
    report = op.memory()
    assert report.total_bytes <= report.budget_bytes
    op.check()


def drive(op: StepOperator, case: Case, draw: Any) -> list[pa.RecordBatch]:
    """Offer the stream with random numbers of steps in between, as a stream that bursts and pauses would."""
    results: list[pa.RecordBatch] = []
    for batch in case.batches:
        taken = op.offer(batch)
        while taken < batch.num_rows:
            results += step(op)
            taken += op.offer(batch.slice(taken))
        for _ in range(draw(st.integers(0, 4))):
            results += step(op)
    while op.pending:
        results += step(op)
    return results


@pytest.mark.parametrize("name", ss.algorithm_names())
class TestExactness:
    @SETTINGS
    @given(data=st.data())
    def test_results_and_counts_are_those_of_the_naive_join(self, name: str, data: st.DataObject) -> None:
        case = data.draw(cases(name))
        with case.staged() as table:
            op = case.operator(name, table)
            results = drive(op, case, data.draw)
            op.close()
        check_results(case, results)
        tuples = sum(batch.num_rows for batch in case.batches)
        assert op.metrics.tuples_in == op.metrics.tuples_answered == tuples
        assert op.metrics.rows_out == sum(batch.num_rows for batch in results)
        assert op.metrics.tuples_without_match == len(dataclasses.replace(case, how="anti").expected())

    @SETTINGS
    @given(data=st.data())
    def test_results_are_the_same_after_restoring_snapshots(self, name: str, data: st.DataObject) -> None:
        case = data.draw(cases(name))
        results: list[pa.RecordBatch] = []
        with case.staged() as table:
            op = case.operator(name, table)
            for batch in case.batches:
                taken = 0
                while True:
                    taken += op.offer(batch.slice(taken))
                    for _ in range(data.draw(st.integers(0, 3))):
                        results += step(op)
                    snapshot, pending = op.snapshot(), op.pending
                    op.close()
                    op = case.operator(name, table)
                    op.restore(snapshot)
                    check_invariants(op)
                    assert op.pending == pending
                    if taken == batch.num_rows:
                        break
                    results += step(op)
            while op.pending:
                results += step(op)
            op.close()
        check_results(case, results)
