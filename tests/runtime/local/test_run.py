"""Running an operator over a stream in this process."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, OperatorMisuse, SchemaMismatch
from semistream.operators.registry import algorithm_names
from semistream.storage import MasterTable
from tests.runtime.local.fake_operator import FakeOperator, batches, keys


def test_all_batches_are_joined_and_the_operator_is_closed_at_the_end() -> None:
    op = FakeOperator()
    assert keys(ss.run(op, batches(2, 0, 3))) == [0, 1, 2, 3, 4]
    assert (op.pending, op.closed) == (0, 1)


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
def test_an_empty_stream_has_no_results_and_closes_the_operator(sizes: tuple[int, ...]) -> None:
    op = FakeOperator()
    assert list(ss.run(op, batches(*sizes))) == []
    assert op.closed == 1


def test_a_full_buffer_is_stepped_until_the_rest_of_the_batch_was_taken() -> None:
    op = FakeOperator(capacity=3, per_step=2)
    assert keys(ss.run(op, batches(10, 1))) == list(range(11))
    assert op.offered[:3] == [10, 7, 5]
    assert op.metrics.tuples_in == 11


def test_the_stream_is_read_only_as_fast_as_the_operator_takes_it() -> None:
    read = []

    def stream() -> Iterator[pa.RecordBatch]:
        for batch in batches(2, 2, 2):
            read.append(batch.num_rows)
            yield batch

    results = ss.run(FakeOperator(capacity=2, per_step=1), stream())
    assert read == []
    next(results)
    assert len(read) == 2
    assert len(keys(results)) == 5


def test_the_operator_is_closed_when_reading_stops_early() -> None:
    op = FakeOperator(per_step=1)
    results = ss.run(op, batches(5))
    next(results)
    assert op.closed == 0
    results.close()
    assert op.closed == 1


def test_the_operator_is_closed_when_it_fails() -> None:
    op = FakeOperator(fail_at=3)
    with pytest.raises(ZeroDivisionError):
        list(ss.run(op, batches(2, 3)))
    assert op.closed == 1


def test_the_operator_is_closed_when_the_stream_fails() -> None:
    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(2)
        raise ConnectionError

    op = FakeOperator()
    with pytest.raises(ConnectionError):
        list(ss.run(op, stream()))
    assert op.closed == 1


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    path: Path = tmp_path_factory.mktemp("run") / "t"
    rows = pa.table({"k": list(range(200)), "v": [f"value {k}" for k in range(200)]})
    return ss.stage(rows, path, key="k", layout="clustered", page_bytes=1024)


@pytest.mark.parametrize("name", algorithm_names())
def test_a_batch_far_larger_than_the_budget_is_joined_inside_it(name: str, table: MasterTable) -> None:
    batch = pa.record_batch({"k": [n % 400 for n in range(60_000)], "n": list(range(60_000))})
    op = ss.operator(name, table, batch.schema, on="k", memory=200_000)
    assert batch.nbytes > 4 * 200_000
    seen = set()
    for result in ss.run(op, [batch]):
        report = op.memory()
        assert report.total_bytes <= report.budget_bytes == 200_000
        seen.update(result.column("n").to_pylist())
    assert seen == {n for n in range(60_000) if n % 400 < 200}
    assert op.metrics.offers_refused > 0
    with pytest.raises(OperatorMisuse, match="closed"):
        op.step()


@pytest.mark.parametrize("name", algorithm_names())
def test_empty_batches_and_an_empty_stream_are_fine(name: str, table: MasterTable) -> None:
    schema = pa.schema([("k", pa.int64())])
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for stream in ([], [empty], [empty, empty]):
        op = ss.operator(name, table, schema, on="k", how="left", memory="1MB")
        assert list(ss.run(op, stream)) == []
        assert op.metrics.pages_read == 0


@pytest.mark.parametrize("name", algorithm_names())
def test_a_schema_that_changes_between_batches_is_an_error_and_closes_the_operator(
    name: str, table: MasterTable
) -> None:
    op = ss.operator(name, table, pa.schema([("k", pa.int64())]), on="k", memory="1MB")
    with pytest.raises(SchemaMismatch, match="stream column 'k' arrived as int32, declared was int64: cast it"):
        list(ss.run(op, [pa.record_batch({"k": [1]}), pa.record_batch({"k": pa.array([1], pa.int32())})]))
    with pytest.raises(OperatorMisuse, match="closed"):
        op.offer(pa.record_batch({"k": [1]}))


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("dtype", [pa.dictionary(pa.int32(), pa.string()), pa.string_view()], ids=str)
def test_a_stream_column_is_carried_or_refused_before_any_work(
    name: str, dtype: pa.DataType, table: MasterTable
) -> None:
    batch = pa.record_batch({"k": [5, 6], "t": pa.array(["x", None]).cast(dtype)})
    try:
        op = ss.operator(name, table, batch.schema, on="k", memory="1MB")
    except ss.SemistreamError:
        return
    rows = [row for result in ss.run(op, [batch]) for row in result.to_pylist()]
    assert [row["t"] for row in rows] == ["x", None]


def test_an_unknown_algorithm_and_a_bad_budget_are_errors(table: MasterTable) -> None:
    schema = pa.schema([("k", pa.int64())])
    with pytest.raises(InvalidArgument, match="algorithm 'hashjoin' is unknown: use one of"):
        ss.operator("hashjoin", table, schema, on="k")
    with pytest.raises(InvalidArgument, match="memory=0 must be at least 1 byte"):
        ss.operator("meshjoin", table, schema, on="k", memory=0)
    with pytest.raises(InvalidArgument, match="memory='much' is not a size"):
        ss.operator("meshjoin", table, schema, on="k", memory="much")
