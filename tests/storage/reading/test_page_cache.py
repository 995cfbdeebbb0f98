"""Pages that measurements must not find in the page cache."""

import ctypes
import mmap
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.bench.measurements.joins.steady import make_operator
from semistream.core.semantics import JoinSpec
from semistream.cost.calibration.trial_join import keys_of, trial_operator, trial_schema
from semistream.storage import MasterTable, drop_pages, stage
from semistream.storage.files.random_file import LocalFile
from semistream.workloads.generated.master_table import master_table


@pytest.fixture
def table(tmp_path: Path, real_fsync: None) -> MasterTable:
    return stage(master_table(20_000, seed=0), tmp_path / "table", key="key", layout="clustered", page_bytes=16 << 10)


def _cached_bytes(table: MasterTable) -> int:
    """Return how much of the data files is in the page cache, which asking does not change."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mincore") or not hasattr(os, "posix_fadvise"):
        pytest.skip("this system does not tell what its page cache holds")
    cached = 0
    for file in table.pages.files:
        with open(table.store.locate(file.path), "r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
            is_cached = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
            begin = ctypes.addressof(view := ctypes.c_char.from_buffer(mapped))
            failed = libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(len(mapped)), is_cached)
            del view
            if failed:
                pytest.skip("this system does not tell what its page cache holds")
            cached += sum(flag & 1 for flag in is_cached) * mmap.PAGESIZE
    return cached


def _read_all(table: MasterTable) -> None:
    for file in table.pages.files:
        Path(table.store.locate(file.path)).read_bytes()


@pytest.fixture
def cached(table: MasterTable) -> MasterTable:
    """A table in the page cache of a system that tells so, and that can be told to drop it."""
    _read_all(table)
    if _cached_bytes(table) < table.num_bytes:
        pytest.skip("this file system has a cache of its own")
    for file in table.pages.files:
        fd = os.open(table.store.locate(file.path), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    if _cached_bytes(table):
        pytest.skip("this file system keeps its files in memory")
    _read_all(table)
    return table


def test_all_of_every_file_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = master_table(2_000, seed=0)
    table = stage(rows, tmp_path / "table", key="key", buckets=4, page_bytes=16 << 10)
    dropped: list[tuple[int, int]] = []
    monkeypatch.setattr(LocalFile, "drop", lambda file, offset, length: dropped.append((offset, length)))
    drop_pages(table)
    assert dropped == [(0, file.file_bytes) for file in table.pages.files]
    Path(table.store.locate(table.pages.files[0].path)).unlink()
    dropped.clear()
    drop_pages(table)
    assert len(dropped) == 3


def test_dropped_pages_are_read_from_the_disk(cached: MasterTable) -> None:
    drop_pages(cached)
    assert _cached_bytes(cached) == 0


def test_calibration_finds_no_page_in_memory(cached: MasterTable) -> None:
    schema = trial_schema(cached)
    with trial_operator("inlj", cached, JoinSpec.resolve(schema, cached.schema, ["key"]), 1 << 20, {}):
        assert _cached_bytes(cached) == 0


def test_keys_for_calibration_leave_no_page_in_memory(cached: MasterTable) -> None:
    drop_pages(cached)
    assert isinstance(keys_of(cached, np.random.default_rng(0)), pa.RecordBatch)
    assert _cached_bytes(cached) < cached.num_bytes / 20  # the end of the last unit that the system keeps


def test_benchmarks_find_no_page_in_memory(cached: MasterTable) -> None:
    with make_operator("inlj", cached, 1 << 20):
        assert _cached_bytes(cached) == 0
