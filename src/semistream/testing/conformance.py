"""What every operator promises, as tests that a subclass runs for its algorithm."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.core.contract import Operator
from semistream.core.errors import (
    BudgetTooSmall,
    DamagedTable,
    OperatorMisuse,
    SchemaMismatch,
    SemistreamError,
    SnapshotMismatch,
)
from semistream.core.saved_state import SavedState, pack_state, unpack_state
from semistream.core.semantics import How, Order
from semistream.kernels.keys.key_codes import KeyCoder
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.runtime.local import operator, run
from semistream.storage import MasterTable, PageReader, ReadAhead, stage
from semistream.testing import oracle
from semistream.testing.cases import HOWS, Case, cases, long_rows, null_keys, odd_column_name, renamed_keys

__all__ = ["OperatorConformance", "fill_new_memory", "share_key_codes"]

MASTER = pa.table({"id": list(range(500)), "city": [f"city {n}" for n in range(500)]})
STREAM = pa.record_batch({"id": [n * 7 % 600 for n in range(300)], "amount": [float(n) for n in range(300)]})
MATCHING = sum(n * 7 % 600 < 500 for n in range(300))
LARGE_MASTER = pa.table({"id": list(range(3000)), "city": [f"city {n}" for n in range(3000)]})


def _skewed(rows: int, seed: int) -> pa.RecordBatch:
    """Return tuples for `LARGE_MASTER`: many of few keys, some of none."""
    ids = np.random.default_rng(seed).zipf(1.3, rows) % (LARGE_MASTER.num_rows + 50)
    return pa.record_batch({"id": ids, "note": [f"note {n}" for n in range(rows)]})


def _not_utf_8(rows: int) -> pa.Array:
    text: pa.Array = pa.array([b"\xff%d" % number for number in range(rows)]).view(pa.string())
    return text


def _rows_of_bytes(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Return each row that leaves: its key and both texts."""
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        note, city = (batch[name].view(pa.binary()).to_pylist() for name in ("note", "city"))
        rows += zip(batch["id"].to_pylist(), note, city, strict=True)
    return rows


def _examples(share: float) -> settings:
    """Return settings for a property: a share of the examples of the profile, and no limit of time."""
    return settings(
        max_examples=max(3, round(settings().max_examples * share)),
        deadline=None,
        # Every subclass runs the same functions.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
    )


def fill_new_memory(patch: pytest.MonkeyPatch) -> None:
    """Let new arrays of numpy that are not set to anything hold a pattern."""
    for name in ("empty", "empty_like"):
        patch.setattr(np, name, partial(_filled, getattr(np, name)))


def _filled(make: Callable[..., npt.NDArray[Any]], *arguments: Any, **named: Any) -> npt.NDArray[Any]:
    array = make(*arguments, **named)
    array.reshape(-1).view(np.uint8)[:] = 0xA7
    return array


def share_key_codes(patch: pytest.MonkeyPatch) -> None:
    """Let all keys that are hashed have one of two codes."""
    patch.setattr(KeyCoder, "hash_bits", 1)


def _count(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _allocated_bytes() -> int:
    """Return what Arrow holds; runs that are read ahead are in the pool of the system."""
    return int(pa.total_allocated_bytes()) + int(pa.system_memory_pool().bytes_allocated())


def _check_invariants(op: StepOperator) -> None:
    report = op.memory()
    assert report.total_bytes <= report.budget_bytes
    op.check()


def _step(op: StepOperator) -> list[pa.RecordBatch]:
    """Run one step, and check that the operator keeps to its budget after it."""
    results = list(op.step())
    _check_invariants(op)
    return results


def _taken_over(op: StepOperator, fresh: StepOperator) -> StepOperator:
    """Return the second operator, which goes on where the first one stands."""
    fresh.set_exact_state(unpack_state(pack_state(op.exact_state())))
    op.close()
    fresh.check()
    return fresh


def _as_lists(batches: Iterable[pa.RecordBatch]) -> list[list[dict[str, object]]]:
    return [batch.to_pylist() for batch in batches]


def _kept_bytes(op: StepOperator) -> dict[str, int]:
    """Return the memory report without the pages that a look-up keeps, which are no part of the state."""
    return {part: nbytes for part, nbytes in op.memory().components.items() if part != "buffer pool"}


class OperatorConformance:
    """The conformance suite: one test for each promise of an operator.

    Subclass it in a test file, and name the algorithm. It must be registered with `semistream.operators.register`
    when the tests run::

        from semistream.testing import OperatorConformance

        class TestMyJoin(OperatorConformance):
            algorithm = "myjoin"

    Attributes
    ----------
    algorithm
        The name of the algorithm.
    options
        Settings with which it is made.
    """

    algorithm: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    _made: ClassVar[list[StepOperator]] = []

    @property
    def _layout(self) -> str:
        return algorithm(self.algorithm).layouts[0]

    @pytest.fixture
    def table(self, tmp_path: Path) -> MasterTable:
        return stage(MASTER, tmp_path / "master", key="id", layout=self._layout, page_bytes=1024)

    @pytest.fixture(autouse=True)
    def _close_operators(self) -> Iterator[None]:
        yield
        while self._made:
            self._made.pop().close()

    def _make(
        self, table: MasterTable, memory: int | str = "1MB", schema: pa.Schema = STREAM.schema, **arguments: Any
    ) -> StepOperator:
        """Return an operator, which is closed after the test."""
        op = operator(self.algorithm, table, schema, on="id", memory=memory, **{**self.options, **arguments})
        self._made.append(op)
        return op

    def _check_case(self, case: Case, path: Path) -> None:
        case = dataclasses.replace(case, layout=self._layout)
        op = case.operator(self.algorithm, case.stage(path / "master"), **self.options)
        case.check(list(run(op, case.batches)))

    # --- results: those of the naive join, however the work is cut up and interrupted ---------------------------------

    @_examples(0.6)
    @given(data=st.data())
    def test_results_and_counts_are_those_of_the_naive_join(self, data: st.DataObject) -> None:
        """The stream is offered with random numbers of steps in between, as if it burst and paused."""
        case = data.draw(cases(self.algorithm))
        results: list[pa.RecordBatch] = []
        with case.staged() as table:
            op = case.operator(self.algorithm, table, **self.options)
            for batch in case.batches:
                taken = op.offer(batch)
                while taken < batch.num_rows:
                    results += _step(op)
                    taken += op.offer(batch.slice(taken))
                for _ in range(data.draw(st.integers(0, 4))):
                    results += _step(op)
            while op.pending:
                results += _step(op)
            op.close()
        case.check(results)
        assert op.metrics.tuples_in == op.metrics.tuples_answered == _count(case.batches)
        assert op.metrics.rows_out == _count(results)
        assert op.metrics.tuples_without_match == len(dataclasses.replace(case, how="anti").expected())

    @_examples(0.6)
    @given(data=st.data())
    def test_results_are_the_same_after_restoring_snapshots(self, data: st.DataObject) -> None:
        case = data.draw(cases(self.algorithm))
        results: list[pa.RecordBatch] = []
        with case.staged() as table:
            op = case.operator(self.algorithm, table, **self.options)
            for batch in case.batches:
                taken = 0
                while True:
                    taken += op.offer(batch.slice(taken))
                    for _ in range(data.draw(st.integers(0, 3))):
                        results += _step(op)
                    snapshot, pending = op.snapshot(), op.pending
                    op.close()
                    op = case.operator(self.algorithm, table, **self.options)
                    op.restore(snapshot)
                    _check_invariants(op)
                    assert op.pending == pending
                    if taken == batch.num_rows:
                        break
                    results += _step(op)
            while op.pending:
                results += _step(op)
            op.close()
        case.check(results)

    @pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
    @pytest.mark.parametrize("how", HOWS)
    def test_null_keys_match_nothing_on_either_side(self, how: How, kind: pa.DataType, tmp_path: Path) -> None:
        self._check_case(null_keys(kind, how), tmp_path)

    @pytest.mark.parametrize("how", HOWS)
    def test_different_keys_with_one_code_are_told_apart(
        self, how: How, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        share_key_codes(monkeypatch)
        stream = pa.record_batch({"id": [f"key {n % 50}" for n in range(400)], "number": range(400)})
        case = Case(
            master=pa.table({"id": [f"key {n % 30}" for n in range(60)], "label": range(60)}),
            batches=[stream.slice(0, 200), stream.slice(200)],
            key=["id"],
            on=["id"],
            how=how,
        )
        self._check_case(case, tmp_path)

    @pytest.mark.parametrize("column", ["__number__", "__matched__", "number", "matched", ""])
    def test_any_column_name_may_be_used(self, tmp_path: Path, column: str) -> None:
        case = dataclasses.replace(odd_column_name(column), layout=self._layout, order="stream")
        table = case.stage(tmp_path / "m")
        op = case.operator(self.algorithm, table, **self.options)
        op.offer(case.batches[0])
        snapshot = op.snapshot()
        op.close()
        op = case.operator(self.algorithm, table, **self.options)
        op.restore(snapshot)
        assert oracle.rows_of(op.drain()) == [(2, 1, 6), (1, 2, 5)]
        op.close()

    def test_projected_columns_and_renamed_keys(self, tmp_path: Path) -> None:
        case = dataclasses.replace(renamed_keys(), layout=self._layout)
        op = case.operator(self.algorithm, case.stage(tmp_path / "m"), **self.options)
        results = pa.Table.from_batches(list(run(op, case.batches)))
        assert results.to_pylist() == [{"buyer": 2, "zip": "2", "cust": 2}] * 2
        assert results.schema.field("buyer").type == pa.int32()

    # --- offer, step, drain, close ------------------------------------------------------------------------------------

    def test_the_operator_satisfies_the_protocol(self, table: MasterTable) -> None:
        op = self._make(table)
        assert isinstance(op, Operator)
        assert op.name == self.algorithm

    def test_a_step_with_nothing_pending_reads_no_page(self, table: MasterTable) -> None:
        op = self._make(table)
        assert list(op.step()) == []
        assert list(op.drain()) == []
        assert op.metrics.pages_read == 0

    def test_an_empty_batch_is_accepted_and_changes_nothing(self, table: MasterTable) -> None:
        op = self._make(table)
        assert op.offer(STREAM.slice(0, 0)) == 0
        assert op.pending == 0
        assert _count(run(op, [STREAM.slice(0, 0), STREAM, STREAM.slice(0, 0)])) == MATCHING

    def test_offering_goes_on_after_a_drain(self, table: MasterTable) -> None:
        op = self._make(table)
        for _ in range(3):
            assert op.offer(STREAM) == STREAM.num_rows
            assert _count(op.drain()) == MATCHING
            assert op.pending == 0

    def test_a_full_stream_buffer_refuses_rows_and_says_how_many_it_took(self, table: MasterTable) -> None:
        op = self._make(table, memory="256KB")
        big = pa.concat_batches([STREAM] * 200)
        taken = op.offer(big)
        assert 0 < taken < big.num_rows
        assert op.pending == taken
        assert op.metrics.offers_refused == 1

    def test_batches_that_declare_nullability_otherwise_are_joined_together(self, table: MasterTable) -> None:
        strict = pa.schema([field.with_nullable(False) for field in STREAM.schema])
        op = self._make(table)
        for batch in (STREAM, pa.RecordBatch.from_arrays(STREAM.columns, schema=strict)):
            assert op.offer(batch) == STREAM.num_rows
        assert _count(op.drain()) == 2 * MATCHING

    def test_results_must_be_read_before_the_next_call(self, table: MasterTable) -> None:
        op = self._make(table)
        op.offer(STREAM)
        unread = op.step()
        for call in (op.step, op.snapshot, lambda: op.offer(STREAM), lambda: list(op.drain())):
            with pytest.raises(OperatorMisuse, match="exhaust the iterator"):
                call()
        first = _count(unread)
        assert first + _count(op.drain()) == MATCHING

    def test_a_closed_operator_says_so(self, table: MasterTable) -> None:
        op = self._make(table)
        op.close()
        op.close()
        with pytest.raises(OperatorMisuse, match="closed"):
            op.offer(STREAM)

    # --- memory -------------------------------------------------------------------------------------------------------

    def test_rows_wait_in_memory_of_the_operator_not_of_the_batch(self, table: MasterTable) -> None:
        op = self._make(table)
        before = _allocated_bytes()
        big = pa.concat_batches([STREAM] * 1000)
        op.offer(big.slice(0, 10))
        del big
        assert _allocated_bytes() - before < 100_000

    def test_a_budget_below_the_least_names_the_least_and_the_least_works(self, table: MasterTable) -> None:
        with pytest.raises(
            BudgetTooSmall, match=r"memory=1000 bytes is too small .* give at least (\d+) bytes"
        ) as caught:
            self._make(table, memory=1000)
        least = 1000
        while True:  # the least depends a little on the budget itself
            try:
                op = self._make(table, memory=least)
                break
            except BudgetTooSmall as error:
                named = int(str(error).split("at least ")[1].split(" bytes")[0])
                assert named > least
                least = named
        results = []
        for batch in run(op, [STREAM]):
            assert op.memory().total_bytes <= least
            results.append(batch)
        assert _count(results) == MATCHING
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(("rows", "page_bytes", "width"), [(2000, 512, 5), (20_000, 4096, 50), (300, 65_536, 5000)])
    @pytest.mark.parametrize("layout", ["heap", "clustered"])
    def test_the_least_memory_that_is_named_does(
        self, rows: int, page_bytes: int, width: int, layout: str, tmp_path: Path
    ) -> None:
        if layout not in algorithm(self.algorithm).layouts:
            pytest.skip(f"{self.algorithm} is not for a {layout}")
        content = pa.table({"k": np.arange(rows), "c": ["x" * width + str(n) for n in range(rows)]})
        table = stage(content, tmp_path / "master", key="k", layout=layout, page_bytes=page_bytes)
        orders = pa.record_batch({"n": range(50), "k": range(50)})
        with pytest.raises(
            BudgetTooSmall, match=r"memory=1000 bytes is too small .*: give at least \d+ bytes"
        ) as caught:
            operator(self.algorithm, table, orders.schema, on="k", how="left", memory=1000, **self.options)
        least = caught.value.least_bytes
        assert least is not None
        op = operator(self.algorithm, table, orders.schema, on="k", how="left", memory=least, **self.options)
        assert _count(run(op, [orders])) == 50
        with pytest.raises(BudgetTooSmall) as caught:
            operator(self.algorithm, table, orders.schema, on="k", how="left", memory=least - 1, **self.options)
        assert caught.value.least_bytes == least

    def test_the_least_memory_that_is_named_does_for_a_stream_of_many_columns(self, table: MasterTable) -> None:
        columns = {f"column {number}": [f"t{n}" for n in range(5)] for number in range(300)}
        stream = pa.record_batch({"id": range(5), **columns})
        with pytest.raises(BudgetTooSmall) as caught:
            self._make(table, memory=1000, schema=stream.schema)
        least = caught.value.least_bytes
        assert least is not None
        op = self._make(table, memory=least, schema=stream.schema)
        assert _count(run(op, [stream])) == 5

    @pytest.mark.parametrize("order", ["any", "stream"])
    @pytest.mark.parametrize("how", ["inner", "semi"])
    def test_long_rows_among_short_ones_do_not_break_the_budget(self, tmp_path: Path, order: Order, how: How) -> None:
        """Results under construction count, however long their rows are."""
        case = dataclasses.replace(long_rows(how, order), layout=self._layout)
        op = case.operator(self.algorithm, case.stage(tmp_path / "long"), **self.options)
        before = _allocated_bytes()
        op.offer(case.batches[0])
        seen = 0
        while op.pending:
            for batch in op.step():
                seen += batch.num_rows
                assert batch.nbytes <= case.memory // 16 + 50_000
                assert _allocated_bytes() - before <= case.memory
            assert op.memory().total_bytes <= case.memory
        op.close()
        assert seen == 1000

    def test_what_is_read_at_once_is_no_more_than_the_report_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The report goes by the plan; the memory to read into is allocated apart from it."""
        reading: list[int] = []
        make_read_ahead = ReadAhead.__init__

        def noting(self: ReadAhead, reader: PageReader, buffer_bytes: int) -> None:
            reading.append(ReadAhead.bytes_for(len(reader.header), buffer_bytes))
            make_read_ahead(self, reader, buffer_bytes)

        monkeypatch.setattr(ReadAhead, "__init__", noting)
        wide = pa.table(
            {"id": range(200), "label": ["w" * 3000] * 200}
        )  # pages are large beside what is kept for a row
        table = stage(wide, tmp_path / "wide", key="id", layout=self._layout, page_bytes=4096)
        op = self._make(table, memory="2MB")
        assert all(nbytes <= op.memory().components["disk buffer"] for nbytes in reading)

    # --- bad input ----------------------------------------------------------------------------------------------------

    def test_a_batch_of_another_schema_is_refused_and_nothing_is_taken(self, table: MasterTable) -> None:
        op = self._make(table)
        op.offer(STREAM)
        other_type = pa.record_batch({"id": ["1"], "amount": [1.0]})
        other_name = pa.record_batch({"id": [1], "amounts": [1.0]})
        for batch, complaint in ((other_type, "'id' arrived as string, declared was int64"), (other_name, "amounts")):
            with pytest.raises(SchemaMismatch, match=complaint):
                op.offer(batch)
        assert _count(op.drain()) == MATCHING

    def test_a_damaged_page_fails_the_step_and_the_operator_stays_failed(self, table: MasterTable) -> None:
        data = next(Path(table.path).glob("data/*b00000.arrow"))
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
        op = self._make(table)
        op.offer(STREAM)
        with pytest.raises(DamagedTable, match=data.name):
            list(op.drain())
        with pytest.raises(OperatorMisuse, match="restore its last snapshot"):
            op.offer(STREAM)

    def test_an_unknown_option_is_named(self, table: MasterTable) -> None:
        with pytest.raises(SemistreamError, match="speed"):
            self._make(table, speed=11)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def test_a_snapshot_of_another_join_is_refused(self, table: MasterTable) -> None:
        op = self._make(table)
        op.offer(STREAM)
        snapshot = op.snapshot()
        left = self._make(table, how="left")
        with pytest.raises(SnapshotMismatch, match="how 'inner', this operator 'left'"):
            left.restore(snapshot)
        newer = self._make(table.append(MASTER.slice(0, 1)))
        with pytest.raises(SnapshotMismatch, match="version 1, this operator 2"):
            newer.restore(snapshot)
        used = self._make(table)
        used.offer(STREAM)
        with pytest.raises(OperatorMisuse, match="nothing yet"):
            used.restore(snapshot)

    def test_a_snapshot_restores_into_a_larger_budget_and_not_into_a_smaller_one(self, table: MasterTable) -> None:
        op = self._make(table, memory="1MB")
        many = pa.concat_batches([STREAM] * 100)
        op.offer(many)
        assert _count(op.step()) > 0
        op.offer(many)
        snapshot = op.snapshot()
        rest = _count(op.drain())
        larger = self._make(table, memory="8MB")
        larger.restore(snapshot)
        assert _count(larger.drain()) == rest
        smaller = self._make(table, memory="160KB")
        with pytest.raises(BudgetTooSmall, match="the memory it was taken with"):
            smaller.restore(snapshot)
        with pytest.raises(OperatorMisuse, match="failed"):  # it may hold a part of the tuples
            list(smaller.drain())

    # --- exact state: its taker goes on exactly like the operator it was taken from, cache and all --------------------

    @pytest.fixture
    def large_table(self, tmp_path: Path) -> MasterTable:
        return stage(LARGE_MASTER, tmp_path / "large", key="id", layout=self._layout, page_bytes=1024)

    def _make_skewed(self, table: MasterTable, memory: str = "600KB", **arguments: Any) -> StepOperator:
        # In which order a step's results leave may depend on what the page cache holds.
        return self._make(table, memory, _skewed(1, 0).schema, how="left", io="drop_behind", **arguments)

    def test_the_taker_answers_the_same_tuples_in_the_same_steps(self, large_table: MasterTable) -> None:
        steady, moving = self._make_skewed(large_table), self._make_skewed(large_table)
        waiting = [_skewed(1, 0).slice(1)] * 2  # outside of each operator, because it was full
        for turn in range(60):
            if turn % 3 == 1:
                moving = _taken_over(moving, self._make_skewed(large_table))
            accepted = []
            for at, op in enumerate((steady, moving)):
                offered = pa.concat_batches([waiting[at], _skewed(400, turn)])
                accepted.append(op.offer(offered))
                waiting[at] = offered.slice(accepted[at])
            assert accepted[0] == accepted[1]
            assert _as_lists(steady.step()) == _as_lists(moving.step())
            assert steady.pending == moving.pending
            assert _kept_bytes(steady) == _kept_bytes(moving)
        front_stage = getattr(moving.join, "front_stage", None)
        assert front_stage is None or front_stage.num_keys > 0, "nothing was cached: the test shows too little"
        assert _as_lists(steady.drain()) == _as_lists(moving.drain())

    @_examples(0.2)
    @given(data=st.data())
    def test_any_join_is_the_same_when_taken_over_at_any_step(self, data: st.DataObject) -> None:
        case = dataclasses.replace(data.draw(cases(self.algorithm)), order="any")
        random = data.draw(st.randoms(use_true_random=False))
        results: list[pa.RecordBatch] = []
        with case.staged() as table:
            op = case.operator(self.algorithm, table, **self.options)
            for batch in case.batches:
                taken = 0
                while True:
                    if random.random() < 0.3:
                        op = _taken_over(op, case.operator(self.algorithm, table, **self.options))
                    taken += op.offer(batch.slice(taken))
                    if taken == batch.num_rows:
                        break
                    results.extend(op.step())
                results.extend(op.step())
            while op.pending:
                op = _taken_over(op, case.operator(self.algorithm, table, **self.options))
                results.extend(op.step())
            op.close()
        case.check(results)

    def test_the_exact_state_depends_on_nothing_but_the_input(
        self, large_table: MasterTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Spark may go on from one attempt of a micro-batch with the changes that another attempt wrote.
        first = self._states_of_turns(large_table)  # compiles kernels, which take np.empty as it is
        fill_new_memory(monkeypatch)
        assert self._states_of_turns(large_table) == first

    def _states_of_turns(self, table: MasterTable) -> list[str]:
        op, states = self._make_skewed(table), []
        for turn in range(8):
            op = _taken_over(op, self._make_skewed(table))
            op.offer(_skewed(400, turn))
            list(op.step())
            states.append(xxhash.xxh3_128_hexdigest(pack_state(op.exact_state())))
        return states

    def test_text_that_is_no_utf_8_is_taken_over_with_the_rest(self, tmp_path: Path) -> None:
        master = LARGE_MASTER.set_column(1, "city", _not_utf_8(LARGE_MASTER.num_rows))
        table = stage(master, tmp_path / "table", key="id", layout=self._layout, page_bytes=1024)
        ops = [self._make_skewed(table), self._make_skewed(table)]
        results: list[list[tuple[Any, ...]]] = [[], []]
        for turn in range(6):
            offered = _skewed(400, turn)
            offered = offered.set_column(1, "note", _not_utf_8(offered.num_rows))
            ops[1] = _taken_over(ops[1], self._make_skewed(table))
            for op, leaving in zip(ops, results, strict=True):
                op.offer(offered)
                leaving += _rows_of_bytes(op.step())
        restored = self._make_skewed(table)
        restored.restore(ops[1].snapshot())
        ends = [_rows_of_bytes(op.drain()) for op in (ops[0], restored)]
        assert results[0] == results[1]
        assert sorted(ends[0], key=repr) == sorted(ends[1], key=repr)
        assert any(city is not None for *_, city in results[0] + ends[0])

    def test_the_taker_counts_from_zero(self, large_table: MasterTable) -> None:
        op = self._make_skewed(large_table)
        op.offer(_skewed(50, 1))
        list(op.step())
        op = _taken_over(op, self._make_skewed(large_table))
        assert not any(op.metrics.as_dict().values())
        list(op.drain())
        assert op.metrics.cycles <= 1

    def test_only_an_operator_that_has_done_nothing_takes_a_state_over(self, large_table: MasterTable) -> None:
        op, busy = self._make_skewed(large_table), self._make_skewed(large_table)
        busy.offer(_skewed(5, 1))
        with pytest.raises(OperatorMisuse, match="done nothing"):
            busy.set_exact_state(op.exact_state())

    def test_the_state_of_another_join_is_refused(self, large_table: MasterTable) -> None:
        op, larger = self._make_skewed(large_table), self._make_skewed(large_table, memory="700KB")
        with pytest.raises(SnapshotMismatch, match="the snapshot has memory 614400, this operator 716800"):
            larger.set_exact_state(op.exact_state())
        with pytest.raises(SnapshotMismatch, match="cannot take the snapshot over"):
            op.set_exact_state(SavedState(exact=True))

    def test_state_that_lies_in_files_is_refused(self, large_table: MasterTable) -> None:
        op = self._make_skewed(large_table, memory="2MB", order="stream")
        if op.identity().get("order") == "stream":
            with pytest.raises(OperatorMisuse, match="order='stream'"):
                op.exact_state()
