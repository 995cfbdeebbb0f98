"""The bytes that rows take, which pages and output batches are cut by."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.semantics import How
from semistream.kernels.arrow_views import with_own_items
from semistream.storage.files.row_sizes import batch_overhead_bytes, row_bits
from semistream.testing.cases import HOWS

LONG, MANY = 7_000, 200
PADDING_BYTES = 256

NESTED = {
    "list": pa.array([[1], None, [], [2, None, 3]], pa.list_(pa.int32())),
    "large list": pa.array([["a"], None, [], ["bb", None, "c" * 90]], pa.large_list(pa.string())),
    "list of lists": pa.array([[[1], []], None, [], [None, [2, 3]]], pa.list_(pa.list_(pa.int64()))),
    "fixed list": pa.array([["a", "b"], None, ["cc", None], ["d" * 50, ""]], pa.list_(pa.string(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y" * 70}, {"a": 2, "b": None}]),
    "map": pa.array([[("a", 1)], None, [], [("b" * 60, None)]], pa.map_(pa.string(), pa.int32())),
}


@pytest.mark.parametrize("four", NESTED.values(), ids=NESTED.keys())
def test_nested_rows_are_measured_one_by_one(four: pa.Array) -> None:
    copies = 4096
    column = four.take(pa.array([0, *np.repeat([0, 1, 2, 3], copies)])).slice(1)
    bits = row_bits(pa.RecordBatch.from_arrays([column], ["v"])).reshape(4, copies)
    for row in range(4):
        alike = with_own_items(pa.RecordBatch.from_arrays([column.slice(row * copies, copies)], ["v"]))
        written = alike.serialize().size - batch_overhead_bytes(alike.schema)
        measured = int(bits[row].sum()) // 8
        # A bit marks a NULL wherever the whole column has any, and Arrow pads each of a few buffers.
        assert written - PADDING_BYTES <= measured <= written + copies + PADDING_BYTES


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_pages_keep_to_their_size_where_long_nested_rows_lie_together(tmp_path: Path, layout: str) -> None:
    values = [[0]] * 8_000 + [[1] * LONG] * 50 + [[0]] * 8_000
    rows = pa.table({"k": range(len(values)), "v": pa.array(values, pa.list_(pa.int64()))})
    table = ss.stage(rows, tmp_path / "t", key="k", layout=layout)
    assert np.max(table.pages.length) <= table.page_bytes


@pytest.mark.parametrize("layout", ["heap", "clustered"])
@pytest.mark.parametrize("memory", ["512MB", "8MB"])
def test_pages_of_empty_lists_hold_nothing_of_long_ones(tmp_path: Path, layout: str, memory: str) -> None:
    values = pa.array([["x"] * LONG] * 200 + [[]] * 60_000, pa.list_(pa.string()))
    rows = pa.table({"k": range(len(values)), "v": values})
    table = ss.stage(rows, tmp_path / "t", key="k", layout=layout, memory=memory)
    assert np.max(table.pages.length[200:]) <= table.page_bytes
    assert table.num_bytes < 1.2 * rows.nbytes


@pytest.mark.parametrize("name", ["inlj", "cinlj", "sweepjoin"])
def test_empty_lists_of_a_stream_wait_without_the_long_ones_beside_them(tmp_path: Path, name: str) -> None:
    table = ss.stage(pa.table({"k": range(10), "v": range(10)}), tmp_path / "t", key="k")
    texts = pa.array([["x"] * 100] * 1_000 + [[]] * 1_000, pa.list_(pa.string()))
    stream = pa.record_batch({"k": [3] * 2_000, "texts": texts})
    op = ss.operator(name, table, stream.schema, on="k", memory="1MB")
    assert sum(batch.num_rows for batch in ss.run(op, [stream])) == 2_000


@pytest.mark.parametrize("name", ["meshjoin", "hybridjoin", "inlj", "sweepjoin"])
@pytest.mark.parametrize("how", HOWS)
def test_results_keep_to_their_memory_where_all_tuples_match_a_long_nested_row(
    tmp_path: Path, name: str, how: How
) -> None:
    values = [[0]] * 2_000
    values[7] = [1] * LONG
    rows = pa.table({"k": range(2_000), "v": pa.array(values, pa.list_(pa.int64()))})
    table = ss.stage(rows, tmp_path / "t", key="k")
    stream = pa.record_batch({"k": [7] * MANY})
    op = ss.operator(name, table, stream.schema, on="k", how=how, memory="2MB")
    batches = list(ss.run(op, [stream]))
    assert sum(batch.num_rows for batch in batches) == (0 if how == "anti" else MANY)
    assert max((batch.nbytes for batch in batches), default=0) <= (2 << 20) // 16
