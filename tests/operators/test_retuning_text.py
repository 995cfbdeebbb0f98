"""Long texts that came once, or were refused, do not stand in the way of a smaller window later."""

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import TupleTooLarge
from semistream.operators.driver import StepOperator
from tests.operators.inside import inside

BUDGET = 200_000
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


MASTER = pa.table({"id": range(40), "name": [f"row {row}" for row in range(40)]})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    return ss.stage(MASTER, tmp_path_factory.mktemp("texts") / "r", key="id", layout="heap", page_bytes=4096)


@pytest.fixture(scope="module")
def table_of_many_pages(tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    """With many iterations to a scan the stream buffer is much smaller than the window."""
    return ss.stage(MASTER, tmp_path_factory.mktemp("texts") / "many", key="id", layout="heap", page_bytes=64)


def operator_of(table: ss.MasterTable, memory: int = BUDGET) -> StepOperator:
    return ss.operator("meshjoin", table, SCHEMA, on="id", memory=memory, b=1)


def tuples(count: int, text_bytes: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": at % 40, "text": "x" * text_bytes} for at in range(count)], SCHEMA)


def answered(op: StepOperator, most_steps: int = 100) -> int:
    rows = 0
    for _ in range(most_steps):
        rows += sum(batch.num_rows for batch in op.step())
        if not op.pending:
            return rows
    raise AssertionError(f"{op.pending} tuples are still pending after {most_steps} steps")


def test_memory_can_fall_when_a_long_text_has_left(table: ss.MasterTable) -> None:
    with operator_of(table) as op:
        assert op.offer(tuples(1, 30_000)) == 1
        assert answered(op) == 1
        op.retune(memory=60_000)
        assert op.memory().total_bytes <= 60_000
        assert op.offer(tuples(5, 10)) == 5
        assert answered(op) == 5


def test_memory_can_fall_when_a_long_text_has_left_and_others_wait(table: ss.MasterTable) -> None:
    with operator_of(table) as op:
        assert op.offer(tuples(1, 30_000)) == 1
        assert answered(op) == 1
        assert op.offer(tuples(3, 10)) == 3
        op.retune(memory=60_000)
        assert answered(op) == 3
        assert inside(op).is_within_target
        assert op.memory().total_bytes <= 60_000


def test_a_tuple_that_is_refused_leaves_the_window_as_it_was(table_of_many_pages: ss.MasterTable) -> None:
    with operator_of(table_of_many_pages) as op, operator_of(table_of_many_pages) as other:
        for each in (op, other):
            each.offer(tuples(10, 10))
            answered(each)
        with pytest.raises(TupleTooLarge):
            op.offer(tuples(1, 30_000))
        assert op.offer(tuples(10, 10)) == other.offer(tuples(10, 10)) == 10
        assert inside(op).stream.capacity_tuples == inside(other).stream.capacity_tuples
        assert answered(op) == 10


def test_a_first_tuple_that_is_refused_shapes_no_window(table_of_many_pages: ss.MasterTable) -> None:
    with operator_of(table_of_many_pages) as op, operator_of(table_of_many_pages) as other:
        with pytest.raises(TupleTooLarge):
            op.offer(tuples(1, 30_000))
        assert op.offer(tuples(10, 10)) == other.offer(tuples(10, 10)) == 10
        assert inside(op).stream.capacity_tuples == inside(other).stream.capacity_tuples


@pytest.mark.parametrize("memory", [60_000, 96_000])
@pytest.mark.parametrize("waiting", [0, 3])
def test_a_smaller_operator_takes_over_from_one_that_had_a_long_text(
    table: ss.MasterTable, waiting: int, memory: int
) -> None:
    with operator_of(table) as op, operator_of(table, memory) as smaller:
        assert op.offer(tuples(1, 30_000)) == 1
        assert answered(op) == 1
        op.offer(tuples(waiting, 10))
        smaller.restore(op.snapshot())
        assert smaller.offer(tuples(5, 1000)) == 5
        assert answered(smaller) == waiting + 5
        smaller.retune(b=1)
