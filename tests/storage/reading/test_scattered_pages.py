"""Pages that lie apart are read together, by kernels or, where the platform lacks what these need, through Python."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from semistream.core.errors import DamagedTable
from semistream.storage import MasterTable, PageReader, open_table, stage
from semistream.storage.files import random_file, uncached_reads
from semistream.storage.files.random_file import LocalFile
from semistream.storage.files.uncached_reads import SECTOR_BYTES
from semistream.storage.reading import page_reader
from tests.storage.cases import make_rows


@pytest.fixture(params=[True, False], ids=["kernels", "python"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(random_file, "PREADV2", 0)
        monkeypatch.setattr(uncached_reads, "PREADV2", 0)
        monkeypatch.setattr(uncached_reads, "SYSCALL", 0)
        monkeypatch.setattr(page_reader, "DIGEST", 0)


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    table = stage(make_rows(400), tmp_path / "t", key="k", page_bytes=700, buckets=3)
    return table.append(make_rows(100), memory=60_000)


def _content(reader: PageReader, page: int) -> bytes:
    content = bytearray(reader.run_bytes(page, 1))
    reader.read_into(page, 1, memoryview(content))
    return bytes(content)


@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
def test_they_are_those_that_are_read_one_by_one(table: MasterTable, io: str) -> None:
    random = np.random.default_rng(3)
    memory = np.empty(table.num_bytes + 4096, dtype=np.uint8)
    with PageReader(table, io=io, access="lookup") as reader:
        for share in (0.0, 0.1, 0.5, 1.0):
            pages = np.flatnonzero(random.random(table.pages.num_pages) < share)
            starts, _ = reader.read_scattered(pages, memory)
            for page, start in zip(pages.tolist(), starts.tolist(), strict=True):
                content = _content(reader, page)
                assert memory[start : start + len(content)].tobytes() == content


def _slots(reader: PageReader, pages: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return memory that begins as slots need it, and where slots for the pages begin, in another order."""
    sizes = reader.slot_bytes(reader.pages.length[pages])[::-1]
    slots = (np.cumsum(sizes) - sizes)[::-1]
    memory = np.zeros(int(sizes.sum()) + SECTOR_BYTES, dtype=np.uint8)
    return memory[-memory.ctypes.data % SECTOR_BYTES :][: int(sizes.sum())], slots


@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
@pytest.mark.parametrize("many", [True, False], ids=["together", "one by one"])
def test_pages_in_slots_are_those_that_are_read_one_by_one(
    table: MasterTable, io: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not many:
        monkeypatch.setattr(uncached_reads, "SYSCALL", 0)
    random = np.random.default_rng(4)
    with PageReader(table, io=io, access="lookup") as reader:
        for share in (0.0, 0.1, 0.5, 1.0):
            pages = np.flatnonzero(random.random(table.pages.num_pages) < share)
            memory, slots = _slots(reader, pages)
            starts = reader.read_into_slots(pages, memory, slots)
            ends = starts + table.pages.length[pages]
            assert ((slots <= starts) & (ends <= slots + reader.slot_bytes(table.pages.length[pages]))).all()
            for page, start, end in zip(pages.tolist(), starts.tolist(), ends.tolist(), strict=True):
                assert memory[start:end].tobytes() == _content(reader, page)


def test_uncached_reads_go_to_the_end_of_the_file_and_tell_what_is_missing(tmp_path: Path) -> None:
    content = np.random.default_rng(1).integers(0, 256, 200_100).astype(np.uint8)
    (tmp_path / "file").write_bytes(content.tobytes())
    file = LocalFile(str(tmp_path / "file"))
    offsets = np.concatenate([np.arange(300) * 600, [200_000, 200_090, 300_000]])
    lengths = np.concatenate([np.full(300, 700), [100, 20, 1]])
    slots = np.arange(offsets.size) * 2048
    memory = np.zeros(offsets.size * 2048 + SECTOR_BYTES, dtype=np.uint8)
    memory = memory[-memory.ctypes.data % SECTOR_BYTES :]
    starts = slots + offsets % SECTOR_BYTES
    is_read = file.read_past_cache(offsets, lengths, starts.astype(np.uint64) + np.uint64(memory.ctypes.data))
    file.close()
    if not is_read.any():
        pytest.skip("this file system has no reads past its cache")
    assert is_read.tolist() == [True] * 301 + [False, False]
    for offset, length, start in zip(offsets[:301], lengths, starts, strict=False):
        assert (memory[start : start + length] == content[offset : offset + length]).all()
        assert not memory[(start // 2048) * 2048 + 1536 : (start // 2048 + 1) * 2048].any()


def test_an_altered_page_is_told(table: MasterTable) -> None:
    file, offset = table.pages.files[0], int(table.pages.offset[2])
    with open(os.path.join(table.path, file.path), "r+b") as raw:
        raw.seek(offset + 40)
        byte = raw.read(1)[0]
        raw.seek(offset + 40)
        raw.write(bytes([byte ^ 4]))
    memory = np.empty(table.num_bytes, dtype=np.uint8)
    with PageReader(open_table(table.path)) as reader:
        reader.read_scattered(np.array([0, 1, 3]), memory)
        with pytest.raises(DamagedTable, match=r"page 2 of .*\.arrow has been altered"):
            reader.read_scattered(np.array([0, 2, 3]), memory)
    for io in ("buffered", "drop_behind"):
        with PageReader(open_table(table.path), io=io) as reader:
            pages = np.array([0, 2, 3])
            with pytest.raises(DamagedTable, match=r"page 2 of .*\.arrow has been altered"):
                reader.read_into_slots(pages, *_slots(reader, pages))


def test_a_file_that_shrinks_while_it_is_read_is_told(table: MasterTable) -> None:
    file = table.pages.files[0]
    memory = np.empty(table.num_bytes, dtype=np.uint8)
    with PageReader(table) as reader:
        reader.read_scattered(np.array([0]), memory)
        os.truncate(os.path.join(table.path, file.path), int(table.pages.offset[1]) + 5)
        with pytest.raises(DamagedTable, match="is truncated"):
            reader.read_scattered(np.array([0, 1]), memory)
        with pytest.raises(DamagedTable, match="is truncated"):
            reader.read_into_slots(np.array([0, 1]), *_slots(reader, np.array([0, 1])))
