"""Pages used where they lie: the rows of the table, never those of a page that is not there, and no crash."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import DamagedTable
from semistream.kernels.arrays import Int64s, UInt64s
from semistream.kernels.keys.key_codes import KeyCoder, KeyCodes, bucket_ids
from semistream.kernels.pages.in_place import NO_PAGE, NOT_IN_PLACE, expand_rows
from semistream.storage import MasterTable, PageReader, stage
from semistream.storage.files.random_file import LocalFile
from semistream.storage.reading.page_keys import PageKeys
from semistream.storage.reading.raw_pages import PageShape
from semistream.storage.reading.resident_pages import PageRows, ResidentPages
from tests.depth import covering

_COLUMNS = ["number", "flag", "text", "blob", "small", "exact", "three", "late"]


def _rows(random: np.random.Generator, ids: np.ndarray[Any, Any], nulls: float) -> pa.Table:
    def some(values: list[Any], dtype: pa.DataType) -> pa.Array:
        return pa.array([None if random.random() < nulls else value for value in values], dtype)

    texts = ["é" * int(size) for size in random.integers(0, 9, ids.size)]
    return pa.table(
        {
            "number": some(random.integers(-9, 9, ids.size).tolist(), pa.int64()),
            "id": pa.array(ids, pa.int64()),
            "flag": some((random.random(ids.size) < 0.5).tolist(), pa.bool_()),
            "text": some(texts, pa.string()),
            "blob": some([text.encode() * 3 for text in texts], pa.large_binary()),
            "small": some(random.random(ids.size).astype(np.float32).tolist(), pa.float32()),
            "exact": some([Decimal(int(value)) for value in random.integers(0, 999, ids.size)], pa.decimal128(20, 2)),
            "three": some([bytes([value % 251] * 3) for value in range(ids.size)], pa.binary(3)),
            "late": some(random.integers(0, 99, ids.size).tolist(), pa.date32()),
        }
    )


class _Pages:
    """A table with pages to be used in place."""

    def __init__(self, table: MasterTable, columns: list[str], *, read: bool = True) -> None:
        self.table = table
        self.reader = PageReader(table, access="sweep")
        resident = ResidentPages.of(self.reader, columns, PageKeys(table.schema, ["id"]))
        assert resident is not None
        self.resident = resident
        if read:
            self.read(np.arange(table.num_pages))

    def read(self, pages: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        memory = np.empty(self.table.num_bytes + 8, dtype=np.uint8)
        starts, _ = self.reader.read_scattered(pages, memory)
        return self.resident.add(pages, PageShape(self.table.schema, _COLUMNS).pages(memory, starts))

    def find(self, ids: np.ndarray[Any, Any]) -> tuple[list[PageRows], np.ndarray[Any, Any]]:
        coder = KeyCoder(["id"], [pa.int64()])
        return self.resident.find(ids, np.arange(ids.size), bucket_ids(coder, KeyCodes(ids, None), self.table.buckets))

    def joined(self, ids: np.ndarray[Any, Any], space: int = 7) -> Iterator[tuple[Any, ...]]:
        """Yield each id beside each of its rows, and beside NULL where a file has none."""
        access, page, row = np.empty((3, space), dtype=np.int32)
        found, left = self.find(ids)
        assert not left.size
        for place in found:
            at = offset = 0
            while at < ids.size:
                counts = self.resident.row_counts
                at, offset, filled = expand_rows(*place, counts, True, at, offset, access, page, row)
                rows = self.resident.gather(page[:filled].copy(), row[:filled].copy())
                assert (rows.row_bytes() > 0).all()
                batch = rows.finish()
                batch.validate(full=True)
                for number, values in zip(ids[access[:filled]].tolist(), batch.to_pylist(), strict=True):
                    yield (number, *values.values())

    def close(self) -> None:
        self.resident.close()
        self.reader.close()


def _stage(path: Path, rows: pa.Table, buckets: int) -> MasterTable:
    return stage(rows, path, key="id", layout="clustered", page_bytes=1500, buckets=buckets)


@pytest.mark.parametrize(("buckets", "rows_per_key", "nulls"), covering((1, 3), (1, 3, 120), (0.0, 0.3)))
def test_rows_are_those_of_the_table(tmp_path: Path, buckets: int, rows_per_key: int, nulls: float) -> None:
    random = np.random.default_rng(buckets + rows_per_key)
    rows = _rows(random, np.sort(random.integers(0, 600 // rows_per_key, 600)) * 2, nulls)
    pages = _Pages(_stage(tmp_path / "t", rows, buckets), _COLUMNS)
    wanted = random.integers(-3, 1300 // rows_per_key, 400)
    by_id: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows.to_pylist():
        by_id.setdefault(row["id"], []).append(tuple(row[name] for name in _COLUMNS))
    nothing = (None,) * len(_COLUMNS)
    expected = Counter((key, *row) for key in wanted.tolist() for row in by_id.get(key, [nothing]))
    assert Counter(pages.joined(wanted)) == expected
    pages.close()


def test_rows_of_a_key_in_several_files_are_found_in_each(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    first, second = _rows(random, np.arange(300), 0.0), _rows(random, np.arange(0, 600, 2), 0.0)
    pages = _Pages(_stage(tmp_path / "t", first, 2).append(second), ["number"])
    found = [key for key, value in pages.joined(np.arange(600)) if value is not None]
    assert Counter(found) == Counter([*range(300), *range(0, 600, 2)])
    pages.close()


def _unread(path: Path, pages_in_memory: int) -> _Pages:
    """Return pages of which none is known, with memory to verify so many in."""
    table = _stage(path, _rows(np.random.default_rng(0), np.arange(5000), 0.0), 1)
    pages = _Pages(table, ["number"], read=False)
    pages.resident.use(np.empty(pages_in_memory * int(table.pages.length.max()), dtype=np.uint8))
    return pages


@pytest.mark.parametrize("pages_in_memory", [1, 3, 1000])
def test_neighbours_of_a_page_wanted_are_verified_with_it(tmp_path: Path, pages_in_memory: int) -> None:
    pages = _unread(tmp_path / "t", pages_in_memory)
    found, left = pages.find(np.array([2500]))
    assert not left.size
    assert found[0].rows.tolist() == [1]
    known = pages.resident.num_known
    assert known == 1 if pages_in_memory == 1 else known > 1
    assert len(list(pages.joined(np.arange(5000)))) == 5000
    assert pages.resident.num_known == pages.table.num_pages
    pages.close()


def test_pages_that_the_page_cache_lacks_are_left_and_those_behind_them_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = _unread(tmp_path / "t", 1000)
    offsets = pages.table.pages.offset[20:23]
    read = LocalFile.read_cached

    def without_some(file: LocalFile, begins: Int64s, lengths: Int64s, targets: UInt64s) -> Int64s:
        got = read(file, begins, lengths, targets)
        for lost in offsets.tolist():
            is_reached = (begins <= lost) & (lost < begins + got)
            got[is_reached] = (lost - begins)[is_reached]
        return got

    monkeypatch.setattr(LocalFile, "read_cached", without_some)
    _, left = pages.find(np.arange(5000))
    first, behind = np.cumsum(pages.table.pages.rows)[[19, 22]].tolist()
    assert left.tolist() == list(range(first, behind + 1))  # the first key of a page may have rows before it
    assert pages.resident.num_known == pages.table.num_pages - 3
    pages.close()


def test_an_altered_page_beside_the_page_wanted_is_an_error_that_names_it(tmp_path: Path) -> None:
    pages = _unread(tmp_path / "t", 1000)
    (file, *_) = pages.table.pages.files
    with open(os.path.join(pages.table.path, file.path), "r+b") as content:
        content.seek(int(pages.table.pages.offset[1]) + 700)
        content.write(b"\xff\xff\xff")
    with pytest.raises(DamagedTable, match=r"page 1 of .* has been altered"):
        pages.find(np.arange(5000))
    pages.close()


def test_a_page_that_was_evicted_is_left_to_others_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(2000), 0.0), 1), ["number"])
    evicted = pages.table.num_pages // 2
    monkeypatch.setattr(PageReader, "are_cached", lambda _, numbers: numbers < evicted)
    found, left = pages.find(np.arange(2000))
    first_evicted = int(pages.table.pages.rows[:evicted].sum())
    assert left.tolist() == list(range(first_evicted, 2000))
    assert (found[0].rows[left] == NOT_IN_PLACE).all()
    assert pages.resident.is_short
    monkeypatch.undo()
    assert pages.read(np.arange(evicted, pages.table.num_pages)).all()
    assert not pages.find(np.arange(2000))[1].size
    is_short: bool = pages.resident.is_short
    assert not is_short
    pages.close()


def test_faults_that_wait_for_the_disk_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(5000), 0.0), 1), ["number"])
    # A sample of pages would miss one of them.
    monkeypatch.setattr(PageReader, "are_cached", lambda _, numbers: numbers != 17)
    keys = np.full(5000, 1)
    assert not pages.find(keys)[1].size
    pages.resident._faults -= 100
    keys[17] = int(pages.table.pages.rows[:17].sum()) + 1
    assert pages.find(keys)[1].tolist() == [17]
    pages.close()


def test_a_page_with_null_keys_is_not_used_in_place(tmp_path: Path) -> None:
    rows = _rows(np.random.default_rng(0), np.arange(500), 0.0)
    rows = rows.set_column(1, "id", pa.array([None] * 3 + list(range(3, 500)), pa.int64()))
    pages = _Pages(_stage(tmp_path / "t", rows, 1), ["number"])
    assert pages.resident.num_known == pages.table.num_pages - 1
    assert pages.find(np.array([0, 499]))[1].tolist() == [0]
    pages.close()


def test_nested_columns_cannot_be_copied_one_by_one(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "list": [[1], [2, 3]]})
    with PageReader(_stage(tmp_path / "t", rows, 1)) as reader:
        assert ResidentPages.of(reader, ["list"], PageKeys(rows.schema, ["id"])) is None
        assert ResidentPages.bytes_for(PageShape(rows.schema, ["list"]), 100) == 0


def test_their_memory_is_known_before_they_are_there(tmp_path: Path) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(900), 0.0), 2), _COLUMNS)
    shape = PageShape(pages.table.schema, _COLUMNS)
    assert pages.resident.nbytes == ResidentPages.bytes_for(shape, pages.table.num_pages) > 0
    pages.close()


def test_a_file_that_is_cut_off_is_an_error_that_names_it(tmp_path: Path) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(3000), 0.0), 1), _COLUMNS)
    assert len(list(pages.joined(np.arange(3000)))) == 3000
    (file,) = pages.table.pages.files
    found, _ = pages.find(np.arange(3000))
    os.truncate(os.path.join(pages.table.path, file.path), 5000)
    with pytest.raises(DamagedTable, match=r"\.arrow was cut off, or its disk failed"):
        pages.resident.gather(found[0].page, found[0].row).finish()
    pages.close()


def test_a_key_is_not_missing_because_a_file_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(3000), 0.0), 1), _COLUMNS)
    (file,) = pages.table.pages.files
    os.truncate(os.path.join(pages.table.path, file.path), 5000)
    monkeypatch.setattr(pages.reader, "are_cached", lambda pages: np.ones(pages.size, dtype=np.bool_))  # a moment ago
    with pytest.raises(DamagedTable, match=r"\.arrow was cut off, or its disk failed"):
        pages.find(np.arange(3000))
    pages.close()


def test_pages_changed_after_they_were_verified_never_end_the_process(tmp_path: Path) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(800), 0.3), 1), _COLUMNS)
    path = os.path.join(pages.table.path, pages.table.pages.files[0].path)
    content = bytearray(Path(path).read_bytes())
    random = np.random.default_rng(1)
    first = int(pages.table.pages.offset[0])
    for _ in range(300):
        changed = bytearray(content)
        for at in random.integers(first, len(content), 40).tolist():
            changed[at] = int(random.choice([0, 1, 127, 128, 255]))
        # In the metadata of pages too, which is a small part of them.
        for start in pages.table.pages.offset.tolist():
            at = start + int(random.integers(0, 400))
            changed[at : at + 4] = random.bytes(4)
        with open(path, "r+b") as file:
            file.write(changed)
        found, _ = pages.find(random.integers(0, 800, 300))
        is_found = found[0].rows > 0
        with suppress(DamagedTable):
            pages.resident.gather(found[0].page[is_found], found[0].row[is_found]).finish()
    pages.close()


def test_nothing_is_copied_where_there_is_no_page(tmp_path: Path) -> None:
    pages = _Pages(_stage(tmp_path / "t", _rows(np.random.default_rng(0), np.arange(10), 0.0), 1), _COLUMNS)
    nowhere = np.full(4, NO_PAGE)
    batch = pages.resident.gather(nowhere, np.zeros(4, dtype=np.int32)).finish()
    assert batch.to_pylist() == [dict.fromkeys(_COLUMNS)] * 4
    pages.close()
