"""Pages that lie apart are read together, by kernels or, where the platform lacks what these need, through Python."""

import os
from pathlib import Path

import numpy as np
import pytest

from semistream.core.errors import DamagedTable
from semistream.storage import MasterTable, PageReader, open_table, stage
from semistream.storage.files import random_file
from semistream.storage.reading import page_reader
from tests.storage.cases import make_rows


@pytest.fixture(params=[True, False], ids=["kernels", "python"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(random_file, "PREADV2", 0)
        monkeypatch.setattr(page_reader, "DIGEST", 0)


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    table = stage(make_rows(400), tmp_path / "t", key="k", page_bytes=700, buckets=3)
    return table.append(make_rows(100), memory=60_000)


@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
def test_they_are_those_that_are_read_one_by_one(table: MasterTable, io: str) -> None:
    random = np.random.default_rng(3)
    memory = np.empty(table.num_bytes + 4096, dtype=np.uint8)
    with PageReader(table, io=io, access="lookup") as reader:
        for share in (0.0, 0.1, 0.5, 1.0):
            pages = np.flatnonzero(random.random(table.pages.num_pages) < share)
            starts, _ = reader.read_scattered(pages, memory)
            for page, start in zip(pages.tolist(), starts.tolist(), strict=True):
                content = bytes(reader.read_page(page))
                assert memory[start : start + len(content)].tobytes() == content


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


def test_a_file_that_shrinks_while_it_is_read_is_told(table: MasterTable) -> None:
    file = table.pages.files[0]
    memory = np.empty(table.num_bytes, dtype=np.uint8)
    with PageReader(table) as reader:
        reader.read_scattered(np.array([0]), memory)
        os.truncate(os.path.join(table.path, file.path), int(table.pages.offset[1]) + 5)
        with pytest.raises(DamagedTable, match="is truncated"):
            reader.read_scattered(np.array([0, 1]), memory)
