"""INLJ: what is read for a look-up, and where a look-up could miss rows."""

from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, UnsupportedType
from semistream.testing import oracle

INT64 = np.iinfo(np.int64)


def join(table: ss.MasterTable, stream: pa.RecordBatch, w: int | None = None) -> tuple[list[oracle.Row], ss.Operator]:
    op = ss.operator("inlj", table, stream.schema, on="id", memory="1MB", w=w)
    return oracle.rows_of(ss.run(op, [stream])), op


def test_a_key_whose_rows_cross_pages_and_files_finds_all_of_them(tmp_path: Path) -> None:
    master = pa.table({"id": [1] * 10 + [5] * 300 + [9] * 10, "row": range(320)})
    table = ss.stage(master.slice(0, 200), tmp_path / "r", key="id", page_bytes=256)
    table = table.append(master.slice(200))
    assert table.pages.first_code is not None
    assert np.count_nonzero(table.pages.first_code == 5) > 5
    stream = pa.record_batch({"id": [5, 4, 1, 9]})
    rows, op = join(table, stream)
    assert rows == [(5, row) for row in range(10, 310)] + [(1, row) for row in range(10)] + [
        (9, row) for row in range(310, 320)
    ]
    assert op.metrics.tuples_without_match == 1


def test_the_smallest_integer_is_not_taken_for_a_null_key(tmp_path: Path) -> None:
    """Both have the same code, and NULL keys of the master lie on the same pages."""
    master = pa.table({"id": pa.array([None, INT64.min, None, INT64.max]), "row": range(4)})
    table = ss.stage(master, tmp_path / "r", key="id")
    stream = pa.record_batch({"id": pa.array([INT64.min, None, INT64.max, 0])})
    assert join(table, stream)[0] == [(INT64.min, 1), (INT64.max, 3)]


def test_a_page_in_the_pool_is_not_read_again(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": range(1000)}), tmp_path / "r", key="id", page_bytes=1024)
    assert table.pages.first_code is not None
    first_of_pages = table.pages.first_code[1:6].tolist()
    stream = pa.record_batch({"id": first_of_pages * 50})
    rows, op = join(table, stream, w=3)
    assert len(rows) == 250
    # A key that begins a page may also end the page before it.
    assert 5 <= op.metrics.pages_read <= 6
    assert 1 <= op.metrics.seeks <= op.metrics.pages_read


def test_pages_that_do_not_fit_the_pool_together_are_read_again(tmp_path: Path) -> None:
    master = pa.table({"id": range(400), "wide": ["x" * 4000] * 400})
    table = ss.stage(master, tmp_path / "r", key="id", page_bytes="8KB")
    stream = pa.record_batch({"id": list(range(0, 400, 4)) * 3})
    op = ss.operator("inlj", table, stream.schema, on="id", memory="200KB", columns=[])
    assert sum(batch.num_rows for batch in ss.run(op, [stream])) == 300
    assert op.metrics.pages_read > table.num_pages


@pytest.mark.parametrize("how", ["left", "anti"])
def test_tuples_whose_pages_do_not_fit_the_pool_together_are_answered_once(
    tmp_path: Path, how: Literal["left", "anti"]
) -> None:
    master = pa.table({"id": range(0, 400, 2), "wide": ["x" * 4000] * 200})
    table = ss.stage(master, tmp_path / "r", key="id", page_bytes="8KB")
    stream = pa.record_batch({"id": np.random.default_rng(5).integers(0, 400, 600)})
    op = ss.operator("inlj", table, stream.schema, on="id", memory="200KB", how=how)
    joined = [row[0] for row in oracle.rows_of(ss.run(op, [stream]))]
    keys = stream.column(0).to_pylist()
    assert joined == [key for key in keys if how == "left" or key % 2]
    assert op.metrics.pages_read > table.num_pages


@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
def test_keys_that_are_hashed_are_found_in_pages_with_null_keys(tmp_path: Path, io: str) -> None:
    keys = [None if number % 11 == 0 else f"k{number % 97}" for number in range(1000)]
    master = pa.table({"id": pa.array(keys), "row": range(1000)})
    table = ss.stage(master, tmp_path / "r", key="id", page_bytes=512).append(master.slice(0, 300))
    stream = pa.record_batch({"id": pa.array([*(f"k{number}" for number in range(120)), None])})
    op = ss.operator("inlj", table, stream.schema, on="id", memory="100KB", io=io)
    wanted = oracle.join(
        [stream], pa.concat_tables([master, master.slice(0, 300)]), [("id", "id")], "inner", None, ["row"]
    )
    assert oracle.multiset(oracle.rows_of(ss.run(op, [stream]))) == oracle.multiset(wanted)


def test_composite_keys_may_be_named_in_any_order(tmp_path: Path) -> None:
    master = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "row": range(3)})
    table = ss.stage(master, tmp_path / "r", key=["a", "b"], buckets=2)
    stream = pa.record_batch({"b": ["y", "x"], "a": [1, 2]})
    for on in (["a", "b"], ["b", "a"]):
        op = ss.operator("inlj", table, stream.schema, on=on, memory="1MB")
        assert oracle.rows_of(ss.run(op, [stream])) == [("y", 1, 1), ("x", 2, 2)]


def test_nested_stream_columns_pass_through(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": [1, 2]}), tmp_path / "r", key="id")
    stream = pa.record_batch({"id": [2, 3], "tags": [["a", "b"], []]})
    assert join(table, stream)[0] == [(2, ["a", "b"])]


@pytest.mark.parametrize("name", ["inlj", "cinlj", "sweepjoin"])
@pytest.mark.parametrize(
    ("dtype", "part"),
    [
        (pa.dictionary(pa.int8(), pa.string()), "it"),
        (pa.string_view(), "it"),
        (pa.list_view(pa.int64()), "it"),
        (pa.list_(pa.string_view()), "string_view"),
        (pa.struct([("x", pa.list_(pa.binary_view()))]), "binary_view"),
        (pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string())), "dictionary<.*>"),
    ],
)
def test_stream_columns_that_cannot_wait_are_refused_with_a_remedy(
    tmp_path: Path, name: str, dtype: pa.DataType, part: str
) -> None:
    table = ss.stage(pa.table({"id": [1, 2]}), tmp_path / "r", key="id")
    schema = pa.schema([("id", pa.int64()), ("note", dtype)])
    with pytest.raises(UnsupportedType, match=rf"'note' has type .* cast {part} to its plain value type"):
        ss.operator(name, table, schema, on="id")


def test_a_heap_or_another_column_than_the_key_is_refused_with_a_remedy(tmp_path: Path) -> None:
    master = pa.table({"id": [1], "other": [1]})
    heap = ss.stage(master, tmp_path / "heap", key="id", layout="heap")
    schema = pa.schema([("id", pa.int64()), ("mine", pa.int64())])
    with pytest.raises(InvalidArgument, match="layout='clustered', or use 'meshjoin'"):
        ss.operator("inlj", heap, schema, on="id")
    clustered = ss.stage(master, tmp_path / "clustered", key="id")
    with pytest.raises(InvalidArgument, match="join on the key, or use 'meshjoin'"):
        ss.operator("inlj", clustered, schema, on={"mine": "other"}, columns=[])
