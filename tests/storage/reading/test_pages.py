"""The page directory, reading pages, and reading ahead."""

import gc
import os
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import DamagedTable, InvalidArgument, OperatorMisuse, UnknownColumn
from semistream.kernels.keys.key_codes import KeyCoder
from semistream.storage import MasterTable, PageReader, ReadAhead, open_table, stage
from semistream.storage.reading.page_reader import _MAX_OPEN_FILES
from tests.storage.cases import make_rows, read_all


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    """Two buckets, two files each, many pages, keys that cross pages."""
    first = stage(make_rows(3_000, keys=40), tmp_path / "t", key="k", buckets=2, page_bytes="2KB")
    return first.append(make_rows(1_000, seed=1, keys=40))


def test_directory_describes_every_page(table: MasterTable) -> None:
    pages = table.pages
    assert pages is table.pages
    assert pages.num_pages == table.num_pages == len(pages.file)
    assert pages.num_bytes == table.num_bytes
    assert int(pages.rows.sum()) == table.num_rows
    assert [file.bucket for file in pages.files] == [0, 0, 1, 1]
    assert pages.bucket_bounds.tolist() == [0, pages.file_bounds[2], pages.num_pages]
    assert pages.nbytes == sum(value.nbytes for value in vars(pages).values() if isinstance(value, np.ndarray))
    for bucket in range(2):
        part = pages.for_bucket(bucket)
        low, high = pages.bucket_bounds[bucket : bucket + 2]
        assert part.num_pages == high - low
        assert np.shares_memory(part.offset, pages.offset)
        assert [part.files[n].path for n in part.file] == [pages.files[n].path for n in pages.file[low:high]]
        with PageReader(table, pages=part) as reader, PageReader(table) as whole:
            assert reader.read(part.num_pages - 1).equals(whole.read(int(high) - 1))
    with pytest.raises(InvalidArgument, match="bucket=2"):
        pages.for_bucket(2)


def test_an_empty_bucket_has_no_pages(tmp_path: Path) -> None:
    table = stage(pa.table({"k": [1, 1]}), tmp_path / "t", key="k", buckets=4)
    sizes = [table.pages.for_bucket(bucket).num_pages for bucket in range(4)]
    assert sorted(sizes) == [0, 0, 0, 1]
    empty = table.pages.for_bucket(sizes.index(0))
    assert empty.max_run_bytes(3) == 0
    assert empty.locate(np.array([1])).lo.shape == (0, 1)


def test_runs_stay_inside_a_file(table: MasterTable) -> None:
    pages = table.pages
    for run_pages in (1, 3, 7, 1_000):
        longest = 0
        for first in range(pages.num_pages):
            count = pages.run_length(first, run_pages)
            same_file = np.flatnonzero(pages.file == pages.file[first])
            assert count == min(run_pages, int(same_file[-1]) + 1 - first)
            longest = max(longest, int(pages.length[first : first + count].sum()))
        assert pages.max_run_bytes(run_pages) == longest
    with pytest.raises(InvalidArgument, match="run_pages=0"):
        pages.max_run_bytes(0)


def test_locate_finds_every_row_of_a_key(table: MasterTable) -> None:
    pages = table.pages
    coder = KeyCoder(["k"], [pa.int64()])
    wanted = np.arange(-45, 46)
    found = pages.locate(wanted)
    assert found.lo.shape == found.hi.shape == (4, wanted.size)
    with PageReader(table) as reader:
        codes = [coder.codes([reader.read(page)["k"].combine_chunks()]).code for page in range(pages.num_pages)]
    for number in range(4):
        start, end = pages.file_bounds[number : number + 2]
        for column, code in enumerate(wanted):
            low, high = found.lo[number, column], found.hi[number, column]
            assert start <= low <= high <= end
            holding = [page for page in range(start, end) if code in codes[page]]
            assert all(low <= page < high for page in holding)
            # At most one page is read in vain.
            assert high - low <= max(len(holding) + 1, 1)


def test_locate_needs_an_index(tmp_path: Path) -> None:
    heap = stage(make_rows(10), tmp_path / "t", key="k", layout="heap")
    assert heap.pages.first_code is None
    with pytest.raises(InvalidArgument, match="heap"):
        heap.pages.locate(np.array([1]))


@given(
    keys=st.lists(st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=200),
    page_bytes=st.integers(1, 1_000),
    probe=st.integers(-4, 4),
)
def test_locate_property(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int | None], page_bytes: int, probe: int
) -> None:
    table = stage(
        pa.table({"k": pa.array(keys, pa.int64())}),
        tmp_path_factory.mktemp("p") / "t",
        key="k",
        page_bytes=page_bytes,
    )
    found = table.pages.locate(np.array([probe]))
    with PageReader(table) as reader:
        inside = [reader.read(page)["k"].to_pylist() for page in range(found.lo[0, 0], found.hi[0, 0])]
    assert sum(page.count(probe) for page in inside) == keys.count(probe)


def test_reader_projects_in_the_order_asked(table: MasterTable) -> None:
    with PageReader(table, columns=["text", "arrival"]) as reader, PageReader(table) as whole:
        assert reader.schema.names == ["text", "arrival"]
        assert reader.read(0, 3).equals(whole.read(0, 3).select(["text", "arrival"]))
        assert reader.read(0, 3).schema == reader.schema
    with pytest.raises(UnknownColumn, match=r"'nope'.*arrival, k, text"):
        PageReader(table, columns=["nope"])
    for bad in ([], ["k", "k"]):
        with pytest.raises(InvalidArgument, match="columns="):
            PageReader(table, columns=bad)
    with pytest.raises(InvalidArgument, match="io='direct'"):
        PageReader(table, io="direct")
    with pytest.raises(InvalidArgument, match="access='any'"):
        PageReader(table, access="any")  # type: ignore[arg-type]


@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
def test_read_into_fills_the_callers_memory(table: MasterTable, io: str) -> None:
    with PageReader(table, io=io) as reader:
        view = memoryview(bytearray(reader.run_bytes(0, 4) + 10))
        assert reader.read_into(0, 4, view) == reader.run_bytes(0, 4) == int(table.pages.length[:4].sum())
        raw = Path(table.store.locate(table.pages.files[0].path)).read_bytes()
        start = int(table.pages.offset[0])
        assert bytes(view[:-10]) == raw[start : start + len(view) - 10]
        with pytest.raises(InvalidArgument, match="larger"):
            reader.read_into(0, 5, view)


def test_decoding_does_not_copy(table: MasterTable) -> None:
    with PageReader(table) as reader:
        before = pa.total_allocated_bytes()
        run = reader.read(0, 8)
        assert run["k"].num_chunks == 8
        assert pa.total_allocated_bytes() - before < 1_000


@pytest.mark.parametrize("guess", ["none", "right", "wrong"])
@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
def test_scan_through_read_ahead(table: MasterTable, guess: str, io: str) -> None:
    pages = table.pages
    runs = []
    first = 0
    while first < pages.num_pages:
        runs.append((first, pages.run_length(first, 5)))
        first += runs[-1][1]
    wasted = 0
    rows = []
    with PageReader(table, io=io) as reader, ReadAhead(reader, pages.max_run_bytes(5)) as ahead:
        for run, following in zip(runs, [*runs[1:], None], strict=True):
            then = {"none": None, "right": following, "wrong": (0, 1)}[guess]
            rows.append(ahead.read(*run, then))
            wasted += guess == "wrong"
        assert ahead.pages_read == pages.num_pages + wasted
        assert ahead.bytes_read == pages.num_bytes + wasted * int(pages.length[0])
        # A scan seeks to the start of each file; a read that leads elsewhere costs that seek and the one back.
        assert ahead.reads == (len(runs) if guess != "wrong" else 2 * len(runs))
        assert ahead.seeks == (len(pages.files) if guess != "wrong" else 2 * len(runs))
    assert pa.Table.from_batches(rows).combine_chunks().equals(read_all(table).combine_chunks())


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_a_run_outlives_all_later_reads(tmp_path: Path, text: pa.DataType) -> None:
    words = [f"a word that is long enough to be seen {n}" for n in range(2_000)]
    table = stage(
        pa.table({"k": np.arange(2_000), "t": pa.array(words, text)}), tmp_path / "t", key="k", page_bytes="4KB"
    )
    with PageReader(table) as reader, ReadAhead(reader, table.pages.max_run_bytes(3)) as ahead:
        firsts = range(0, table.num_pages - 3, 3)
        runs = [ahead.read(first, 3, (first + 3, 3)) for first in firsts[:-1]]
        single = ahead.read(0, 1, (1, 1))
        expected = [reader.read(first, 3).combine_chunks() for first in firsts[:-1]]
        ahead.read(1, 1)
    for run, whole in zip(runs, expected, strict=True):
        assert pa.Table.from_batches([run]).equals(whole)
    assert single.num_rows == table.pages.rows[0]


def test_errors_of_the_thread_reach_the_reader_of_the_run(table: MasterTable) -> None:
    path = Path(table.store.locate(table.pages.files[0].path))
    raw = bytearray(path.read_bytes())
    raw[int(table.pages.offset[2]) + 700] ^= 1
    path.write_bytes(raw)
    with PageReader(table) as reader, ReadAhead(reader, table.pages.max_run_bytes(2)) as ahead:
        assert ahead.read(0, 1, (2, 1)).num_rows == table.pages.rows[0]
        with pytest.raises(DamagedTable, match=r"page 2 of .*altered"):
            ahead.read(2, 1)
        assert ahead.read(0, 1, (2, 1)).num_rows == table.pages.rows[0]
        assert ahead.read(1, 1).num_rows == table.pages.rows[1]  # another run is none the worse
        with pytest.raises(DamagedTable, match="page 2 of"):
            ahead.read(1, 2)


def test_misuse_of_read_ahead(table: MasterTable) -> None:
    with PageReader(table) as reader:
        ahead = ReadAhead(reader, table.pages.max_run_bytes(1))
        with pytest.raises(InvalidArgument, match="buffer_bytes="):
            ahead.read(0, 2)
        with pytest.raises(InvalidArgument, match="buffer_bytes="):
            ahead.read(0, 1, (0, 2))
        ahead.close()
        ahead.close()
        with pytest.raises(OperatorMisuse, match="closed"):
            ahead.read(0, 1)
        with pytest.raises(InvalidArgument, match="buffer_bytes=0"):
            ReadAhead(reader, 0)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_neither_threads_nor_files_leak(table: MasterTable) -> None:
    gc.collect()  # what tests before left to the collector is not counted here
    threads, files = threading.active_count(), open_files()
    for _ in range(20):
        with PageReader(table) as reader, ReadAhead(reader, table.pages.max_run_bytes(2)) as ahead:
            ahead.read(0, 2, (2, 2))
            assert threading.active_count() == threads + 1
    assert (threading.active_count(), open_files()) == (threads, files)
    others = set(threading.enumerate())
    forgotten = ReadAhead(PageReader(table), table.pages.max_run_bytes(2))
    forgotten.read(0, 2, (2, 2))
    (thread,) = set(threading.enumerate()) - others
    gone = weakref.ref(forgotten)
    del forgotten
    for _ in range(100):  # while the thread reads on, it holds the object
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.05)
    assert gone() is None
    thread.join(5)
    assert not thread.is_alive()
    del thread, others
    gc.collect()
    assert open_files() == files


def test_many_files_do_not_stay_open(tmp_path: Path) -> None:
    table = stage(pa.table({"k": np.arange(3_000)}), tmp_path / "t", key="k", buckets=_MAX_OPEN_FILES + 40)
    before = open_files()
    with PageReader(table) as reader:
        for page in range(table.num_pages):
            reader.read(page)
        assert open_files() - before <= _MAX_OPEN_FILES
        assert reader.read(0).num_rows == table.pages.rows[0]
    assert open_files() == before


def test_opening_does_not_read_the_indexes(table: MasterTable) -> None:
    for file in table.pages.files:
        os.unlink(table.store.locate(file.index_path))
    reopened = open_table(table.path)
    assert reopened.num_rows == table.num_rows
    with pytest.raises(DamagedTable, match="missing"):
        _ = reopened.pages
