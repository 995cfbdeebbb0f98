"""Batches that follow from the rows alone, however these were cut before."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semistream.runtime.spark.stateful.packing import regular_batches

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


@given(
    st.lists(st.none() | st.text(max_size=30), max_size=80),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
    st.integers(1, 12),
    st.integers(1, 60),
)
def test_cuts_do_not_depend_on_earlier_cuts(texts: list[str | None], cuts: list[int], rows: int, nbytes: int) -> None:
    table = pa.table([list(range(len(texts))), texts], schema=SCHEMA)
    pieces: list[pa.RecordBatch] = []
    at = 0
    while at < table.num_rows:
        size = cuts[len(pieces) % len(cuts)]
        # A copy, so that what lies in the memory of NULLs is not the same.
        pieces += pa.table(table.slice(at, size).to_pydict(), schema=SCHEMA).to_batches()
        at += size
    cut = list(regular_batches(pieces, rows, nbytes))
    assert cut == list(regular_batches(table.to_batches(), rows, nbytes))
    assert [row for batch in cut for row in batch.to_pylist()] == table.to_pylist()
    for batch in cut:
        text_bytes = sum(len((text or "").encode()) for text in batch.column("text").to_pylist())
        assert 0 < batch.num_rows <= rows
        assert text_bytes <= nbytes or batch.num_rows == 1
