"""Output batches of bounded size."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.semantics import How, JoinSpec
from semistream.state.results import ResultBuilder, batch_bytes_for
from semistream.state.tuple_store import TupleStore

STREAM = pa.schema([("k", pa.int64()), ("t", pa.string())])
MASTER = pa.schema([("k", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(9, 2))])


def _store(texts: list[str]) -> TupleStore:
    store = TupleStore(STREAM, max(1, len(texts)), sum(map(len, texts)))
    batch = pa.record_batch([pa.array(range(len(texts)), pa.int64()), pa.array(texts, pa.string())], schema=STREAM)
    store.put(np.arange(len(texts), dtype=np.int32), batch)
    return store


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 2000), st.integers(0, 50))
def test_portions_cover_all_rows_and_only_single_rows_exceed_the_bound(
    sizes: list[int], max_bytes: int, other: int
) -> None:
    store = _store(["x" * size for size in sizes])
    builder = ResultBuilder(JoinSpec.resolve(STREAM, MASTER, "k"), 100, max_bytes)
    slots = np.arange(len(sizes), dtype=np.int32)
    portions = builder.portions(store, slots, np.full(len(sizes), other))
    assert [slot for portion in portions for slot in slots[portion].tolist()] == slots.tolist()
    for portion in portions:
        chosen = slots[portion]
        assert chosen.size > 0
        assert chosen.size == 1 or sum(sizes[slot] + store.fixed_bytes + other for slot in chosen) <= max_bytes


def test_portions_without_text_are_of_equal_size() -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    builder = ResultBuilder(JoinSpec.resolve(schema, MASTER, "k"), 100, 100)
    portions = builder.portions(TupleStore(schema, 20, 0), np.arange(20, dtype=np.int32), np.full(20, 2))
    assert [portion.indices(20)[:2] for portion in portions] == [(0, 10), (10, 20)]
    assert builder.portions(TupleStore(schema, 20, 0), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)) == []


def test_joined_rows_stand_beside_their_master_rows() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, "k", columns=["name"])
    run = pa.record_batch([[7, 8], ["seven", None], pa.nulls(2, pa.decimal128(9, 2))], schema=MASTER)
    rows, slots = np.array([1, 0, 0], dtype=np.int32), np.array([0, 2, 1], dtype=np.int32)
    joined = ResultBuilder(spec, 10, 1000).joined(_store(["a", "b", "c"]), slots, run, rows)
    joined.validate(full=True)
    assert joined.schema.equals(spec.output_schema)
    assert joined.to_pylist() == [
        {"k": 0, "t": "a", "name": None},
        {"k": 2, "t": "c", "name": "seven"},
        {"k": 1, "t": "b", "name": "seven"},
    ]


@pytest.mark.parametrize(("how", "nulls"), [("left", {"name": None, "price": None}), ("anti", {})])
def test_unmatched_tuples_have_null_master_columns_if_any(how: How, nulls: dict[str, None]) -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, "k", how)
    store = _store(["a", "b"])
    batch = ResultBuilder(spec, 10, 1000).stream_only(store.take(np.array([1], dtype=np.int32)))
    assert batch.schema.equals(spec.output_schema)
    assert batch.to_pylist() == [{"k": 1, "t": "b", **nulls}]


@pytest.mark.parametrize("budget", [1, 10**6, 10**9, 10**12])
def test_a_builder_is_small_beside_its_budget_and_counts_its_arrays(budget: int) -> None:
    builder = ResultBuilder.for_budget(JoinSpec.resolve(STREAM, MASTER, "k"), budget)
    assert builder.nbytes == builder.max_rows * 8 + batch_bytes_for(budget)
    assert 256 <= builder.max_rows <= 65536
