"""MESHJOIN: the paper's example, and what the paper leaves open."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import InvalidArgument, KeyTypeMismatch, TupleTooLarge, UnsupportedType
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.depth import examples
from tests.operators.inside import inside

SETTINGS = examples(0.4)


def table_of_rows(path: Path, rows: int, rows_per_page: int = 1) -> ss.MasterTable:
    """Stage a heap with few rows to a page."""
    master = pa.table({"row": pa.array(range(rows)), "zero": pa.array([0] * rows)})
    return ss.stage(master, path, key="row", layout="heap", page_bytes=16 * rows_per_page)


def meshjoin(table: ss.MasterTable, schema: pa.Schema, **arguments: Any) -> StepOperator:
    return ss.operator("meshjoin", table, schema, memory="1MB", **arguments)


class TestPaperExample:
    """S3 section 3.1: R has two pages, the window holds the two most recent tuples, one tuple arrives per step."""

    def test_each_step_joins_one_page_with_the_window_and_expires_one_tuple(self, tmp_path: Path) -> None:
        table = table_of_rows(tmp_path / "r", rows=2)
        assert table.num_pages == 2
        schema = pa.schema([("s", pa.int64())])
        # Every tuple matches every row, so that the output shows which pairs met.
        op = meshjoin(table, schema, condition=ss.compare("s", ">=", "zero"), columns=["row"], b=1, w=1)

        def step(arriving: int | None) -> list[tuple[int, int]]:
            if arriving is not None:
                op.offer(pa.record_batch([pa.array([arriving])], schema=schema))
            pairs = [(row["s"], row["row"]) for batch in op.step() for row in batch.to_pylist()]
            return sorted(pairs)

        assert step(1) == [(1, 0)]  # t = 0: s1 meets p1
        assert op.pending == 1
        assert step(2) == [(1, 1), (2, 1)]  # t = 1: p2 meets both, s1 has met all of R
        assert op.pending == 1
        assert step(3) == [(2, 0), (3, 0)]  # t = 2: the scan resumes at p1, s3 takes the place of s1
        assert op.pending == 1
        assert step(None) == [(3, 1)]  # the stream is silent: s3 still meets p2
        assert op.pending == 0
        assert step(None) == []
        assert op.metrics.cycles == 2
        op.close()


@SETTINGS
@given(
    rows=st.integers(1, 20),
    rows_per_page=st.integers(1, 6),
    b=st.integers(1, 10),
    w=st.integers(1, 7),
    before=st.integers(0, 12),
    chunks=st.lists(st.integers(0, 9), max_size=12),
)
def test_every_tuple_meets_every_page_exactly_once(
    tmp_path_factory: pytest.TempPathFactory,
    rows: int,
    rows_per_page: int,
    b: int,
    w: int,
    before: int,
    chunks: list[int],
) -> None:
    """Theorem 3.1, for every N_R, b, w, stream length, pause and position of the scan."""
    table = table_of_rows(tmp_path_factory.mktemp("r") / "r", rows, rows_per_page)
    schema = pa.schema([("s", pa.int64())])
    op = meshjoin(table, schema, condition=ss.compare("s", ">=", "zero"), columns=["row"], b=b, w=w)
    # An earlier tuple leaves the scan at some position.
    op.offer(pa.record_batch([pa.array([10**6])], schema=schema))
    for _ in range(before):
        list(op.step())
    met: list[tuple[int, int]] = []
    number = 0
    for chunk in chunks:
        arriving = list(range(number, number + chunk))
        number += chunk
        assert op.offer(pa.record_batch([pa.array(arriving, pa.int64())], schema=schema)) == chunk
        met += [(row["s"], row["row"]) for batch in op.step() for row in batch.to_pylist()]
        op.check()
    met += [(row["s"], row["row"]) for batch in op.drain() for row in batch.to_pylist()]
    op.close()
    expected = [(s, r) for s in range(number) for r in range(rows)]
    assert sorted(pair for pair in met if pair[0] < 10**6) == expected


@SETTINGS
@given(data=st.data(), rows=st.integers(1, 12))
def test_b_and_w_change_in_flight_without_changing_the_result(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int
) -> None:
    table = table_of_rows(tmp_path_factory.mktemp("r") / "r", rows)
    schema = pa.schema([("s", pa.int64()), ("text", pa.string())])
    op = meshjoin(table, schema, condition=ss.compare("s", ">=", "zero"), columns=["row"])
    met: list[tuple[int, int]] = []
    number = 0
    for _ in range(data.draw(st.integers(1, 10))):
        count = data.draw(st.integers(0, 5))
        arriving = [{"s": number + n, "text": "x" * n} for n in range(count)]
        number += op.offer(pa.RecordBatch.from_pylist(arriving, schema))
        for _ in range(data.draw(st.integers(0, 3))):
            met += [(row["s"], row["row"]) for batch in op.step() for row in batch.to_pylist()]
            op.check()
        b, w = data.draw(st.integers(1, 13)), data.draw(st.one_of(st.none(), st.integers(1, 4)))
        op.retune(b=b, w=w)
        op.check()
        assert inside(op).b == b
        assert w is None or inside(op).w == w
    met += [(row["s"], row["row"]) for batch in op.drain() for row in batch.to_pylist()]
    op.close()
    assert sorted(met) == [(s, r) for s in range(number) for r in range(rows)]


@pytest.mark.parametrize("on", [None, "id"], ids=["condition alone", "key and condition"])
@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        (ss.between("value", "low", "high"), [10, 11, 19, 20]),
        (ss.between("value", "low", "high", closed="low"), [10, 11, 19]),
        (ss.between("value", "low", "high", closed="high"), [11, 19, 20]),
        (ss.between("value", "low", "high", closed="neither"), [11, 19]),
        (ss.compare("value", "<", "high"), [9, 10, 11, 19]),
        (ss.compare("value", "<=", "high"), [9, 10, 11, 19, 20]),
        (ss.compare("value", ">", "low"), [11, 19, 20, 21]),
        (ss.compare("value", ">=", "low"), [10, 11, 19, 20, 21]),
    ],
    ids=str,
)
def test_an_end_belongs_to_a_condition_only_where_it_says_so(
    tmp_path: Path, on: str | None, condition: Any, matching: list[int]
) -> None:
    table = ss.stage(pa.table({"id": [1], "low": [10], "high": [20]}), tmp_path / "r", key="id", layout="heap")
    values = [9, 10, 11, 19, 20, 21, None]
    stream = pa.record_batch({"id": [1] * len(values), "value": pa.array(values, pa.int64())})
    op = meshjoin(table, stream.schema, on=on, condition=condition, columns=["low"])
    assert [row["value"] for batch in ss.run(op, [stream]) for row in batch.to_pylist()] == matching


def test_retuning_that_leaves_no_room_for_pending_tuples_is_refused_and_harmless(tmp_path: Path) -> None:
    master = pa.table({"id": range(20_000), "payload": ["p" * 100] * 20_000})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap", page_bytes="16KB")
    stream = pa.record_batch({"id": np.arange(200_000) % 20_000})
    op = ss.operator("meshjoin", table, stream.schema, on="id", memory="1MB", b=1)
    taken = results = 0
    while (
        inside(op).stream.capacity_tuples == 0
        or inside(op).stream.tuples_in_window < inside(op).stream.capacity_tuples * 0.9
    ):
        taken += op.offer(stream.slice(taken))
        results += sum(batch.num_rows for batch in op.step())
    with pytest.raises(InvalidArgument, match=r"step or drain before|step before"):
        op.retune(b=15)
    assert inside(op).b == 1
    op.check()
    results += sum(batch.num_rows for batch in op.drain())
    op.close()
    assert results == taken


def test_one_read_serves_the_whole_window(tmp_path: Path) -> None:
    table = table_of_rows(tmp_path / "r", rows=10)
    stream = pa.record_batch({"row": np.arange(1000) % 10})
    op = meshjoin(table, stream.schema, on="row", columns=[], b=2, w=1000)
    op.offer(stream)
    assert sum(batch.num_rows for batch in op.drain()) == 1000
    op.close()
    assert op.metrics.cycles == 1
    assert op.metrics.pages_read <= 12  # a scan of ten pages, and the read ahead of the next two
    assert op.metrics.seeks <= 2  # to the start, and back to it


def test_results_in_stream_order_spill_and_stay_inside_the_budget(tmp_path: Path) -> None:
    master = pa.table({"id": [n % 5 for n in range(2000)], "label": [f"row {n} " * 5 for n in range(2000)]})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap", page_bytes=4096)
    stream = pa.record_batch({"id": [n % 6 for n in range(300)], "number": range(300)})
    op = ss.operator("meshjoin", table, stream.schema, on="id", how="left", memory="400KB", order="stream", w=40)
    op.offer(stream)
    numbers: list[int] = []
    while op.pending:
        for batch in op.step():
            numbers += batch.column("number").to_pylist()
        op.check()
    assert inside(op)._delivery._reorder is not None
    assert inside(op)._delivery._reorder.spilled_rows > 0
    op.close()
    expected = oracle.join([stream], master, [("id", "id")], "left", None, ["label"])
    assert numbers == [row[1] for row in expected]


def test_a_tuple_larger_than_the_first_ones_waits_for_a_reshaped_window(tmp_path: Path) -> None:
    master = pa.table({"id": range(50)})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap")
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    small = pa.RecordBatch.from_pylist([{"id": n, "text": ""} for n in range(40)], schema)
    large = pa.RecordBatch.from_pylist([{"id": n, "text": "x" * 5000} for n in range(10)], schema)
    op = meshjoin(table, schema, on="id")
    results = list(ss.run(op, [small, large, small]))
    assert sorted(len(row["text"]) for batch in results for row in batch.to_pylist()) == [0] * 80 + [5000] * 10


def test_a_tuple_larger_than_the_budget_is_refused_with_its_size(tmp_path: Path) -> None:
    table = table_of_rows(tmp_path / "r", rows=2)
    huge = pa.record_batch({"row": [1], "text": ["x" * 2_000_000]})
    op = meshjoin(table, huge.schema, on="row")
    with pytest.raises(TupleTooLarge, match="2000000 bytes of text"):
        op.offer(huge)
    op.close()


def test_nested_stream_columns_are_refused_with_a_remedy(tmp_path: Path) -> None:
    table = table_of_rows(tmp_path / "r", rows=1)
    schema = pa.schema([("row", pa.int64()), ("tags", pa.list_(pa.string()))])
    with pytest.raises(UnsupportedType, match=r"'tags' has type list<.*cast it"):
        meshjoin(table, schema, on="row")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on": "row", "b": 0}, InvalidArgument, "b=0 must be at least 1"),
        ({"on": "row", "w": -1}, InvalidArgument, "w=-1 must be at least 1"),
        ({"on": "row", "order": "random"}, InvalidArgument, "order='random' is unknown"),
        ({"on": "row", "io": "mmap"}, InvalidArgument, "io='mmap'"),
        ({"on": "row", "condition": ss.compare("text", "<", "label")}, UnsupportedType, "compares string"),
        ({"on": "row", "condition": ss.compare("row", "<", "label")}, KeyTypeMismatch, "does not compare"),
    ],
)
def test_bad_settings_name_the_value_and_the_remedy(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    master = pa.table({"row": [1], "label": ["a"]})
    table = ss.stage(master, tmp_path / "r", key="row", layout="heap")
    schema = pa.schema([("row", pa.int64()), ("text", pa.string())])
    with pytest.raises(error, match=message):
        meshjoin(table, schema, **arguments)
