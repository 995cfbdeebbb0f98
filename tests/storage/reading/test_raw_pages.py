"""Rows copied out of serialised batches equal the rows that Arrow takes from the batches themselves."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import DamagedTable, UnsupportedType
from semistream.storage.reading.raw_pages import PageShape, RawPages, RowGather

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-5, 5),
    pa.int16(): st.integers(-5, 5),
    pa.uint8(): st.integers(0, 255),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=9),
    pa.large_binary(): st.binary(max_size=9),
    pa.decimal128(20, 2): st.integers(-9, 9).map(Decimal),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.list_(pa.int32()): st.lists(st.integers(0, 9), max_size=3),
    pa.struct([("a", pa.int8()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.integers(0, 9), "b": st.text(max_size=2)}
    ),
    pa.list_(pa.int8(), 2): st.lists(st.integers(0, 9), min_size=2, max_size=2),
    pa.null(): st.none(),
}


@st.composite
def _batches(draw: st.DrawFn) -> list[pa.RecordBatch]:
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    schema = pa.schema([(f"c{at}", dtype) for at, dtype in enumerate(types)])

    def batch() -> pa.RecordBatch:
        rows = draw(st.integers(1, 9))
        columns = []
        for dtype in types:
            value = TYPES[dtype] if draw(st.booleans()) else st.none() | TYPES[dtype]
            columns.append(pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), dtype))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return [batch() for _ in range(draw(st.integers(1, 4)))]


def _in_one_piece(batches: list[pa.RecordBatch], shape: PageShape) -> RawPages:
    messages = [bytes(batch.serialize()) for batch in batches]
    starts = np.cumsum([0, *map(len, messages)])
    return shape.pages(np.frombuffer(b"".join(messages) + bytes(8), dtype=np.uint8).copy(), starts[:-1])


@given(_batches(), st.data())
def test_gathered_rows_equal_those_that_arrow_takes(batches: list[pa.RecordBatch], data: st.DataObject) -> None:
    names = data.draw(st.permutations(batches[0].schema.names))[: data.draw(st.integers(1, batches[0].num_columns))]
    shape = PageShape(batches[0].schema, names)
    pages = _in_one_piece(batches, shape)
    alone = [PageShape(batch.schema, names).serialised(batch) for batch in batches]
    size = data.draw(st.integers(1, 20))
    gather = RowGather(shape, size)
    expected: list[dict[str, Any]] = [dict.fromkeys(names)] * size
    places = data.draw(st.lists(st.integers(0, size - 1), unique=True))
    for number, batch in enumerate(batches):
        here = np.array(places[number :: len(batches)], dtype=np.int64)
        rows = np.array([data.draw(st.integers(0, batch.num_rows - 1)) for _ in here], dtype=np.int64)
        if data.draw(st.booleans()):
            gather.add(pages, np.full(rows.size, number), rows, here)
        else:
            gather.add(alone[number], np.zeros(rows.size, dtype=np.int64), rows, here)
        taken = batch.select(names).to_pylist()
        for place, row in zip(here, rows, strict=True):
            expected[place] = taken[row]
    result = gather.finish()
    result.validate(full=True)
    assert result.to_pylist() == expected


def test_row_bytes_count_the_text_of_every_row() -> None:
    batch = pa.record_batch({"id": [1, 2, 3], "city": ["Rome", None, "Reykjavik"]})
    shape = PageShape(batch.schema)
    gather = RowGather(shape, 3)
    gather.add(shape.serialised(batch), np.zeros(3, dtype=np.int64), np.array([2, 1, 0]), np.arange(3))
    assert gather.row_bytes().tolist() == [8 + 4 + 9, 8 + 4, 8 + 4 + 4]


def test_a_message_of_another_schema_is_refused() -> None:
    batch = pa.record_batch({"id": [1, 2], "city": ["a", "b"]})
    with pytest.raises(DamagedTable, match="not a record batch of the table's schema"):
        PageShape(pa.schema([("id", pa.int64())])).serialised(batch)


def test_columns_whose_rows_share_memory_are_refused() -> None:
    schema = pa.schema([("text", pa.string_view())])
    with pytest.raises(UnsupportedType, match="stage it as plain text"):
        PageShape(schema)
