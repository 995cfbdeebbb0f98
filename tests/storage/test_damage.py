"""Damage of any byte of any file is an error that names the file, never a wrong or missing row."""

import json
import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from semistream.core.errors import DamagedTable, SemistreamError, TableNotFound
from semistream.storage import PageReader, open_table, stage
from semistream.storage.files.manifest import _seal, publish_version, read_manifest
from tests.storage.cases import files_under, make_rows, read_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    stage(make_rows(12), tmp_path / "t", key="k", page_bytes=700)
    return tmp_path / "t"


def read_whole(path: Path) -> None:
    table = open_table(path)
    assert read_all(table).num_rows == table.num_rows


def parts(path: Path) -> list[Path]:
    return [path / name for name in files_under(path) if name != ".lock"]


def test_every_flipped_byte_is_noticed(path: Path) -> None:
    read_whole(path)
    files = parts(path)
    assert len(files) == 3
    for file in files:
        raw = file.read_bytes()
        with open(file, "r+b", buffering=0) as raw_file:
            for position, byte in enumerate(raw):
                os.pwrite(raw_file.fileno(), bytes([byte ^ (1 << position % 8)]), position)
                with pytest.raises(DamagedTable) as caught:
                    read_whole(path)
                assert str(file) in str(caught.value), position
                assert "\n" not in str(caught.value)
                os.pwrite(raw_file.fileno(), bytes([byte]), position)
    read_whole(path)


def test_every_truncation_is_noticed(path: Path) -> None:
    for file in parts(path):
        raw = file.read_bytes()
        for length in {*range(0, len(raw), 97), len(raw) - 1}:
            file.write_bytes(raw[:length])
            with pytest.raises(DamagedTable, match=file.name):
                read_whole(path)
        file.write_bytes(raw + b"\0")
        with pytest.raises(DamagedTable, match=file.name):
            read_whole(path)
        file.write_bytes(raw)
    read_whole(path)


def test_missing_files(path: Path) -> None:
    for file in parts(path):
        raw = file.read_bytes()
        file.unlink()
        expected: type[SemistreamError] = TableNotFound if file.suffix == ".json" else DamagedTable
        with pytest.raises(expected, match=path.name if expected is TableNotFound else file.name):
            read_whole(path)
        file.write_bytes(raw)


def test_pages_that_trade_places(tmp_path: Path) -> None:
    table = stage(pa.table({"k": range(100)}), tmp_path / "t", key="k", page_bytes=500)
    file = tmp_path / "t" / table.pages.files[0].path
    raw = bytearray(file.read_bytes())
    length = int(table.pages.length[0])
    first, second = (slice(start, start + length) for start in table.pages.offset[:2].tolist())
    assert table.pages.length[1] == length
    raw[first], raw[second] = raw[second], raw[first]
    file.write_bytes(raw)
    with pytest.raises(DamagedTable, match="page 0 of"):
        read_whole(tmp_path / "t")
    with pytest.raises(DamagedTable, match=file.name):
        open_table(tmp_path / "t").verify()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"format_version": 99}, "version 99"),
        ({"version": 7}, "altered"),
    ],
)
def test_foreign_manifests(path: Path, change: dict[str, object], part: str) -> None:
    (manifest,) = (path / "versions").iterdir()
    fields = json.loads(manifest.read_bytes())
    del fields["checksum"]
    manifest.write_bytes(_seal({**fields, **change}))
    with pytest.raises(DamagedTable, match=part):
        open_table(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"3", b"\xff\xfe", b'{"format": 1}'])
def test_manifests_that_are_none(path: Path, content: bytes) -> None:
    (manifest,) = (path / "versions").iterdir()
    manifest.write_bytes(content)
    with pytest.raises(DamagedTable, match=manifest.name):
        open_table(path)


def test_damage_during_a_scan_surfaces(path: Path) -> None:
    """A file that shrinks after it was opened."""
    table = open_table(path)
    with PageReader(table) as reader:
        reader.read(0)
        os.truncate(path / table.pages.files[0].path, int(table.pages.offset[1]) + 10)
        with pytest.raises(DamagedTable, match="truncated"):
            reader.read(1)


def test_a_damaged_old_version_keeps_its_files(path: Path) -> None:
    """Nobody can tell which files a damaged manifest names, so none is taken for litter."""
    table = open_table(path)
    first = path / table.pages.files[0].path
    table = table.replace(make_rows(5))
    manifest = path / "versions" / f"{1:020d}.json"
    manifest.write_bytes(b"broken")
    table = table.append(make_rows(5))
    assert first.exists()
    assert table.expire_versions() == [1, 2]
    assert not first.exists()
    read_whole(path)


@pytest.mark.parametrize(("column", "part"), [("first", "does not begin with"), ("rest", "not sorted")])
def test_verify_checks_what_the_index_promises(tmp_path: Path, column: str, part: str) -> None:
    """Rows that are intact but not those that the index describes."""
    rows = pa.table({"k": [1, 2, 3], "first": [9, 2, 3], "rest": [1, 3, 2]})
    table = stage(rows, tmp_path / "t", key="k")
    manifest = read_manifest(table.store)
    publish_version(table.store, replace(manifest.form, key=(column,)), 2, manifest.files)
    with pytest.raises(DamagedTable, match=part):
        open_table(tmp_path / "t").verify()
    open_table(tmp_path / "t", 1).verify()


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_verify_holds_no_more_than_two_large_pages(tmp_path: Path, layout: str) -> None:
    rows = pa.table({"k": pa.array(range(16_000)), "text": ["x" * 1000] * 16_000})
    table = stage(rows, tmp_path / "t", key="k", layout=layout, page_bytes="1MB")
    assert table.num_pages >= 16
    tracemalloc.start()
    try:
        table.verify()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 * table.pages.length.max()


def _as_file(path: Path) -> None:
    path.write_text("a file where a folder should be")


WRITES: list[Callable[[Path], object]] = [
    lambda path: open_table(path).append(make_rows(3)),
    lambda path: open_table(path).replace(make_rows(3)),
    lambda path: open_table(path).expire_versions(),
]


@pytest.mark.parametrize("make", [_as_file, os.mkfifo], ids=["file", "pipe"])
@pytest.mark.parametrize("folder", ["data", "versions"])
def test_a_file_in_place_of_a_folder_is_named(path: Path, folder: str, make: Callable[[Path], None]) -> None:
    (path / folder).rename(path.parent / folder)
    make(path / folder)
    for use in (read_whole, *WRITES):
        with pytest.raises(DamagedTable, match=rf"/{folder} is not a folder, .*: remove it, or restore") as caught:
            use(path)
        assert "\n" not in str(caught.value)
    new = path.parent / "new"
    new.mkdir()
    make(new / folder)
    with pytest.raises(DamagedTable, match=rf"/{folder} is not a folder"):
        stage(make_rows(3), new, key="k")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_lock_that_is_no_file_is_named(path: Path, make: Callable[[Path], None]) -> None:
    (path / ".lock").unlink()
    make(path / ".lock")
    read_whole(path)
    new = path.parent / "new"
    new.mkdir()
    make(new / ".lock")
    for use in WRITES:
        with pytest.raises(DamagedTable, match=r"/\.lock is not a regular file, .*: remove it"):
            use(path)
    with pytest.raises(DamagedTable, match=r"/\.lock is not a regular file, .*: remove it"):
        stage(make_rows(3), new, key="k")
