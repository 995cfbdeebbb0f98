"""The buffer pool: least recently used out first, never more bytes than its capacity."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.operators.phases.buffer_pool import BufferPool
from semistream.storage import PageReader


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageReader]:
    rows = pa.table({"k": list(range(400)), "t": ["x" * (at // 9) for at in range(400)]})
    path: Path = tmp_path_factory.mktemp("pool") / "table"
    with PageReader(ss.stage(rows, path, key="k", page_bytes=1024)) as reader:
        assert reader.pages.num_pages >= 8
        yield reader


def _codes(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    return np.asarray(rows.column("k").to_numpy())


def _largest(reader: PageReader) -> int:
    return int(BufferPool(reader, 0, _codes).page_bytes.max())


@given(st.data(), st.integers(1, 4))
def test_pages_are_kept_as_a_model_of_lru_keeps_them(reader: PageReader, data: st.DataObject, pages: int) -> None:
    capacity = pages * _largest(reader)
    pool = BufferPool(reader, capacity, _codes)
    model: OrderedDict[int, int] = OrderedDict()
    reads = 0
    requests = st.lists(st.integers(0, reader.pages.num_pages - 1), min_size=1, max_size=pages, unique=True)
    for wanted in data.draw(st.lists(requests, max_size=12)):
        got = pool.get(wanted)
        for page in [page for page in wanted if page in model]:
            model.move_to_end(page)
        for page in [page for page in wanted if page not in model]:
            while sum(model.values()) + int(pool.page_bytes[page]) > capacity:
                model.popitem(last=False)
            model[page] = int(pool.page_bytes[page])
            reads += 1
        for page, pooled in zip(wanted, got, strict=True):
            assert pooled.rows.equals(reader.read(page).to_batches()[0])
            assert pooled.codes.tolist() == pooled.rows.column("k").to_pylist()
        assert list(pool._pages) == list(model)
        assert pool.nbytes == sum(model.values()) <= capacity
        assert pool.reads.pages_read == reads


def test_a_page_takes_no_more_than_was_reckoned(reader: PageReader) -> None:
    pool = BufferPool(reader, 10**9, _codes)
    for page in range(reader.pages.num_pages):
        [pooled] = pool.get([page])
        assert pooled.rows.get_total_buffer_size() + pooled.codes.nbytes <= pooled.nbytes


def test_bytes_read_are_counted_once_per_miss(reader: PageReader) -> None:
    pool = BufferPool(reader, 10**9, _codes)
    pool.get([0, 1])
    pool.get([1, 0, 0])
    assert pool.reads.pages_read == 2
    assert pool.reads.bytes_read == reader.run_bytes(0, 1) + reader.run_bytes(1, 1)


def test_a_page_that_follows_the_last_read_needs_no_seek(reader: PageReader) -> None:
    pool = BufferPool(reader, 10**9, _codes)
    pool.get([2, 3])
    pool.get([2, 3, 4])  # only 4 is read, and it follows 3
    assert pool.reads.seeks == 1
    pool.get([7, 6])
    assert pool.reads.seeks == 3
