"""Memory that no part holds: objects around decoded pages and slices, and results that have left."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.bench.measurements.peak_rss import PeakRss
from semistream.operators.phases import lookup_phase
from semistream.operators.phases.buffer_pool import BufferPool
from semistream.storage import PageReader

_STREAM = pa.schema([("key", pa.int64())])


def _stream(keys: int, tuples: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(tuples) * 7 % keys)], schema=_STREAM)


@pytest.mark.parametrize("algorithm", ["meshjoin", "hybridjoin", "inlj", "sweepjoin"])
def test_memory_of_results_is_returned_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    keys, budget_bytes = 2_000, 4 << 20
    rows = pa.table({"key": pa.array(range(keys)), "text": ["x" * 2_000] * keys})
    table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=8 << 10)
    returned = 0

    class Counting:
        def release_unused(self) -> None:
            nonlocal returned
            returned += 1

    monkeypatch.setattr(pa, "default_memory_pool", Counting)
    result_bytes = 0
    with ss.operator(algorithm, table, _STREAM, on="key", memory=budget_bytes) as operator:
        for batch in ss.run(operator, [_stream(keys, 3_000)]):
            result_bytes += batch.nbytes
    largest_batch_bytes = budget_bytes // 16
    assert result_bytes > 16 * largest_batch_bytes
    assert returned >= result_bytes // (2 * largest_batch_bytes) - 1


@pytest.mark.parametrize("dtype", [pa.int64(), pa.string()])
def test_the_pool_counts_the_objects_of_many_columns(tmp_path: Path, dtype: pa.DataType) -> None:
    columns, keys = 300, 600
    values = {f"c{number}": pa.array(range(keys)).cast(dtype) for number in range(columns)}
    rows = pa.table({"key": pa.array(range(keys)), **values})
    with pytest.warns(UserWarning, match="page_bytes"):  # pages this small are no good choice for so many columns
        table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=8 << 10)
    with PageReader(table) as reader:
        pool = BufferPool(reader, 1 << 40, lambda page: np.zeros(page.num_rows, dtype=np.int64))
        pool.get([0])
        held = pool.nbytes
        with PeakRss() as rss:
            pool.get(range(1, table.num_pages))
        counted = pool.nbytes - held
    assert counted > 50 << 20
    assert rss.growth_bytes <= 1.15 * counted


@pytest.mark.parametrize("slice_bytes", [1, 1 << 40])
def test_slices_copied_one_by_one_or_together_are_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int
) -> None:
    keys = 500
    rows = pa.table({"key": pa.array(range(keys)), "text": [f"t{key}" for key in range(keys)]})
    table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=1 << 10)
    monkeypatch.setattr(lookup_phase, "_SLICE_COLUMN_BYTES", slice_bytes)
    stream = _stream(keys, 1_000)
    with ss.operator("inlj", table, _STREAM, on="key", memory=4 << 20) as operator:
        joined = pa.Table.from_batches(list(ss.run(operator, [stream])))
    assert joined.column(0).to_pylist() == stream.column(0).to_pylist()
    assert joined.column("text").to_pylist() == [f"t{key}" for key in stream.column(0).to_pylist()]
