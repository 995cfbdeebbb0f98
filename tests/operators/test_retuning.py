"""b, w and the memory of a running join change at any moment: same rows, the budget kept, and the memory reached."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.depth import examples
from tests.operators.inside import inside

SETTINGS = examples(0.4)
BUDGET = 300_000
MASTER = pa.table({"id": [row % 23 for row in range(40)], "name": [f"row {row}" for row in range(40)]})
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


class Case(NamedTuple):
    """A join that is retuned."""

    how: str = "inner"
    order: str = "any"
    condition: Any = None
    on: str | None = "id"


CASES = [
    Case(),
    Case(how="left"),
    Case(how="anti", order="stream"),
    Case(order="stream"),
    # A window that is kept in order cannot be resized in place.
    Case(on=None, condition=ss.compare("id", ">=", "id"), how="semi"),
]


def operator_of(table: ss.MasterTable, case: Case, memory: int = BUDGET, **options: Any) -> StepOperator:
    op = ss.operator(
        "meshjoin",
        table,
        SCHEMA,
        on=case.on,
        how=case.how,  # type: ignore[arg-type]
        condition=case.condition,
        memory=memory,
        order=case.order,
        **options,
    )
    return op


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    return ss.stage(MASTER, tmp_path_factory.mktemp("retuning") / "r", key="id", layout="heap", page_bytes=64)


# How many tuples, and how long their text is.
ARRIVING = st.tuples(st.integers(0, 700), st.sampled_from([0, 5, 60, 900]))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), ARRIVING),
        st.tuples(st.just("step"), st.integers(1, 8)),
        st.tuples(st.just("b"), st.integers(1, 45)),
        st.tuples(st.just("w"), st.integers(1, 200)),
        st.tuples(st.just("memory"), st.integers(40_000, BUDGET)),
        st.tuples(st.just("memory"), st.integers(40_000, 120_000)),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=25,
)


class Driver:
    """Runs actions on an operator and checks it after each."""

    def __init__(self, table: ss.MasterTable, case: Case) -> None:
        self.table, self.case = table, case
        self.op = operator_of(table, case)
        self.taken: list[pa.RecordBatch] = []
        self.results: list[pa.RecordBatch] = []
        self.number = 0

    def offer(self, arriving: tuple[int, int]) -> None:
        count, text = arriving
        rows = [
            {"id": (self.number + at) % 31 if (self.number + at) % 7 else None, "text": "x" * (text * at % (text + 1))}
            for at in range(count)
        ]
        batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
        taken = self.op.offer(batch)
        self.taken.append(batch.slice(0, taken))
        self.number += taken

    def step(self, count: int) -> None:
        for _ in range(count):
            self.results += list(self.op.step())
            self.check()

    def retune(self, **settings: int) -> None:
        before = inside(self.op).b, inside(self.op)._w, inside(self.op).memory_target_bytes
        try:
            self.op.retune(**settings)
        except (BudgetTooSmall, InvalidArgument):
            assert (inside(self.op).b, inside(self.op)._w, inside(self.op).memory_target_bytes) == before, (
                "refused and harmless"
            )
            return
        after = {"b": inside(self.op).b, "w": inside(self.op)._w, "memory": inside(self.op).memory_target_bytes}
        assert all(after[name] == value for name, value in settings.items())

    def restore(self) -> None:
        snapshot = self.op.snapshot()
        again = operator_of(self.table, self.case)
        again.restore(snapshot)
        assert (again.pending, inside(again).memory_target_bytes) == (
            self.op.pending,
            inside(self.op).memory_target_bytes,
        )
        self.op.close()
        self.op = again

    def check(self) -> None:
        self.op.check()
        assert self.op.memory().total_bytes <= BUDGET

    def run(self, actions: list[tuple[str, Any]]) -> None:
        for action, value in actions:
            if action in ("b", "w", "memory"):
                self.retune(**{action: value})
            elif action == "restore":
                self.restore()
            else:
                getattr(self, action)(value)
            self.check()
        while self.op.pending:
            self.step(1)
        assert inside(self.op).is_within_target
        assert self.op.memory().total_bytes <= inside(self.op).memory_target_bytes
        self.op.close()

    def expected(self) -> list[oracle.Row]:
        keys = [] if self.case.on is None else [("id", "id")]
        columns = [] if self.case.how in ("semi", "anti") else ["name"]
        return oracle.join(self.taken, MASTER, keys, self.case.how, self.case.condition, columns)


@pytest.mark.parametrize("case", CASES, ids=str)
@SETTINGS
@given(actions=ACTIONS)
def test_results_are_exact_and_the_budget_is_kept_however_a_join_is_retuned(
    table: ss.MasterTable, case: Case, actions: list[tuple[str, Any]]
) -> None:
    driver = Driver(table, case)
    driver.run(actions)
    rows = oracle.rows_of(driver.results)
    expected = driver.expected()
    assert oracle.multiset(rows) == oracle.multiset(expected)
    if case.order == "stream":
        assert [row[:2] for row in rows] == [row[:2] for row in expected]


def _full(table: ss.MasterTable, memory: int = BUDGET, **options: Any) -> Driver:
    driver = Driver(table, Case(how="left"))
    driver.op.close()
    driver.op = operator_of(table, driver.case, memory, **options)
    while (
        inside(driver.op).stream.tuples_in_window < inside(driver.op).stream.capacity_tuples * 0.9 or not driver.number
    ):
        driver.offer((400, 60))
        driver.step(1)
    return driver


class TestLessMemory:
    def test_tuples_that_do_not_fit_keep_their_memory_until_they_leave(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        op, before = driver.op, driver.op.memory().total_bytes
        op.retune(memory=100_000)
        assert 100_000 < op.memory().total_bytes <= before
        held = [op.memory().total_bytes]
        while not inside(op).is_within_target:
            driver.step(1)
            held.append(op.memory().total_bytes)
        above = [each for each in held if each > 100_000]
        assert above == sorted(above, reverse=True), "memory falls on the way and never rises"
        assert len(set(above)) > 3, "it falls step by step"
        assert held[-1] <= 100_000
        assert len(held) <= inside(op).steps_per_cycle + 1, "a scan later none of the old tuples is left"
        driver.run([])
        assert oracle.multiset(oracle.rows_of(driver.results)) == oracle.multiset(driver.expected())

    def test_new_tuples_enter_on_the_way(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        driver.op.retune(memory=150_000)
        window, answered = inside(driver.op).stream.window, driver.op.metrics.tuples_through_disk
        entered = window.entered
        driver.offer((50, 60))
        while driver.op.metrics.tuples_through_disk == answered:
            driver.step(1)
        driver.step(1)
        assert not inside(driver.op).is_within_target
        assert window.entered > entered
        driver.run([])

    def test_memory_comes_back_at_once(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        op, tuples = driver.op, inside(driver.op).stream.capacity_tuples
        op.retune(memory=100_000)
        while not inside(op).is_within_target:
            driver.step(1)
        assert inside(op).stream.capacity_tuples < tuples / 2
        op.retune(memory=BUDGET)
        assert inside(op).is_within_target
        assert inside(op).stream.capacity_tuples >= tuples * 0.95
        driver.run([])

    def test_it_is_split_as_for_an_operator_that_was_made_with_it(self, table: ss.MasterTable) -> None:
        batch = pa.record_batch({"id": np.arange(50), "text": ["x" * 20] * 50}).cast(SCHEMA)
        made, retuned = operator_of(table, Case(), 100_000, b=2), operator_of(table, Case(), b=2)
        retuned.retune(memory=100_000)
        made.offer(batch)
        retuned.offer(batch)
        assert retuned.memory().components == made.memory().components
        assert inside(retuned).stream.capacity_tuples == inside(made).stream.capacity_tuples
        made.close()
        retuned.close()

    def test_what_waits_in_the_stream_buffer_holds_its_memory_too(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        while inside(driver.op).stream.room_tuples > 20:
            driver.offer((400, 60))
        driver.op.retune(memory=80_000)
        assert driver.op.memory().components["stream buffer"] > inside(driver.op)._plan.stream_buffer_bytes
        assert driver.op.offer(pa.record_batch({"id": [1], "text": ["x"]}).cast(SCHEMA)) == 0
        assert not inside(driver.op).is_within_target
        driver.run([])


class TestSnapshots:
    def test_a_snapshot_on_the_way_goes_on_the_way(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        driver.op.retune(memory=100_000, b=2, w=7)
        driver.step(3)
        assert not inside(driver.op).is_within_target
        driver.restore()
        assert (inside(driver.op).b, inside(driver.op).w, inside(driver.op).memory_target_bytes) == (2, 7, 100_000)
        assert not inside(driver.op).is_within_target
        driver.check()
        driver.run([])
        assert oracle.multiset(oracle.rows_of(driver.results)) == oracle.multiset(driver.expected())

    def test_an_operator_with_more_memory_takes_it_over(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        driver.op.retune(memory=100_000)
        again = operator_of(table, driver.case, 2 * BUDGET)
        again.restore(driver.op.snapshot())
        assert inside(again).memory_target_bytes == 100_000
        again.close()
        driver.op.close()

    def test_one_with_too_little_memory_is_refused(self, table: ss.MasterTable) -> None:
        driver = _full(table, b=1)
        driver.op.retune(memory=100_000)
        again = operator_of(table, driver.case, 100_000)
        with pytest.raises(BudgetTooSmall, match="give at least the memory it was taken with"):
            again.restore(driver.op.snapshot())
        again.close()
        driver.op.close()


class TestBadInput:
    def test_memory_above_the_budget(self, table: ss.MasterTable) -> None:
        op = operator_of(table, Case())
        with pytest.raises(InvalidArgument, match=r"memory=300001 is above the budget of 300000 bytes: make the op"):
            op.retune(memory=BUDGET + 1)
        op.close()

    def test_memory_that_is_too_small(self, table: ss.MasterTable) -> None:
        op = operator_of(table, Case())
        with pytest.raises(BudgetTooSmall, match=r"memory=1000 bytes is too small .* give at least \d+ bytes"):
            op.retune(memory=1000)
        assert inside(op).memory_target_bytes == BUDGET
        op.close()

    @pytest.mark.parametrize("memory", ["much", -5, 0, 1.5])
    def test_memory_that_is_no_size(self, table: ss.MasterTable, memory: Any) -> None:
        op = operator_of(table, Case())
        with pytest.raises(InvalidArgument, match="memory="):
            op.retune(memory=memory)
        op.close()


def test_another_version_of_the_table_begins_with_the_settings_of_the_operator(tmp_path: Path) -> None:
    table = ss.stage(MASTER, tmp_path / "r", key="id", layout="heap", page_bytes=64)
    op = operator_of(table, Case(), b=1)
    op.retune(b=3, memory=100_000)
    op.move_to(table.append(MASTER))
    assert (inside(op).b, inside(op).memory_target_bytes) == (1, BUDGET)
    op.close()
