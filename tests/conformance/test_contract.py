"""What every registered operator promises beyond its results."""

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import BudgetTooSmall, DamagedTable, OperatorMisuse, SchemaMismatch, SnapshotMismatch
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable, PageReader, ReadAhead
from tests import oracle
from tests.operators.cache.test_front_stage import collide

MASTER = pa.table({"id": list(range(500)), "city": [f"city {n}" for n in range(500)]})
STREAM = pa.record_batch({"id": [n * 7 % 600 for n in range(300)], "amount": [float(n) for n in range(300)]})
MATCHING = sum(n * 7 % 600 < 500 for n in range(300))

pytestmark = pytest.mark.parametrize("name", ss.algorithm_names())


@pytest.fixture
def table(name: str, tmp_path: Path) -> MasterTable:
    return ss.stage(MASTER, tmp_path / "master", key="id", layout=algorithm(name).layouts[0], page_bytes=1024)


def make(name: str, table: MasterTable, memory: int | str = "1MB") -> ss.Operator:
    return ss.operator(name, table, STREAM.schema, on="id", memory=memory)


def rows(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_the_operator_satisfies_the_protocol(name: str, table: MasterTable) -> None:
    op = make(name, table)
    assert isinstance(op, ss.Operator)
    assert op.name == name
    op.close()


def test_a_step_with_nothing_pending_reads_no_page(name: str, table: MasterTable) -> None:
    op = make(name, table)
    assert list(op.step()) == []
    assert list(op.drain()) == []
    assert op.metrics.pages_read == 0
    op.close()


def test_an_empty_batch_is_accepted_and_changes_nothing(name: str, table: MasterTable) -> None:
    op = make(name, table)
    assert op.offer(STREAM.slice(0, 0)) == 0
    assert op.pending == 0
    assert rows(list(ss.run(op, [STREAM.slice(0, 0), STREAM, STREAM.slice(0, 0)]))) == MATCHING


def test_offering_goes_on_after_a_drain(name: str, table: MasterTable) -> None:
    op = make(name, table)
    for _ in range(3):
        assert op.offer(STREAM) == STREAM.num_rows
        assert rows(list(op.drain())) == MATCHING
        assert op.pending == 0
    op.close()


def test_a_full_stream_buffer_refuses_rows_and_says_how_many_it_took(name: str, table: MasterTable) -> None:
    op = make(name, table, memory="256KB")
    big = pa.concat_batches([STREAM] * 200)
    taken = op.offer(big)
    assert 0 < taken < big.num_rows
    assert op.pending == taken
    assert op.metrics.offers_refused == 1
    op.close()


def test_rows_wait_in_memory_of_the_operator_not_of_the_batch(name: str, table: MasterTable) -> None:
    op = make(name, table)
    before = pa.total_allocated_bytes()
    big = pa.concat_batches([STREAM] * 1000)
    op.offer(big.slice(0, 10))
    del big
    assert pa.total_allocated_bytes() - before < 100_000
    op.close()


def test_a_budget_below_the_least_names_the_least_and_the_least_works(name: str, table: MasterTable) -> None:
    options: dict[str, Any] = {"b": 1} if name == "meshjoin" else {}
    with pytest.raises(BudgetTooSmall, match=r"memory=1000 bytes is too small .* give at least (\d+) bytes") as caught:
        ss.operator(name, table, STREAM.schema, on="id", memory=1000, **options)
    least = 1000
    while True:  # the least depends a little on the budget itself
        try:
            op = ss.operator(name, table, STREAM.schema, on="id", memory=least, **options)
            break
        except BudgetTooSmall as error:
            named = int(str(error).split("at least ")[1].split(" bytes")[0])
            assert named > least
            least = named
    results = []
    for batch in ss.run(op, [STREAM]):
        assert op.memory().total_bytes <= least
        results.append(batch)
    assert rows(results) == MATCHING
    assert "\n" not in str(caught.value)


def test_results_must_be_read_before_the_next_call(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.offer(STREAM)
    unread = op.step()
    for call in (op.step, op.snapshot, lambda: op.offer(STREAM), lambda: list(op.drain())):
        with pytest.raises(OperatorMisuse, match="exhaust the iterator"):
            call()
    first = rows(list(unread))
    assert first + rows(list(op.drain())) == MATCHING
    op.close()


def test_a_closed_operator_says_so(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.close()
    op.close()
    with pytest.raises(OperatorMisuse, match="closed"):
        op.offer(STREAM)


def test_a_batch_of_another_schema_is_refused_and_nothing_is_taken(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.offer(STREAM)
    other_type = pa.record_batch({"id": ["1"], "amount": [1.0]})
    other_name = pa.record_batch({"id": [1], "amounts": [1.0]})
    for batch, complaint in ((other_type, "'id' arrived as string, declared was int64"), (other_name, "amounts")):
        with pytest.raises(SchemaMismatch, match=complaint):
            op.offer(batch)
    assert rows(list(op.drain())) == MATCHING
    op.close()


def test_batches_that_declare_nullability_otherwise_are_joined_together(name: str, table: MasterTable) -> None:
    strict = pa.schema([field.with_nullable(False) for field in STREAM.schema])
    op = make(name, table)
    for batch in (STREAM, pa.RecordBatch.from_arrays(STREAM.columns, schema=strict)):
        assert op.offer(batch) == STREAM.num_rows
    assert rows(list(op.drain())) == 2 * MATCHING
    op.close()


def test_a_damaged_page_fails_the_step_and_the_operator_stays_failed(name: str, table: MasterTable) -> None:
    data = next(Path(table.path).glob("data/*b00000.arrow"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    op = make(name, table)
    op.offer(STREAM)
    with pytest.raises(DamagedTable, match=data.name):
        list(op.drain())
    with pytest.raises(OperatorMisuse, match="restore its last snapshot"):
        op.offer(STREAM)
    op.close()


def test_a_snapshot_of_another_join_is_refused(name: str, table: MasterTable) -> None:
    op = make(name, table)
    op.offer(STREAM)
    snapshot = op.snapshot()
    op.close()
    left = ss.operator(name, table, STREAM.schema, on="id", how="left", memory="1MB")
    with pytest.raises(SnapshotMismatch, match="how 'inner', this operator 'left'"):
        left.restore(snapshot)
    newer = make(name, table.append(MASTER.slice(0, 1)))
    with pytest.raises(SnapshotMismatch, match="version 1, this operator 2"):
        newer.restore(snapshot)
    used = make(name, table)
    used.offer(STREAM)
    with pytest.raises(OperatorMisuse, match="nothing yet"):
        used.restore(snapshot)
    for operator in (left, newer, used):
        operator.close()


def test_a_snapshot_restores_into_a_larger_budget_and_not_into_a_smaller_one(name: str, table: MasterTable) -> None:
    op = make(name, table, memory="1MB")
    many = pa.concat_batches([STREAM] * 100)
    op.offer(many)
    assert rows(list(op.step())) > 0
    op.offer(many)
    snapshot = op.snapshot()
    rest = rows(list(op.drain()))
    op.close()
    larger = make(name, table, memory="8MB")
    larger.restore(snapshot)
    assert rows(list(larger.drain())) == rest
    larger.close()
    smaller = make(name, table, memory="160KB")
    with pytest.raises(BudgetTooSmall, match="the memory it was taken with"):
        smaller.restore(snapshot)
    with pytest.raises(OperatorMisuse, match="failed"):  # it may hold a part of the tuples
        list(smaller.drain())
    smaller.close()


@pytest.mark.parametrize("order", ["any", "stream"])
@pytest.mark.parametrize("how", ["inner", "semi"])
def test_long_rows_among_short_ones_do_not_break_the_budget(
    name: str, tmp_path: Path, order: Literal["any", "stream"], how: Literal["inner", "semi"]
) -> None:
    """A few long rows that many stream tuples match: what is being built counts, whatever the average row is."""
    labels = ["short"] * 2000
    labels[7] = "l" * 40_000
    master = pa.table({"id": [f"key {n}" for n in range(2000)], "label": labels})
    table = ss.stage(master, tmp_path / "long", key="id", layout=algorithm(name).layouts[0], page_bytes="64KB")
    stream = pa.record_batch({"id": ["key 7"] * 500 + [f"key {n}" for n in range(500)]})
    memory = 4 << 20
    op = ss.operator(name, table, stream.schema, on="id", how=how, memory=memory, order=order)
    before = pa.total_allocated_bytes()
    op.offer(stream)
    seen = 0
    while op.pending:
        for batch in op.step():
            seen += batch.num_rows
            assert batch.nbytes <= memory // 16 + 50_000
            assert pa.total_allocated_bytes() - before <= memory
        assert op.memory().total_bytes <= memory
    op.close()
    assert seen == 1000


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_different_keys_with_one_code_are_told_apart(
    name: str, how: Literal["inner", "left", "semi", "anti"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collide(monkeypatch)
    master = pa.table({"id": [f"key {n % 30}" for n in range(60)], "label": range(60)})
    stream = pa.record_batch({"id": [f"key {n % 50}" for n in range(400)], "number": range(400)})
    table = ss.stage(master, tmp_path / "master", key="id", layout=algorithm(name).layouts[0], page_bytes=1024)
    op = ss.operator(name, table, stream.schema, on="id", how=how, memory="1MB")
    results = oracle.rows_of(ss.run(op, [stream.slice(0, 200), stream.slice(200)]))
    expected = oracle.join([stream], master, [("id", "id")], how, None, ["label"])
    assert oracle.multiset(results) == oracle.multiset(expected)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_null_keys_match_nothing_on_either_side(
    name: str, how: Literal["inner", "left", "semi", "anti"], kind: pa.DataType, tmp_path: Path
) -> None:
    def keys(numbers: list[int | None]) -> pa.Array:
        return pa.array([number if number is None or kind == pa.int64() else str(number) for number in numbers], kind)

    # 0 stands below a NULL in an array, and is a key as well.
    master = pa.table({"id": keys([None, 0, 1, None, 2, 2]), "label": range(6)})
    stream = pa.record_batch({"id": keys([None, 0, 1, 2, None, 9] * 20), "number": range(120)})
    table = ss.stage(master, tmp_path / "master", key="id", layout=algorithm(name).layouts[0], page_bytes=1024)
    op = ss.operator(name, table, stream.schema, on="id", how=how, memory="1MB")
    results = oracle.rows_of(ss.run(op, [stream.slice(0, 60), stream.slice(60)]))
    expected = oracle.join([stream], master, [("id", "id")], how, None, ["label"])
    assert oracle.multiset(results) == oracle.multiset(expected)


def test_what_is_read_at_once_is_no_more_than_the_report_counts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report goes by the plan; the memory to read into is taken apart from it."""
    reading: list[int] = []
    make_read_ahead = ReadAhead.__init__

    def noting(self: ReadAhead, reader: PageReader, buffer_bytes: int) -> None:
        reading.append(ReadAhead.bytes_for(len(reader.header), buffer_bytes))
        make_read_ahead(self, reader, buffer_bytes)

    monkeypatch.setattr(ReadAhead, "__init__", noting)
    wide = pa.table({"id": range(200), "label": ["w" * 3000] * 200})  # pages are large beside what is kept for a row
    table = ss.stage(wide, tmp_path / "wide", key="id", layout=algorithm(name).layouts[0], page_bytes=4096)
    op = make(name, table, memory="2MB")
    assert all(nbytes <= op.memory().components["disk buffer"] for nbytes in reading)
    op.close()


@pytest.mark.parametrize("column", ["__number__", "__matched__", "number", "matched", ""])
def test_any_column_name_may_be_used(name: str, tmp_path: Path, column: str) -> None:
    table = ss.stage(
        pa.table({"id": [1, 2], f"{column}m": [5, 6]}), tmp_path / "m", key="id", layout=algorithm(name).layouts[0]
    )
    stream = pa.record_batch({"id": [2, 1], column: [1, 2]})
    op = ss.operator(name, table, stream.schema, on="id", memory="1MB", order="stream")
    op.offer(stream)
    snapshot = op.snapshot()
    op.close()
    op = ss.operator(name, table, stream.schema, on="id", memory="1MB", order="stream")
    op.restore(snapshot)
    assert [tuple(row.values()) for batch in op.drain() for row in batch.to_pylist()] == [(2, 1, 6), (1, 2, 5)]
    op.close()


def test_projected_columns_and_renamed_keys(name: str, tmp_path: Path) -> None:
    master = pa.table({"cust": [1, 2], "city": ["Oslo", "Rome"], "zip": ["1", "2"]})
    table = ss.stage(master, tmp_path / "m", key="cust", layout=algorithm(name).layouts[0])
    stream = pa.record_batch({"buyer": pa.array([2, 2, 5], pa.int32())})
    op = ss.operator(name, table, stream.schema, on={"buyer": "cust"}, columns=["zip", "cust"], memory="1MB")
    results = pa.Table.from_batches(list(ss.run(op, [stream])))
    assert results.to_pylist() == [{"buyer": 2, "zip": "2", "cust": 2}] * 2
    assert results.schema.field("buyer").type == pa.int32()


def test_an_unknown_option_is_named(name: str, table: MasterTable) -> None:
    with pytest.raises(ss.SemistreamError, match="speed"):
        ss.operator(name, table, STREAM.schema, on="id", speed=11)
