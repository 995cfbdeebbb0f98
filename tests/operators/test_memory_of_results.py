"""Memory that no part holds: objects around decoded pages and slices, and results that have left."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.bench.measurements.peak_rss import PeakRss
from semistream.core.resident_memory import resident_bytes
from semistream.operators import driver
from semistream.operators.phases.buffer_pool import BufferPool, SlotSizes
from semistream.operators.phases.lookup_phase import LookupMemory
from semistream.storage import PageReader, ReadAhead
from semistream.storage.reading.raw_pages import PageShape

_STREAM = pa.schema([("key", pa.int64())])


def _stream(keys: int, tuples: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(tuples) * 7 % keys)], schema=_STREAM)


@pytest.mark.parametrize(
    ("growth_bytes", "is_returned"),
    [(3 << 20, False), (4 << 20, True), (None, True)],
    ids=["small", "large", "unknown"],
)
@pytest.mark.parametrize("algorithm", ["meshjoin", "hybridjoin", "inlj", "sweepjoin"])
def test_memory_of_results_is_returned_to_the_system_when_the_process_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, growth_bytes: int | None, is_returned: bool
) -> None:
    keys, budget_bytes, before_bytes = 2_000, 4 << 20, 100 << 20
    rows = pa.table({"key": pa.array(range(keys)), "text": ["x" * 2_000] * keys})
    table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=8 << 10)
    resident: int | None = before_bytes
    returned = 0

    class Counting:
        def release_unused(self) -> None:
            nonlocal returned
            returned += 1

    monkeypatch.setattr(pa, "default_memory_pool", Counting)
    monkeypatch.setattr(driver, "resident_bytes", lambda: resident)
    result_bytes = 0
    with ss.operator(algorithm, table, _STREAM, on="key", memory=budget_bytes) as operator:
        resident = None if growth_bytes is None else before_bytes + growth_bytes
        for batch in ss.run(operator, [_stream(keys, 3_000)]):
            result_bytes += batch.nbytes
            assert operator.memory().total_bytes <= budget_bytes
    largest_batch_bytes = budget_bytes // 16
    assert result_bytes > 16 * largest_batch_bytes
    if is_returned:
        assert returned >= result_bytes // (2 * largest_batch_bytes) - 1
    else:
        assert returned == 0


def test_resident_memory_follows_what_is_allocated() -> None:
    before = resident_bytes()
    if not before:
        pytest.skip("the system does not tell")
    held = np.ones(64 << 20, dtype=np.uint8)
    assert resident_bytes() - before > held.nbytes // 2


def test_runs_that_were_read_ahead_are_not_in_the_pool_of_arrow(tmp_path: Path) -> None:
    rows = pa.table({"key": pa.array(range(2_000)), "text": [str(number) * 100 for number in range(2_000)]})
    table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=8 << 10)
    with PageReader(table) as reader, ReadAhead(reader, reader.pages.max_run_bytes(8)) as ahead:
        before = pa.total_allocated_bytes()
        run = ahead.read(0, 8)
        assert pa.total_allocated_bytes() - before < run.nbytes // 10
        assert run.equals(reader.read(0, 8).combine_chunks().to_batches()[0])


@pytest.mark.parametrize("dtype", [pa.int64(), pa.string()])
def test_the_pool_counts_what_lies_beside_pages_of_many_columns(tmp_path: Path, dtype: pa.DataType) -> None:
    columns, keys, pool_bytes = 300, 1_200, 100 << 20
    values = {f"c{number}": pa.array(range(keys)).cast(dtype) for number in range(columns)}
    rows = pa.table({"key": pa.array(range(keys)), **values})
    with pytest.warns(UserWarning, match="page_bytes"):  # pages this small are no good choice for so many columns
        table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=8 << 10)
    with PageReader(table) as reader:
        shape = PageShape(table.schema)
        pages = np.arange(table.num_pages)
        BufferPool(reader, shape, SlotSizes.of(reader, shape), pool_bytes).fetch(pages)  # what is made once
        with PeakRss() as rss:
            pool = BufferPool(reader, shape, SlotSizes.of(reader, shape), pool_bytes)
            held = pool.fetch(pages)
    assert held.size == table.num_pages
    assert pool.nbytes > 20 << 20
    assert rss.growth_bytes <= 1.15 * pool.nbytes


@pytest.mark.parametrize("batch_bytes", [1, 1 << 40])
def test_rows_copied_one_by_one_or_together_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    keys = 500
    rows = pa.table({"key": pa.array(range(keys)), "text": [f"t{key}" for key in range(keys)]})
    table = ss.stage(rows, tmp_path / "r", key="key", layout="clustered", page_bytes=1 << 10)
    monkeypatch.setattr(LookupMemory, "max_batch_bytes", batch_bytes)
    monkeypatch.setattr(LookupMemory, "building_bytes", 0)
    stream = _stream(keys, 1_000)
    with ss.operator("inlj", table, _STREAM, on="key", memory=4 << 20) as operator:
        joined = pa.Table.from_batches(list(ss.run(operator, [stream])))
    assert joined.column(0).to_pylist() == stream.column(0).to_pylist()
    assert joined.column("text").to_pylist() == [f"t{key}" for key in stream.column(0).to_pylist()]
