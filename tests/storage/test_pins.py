"""Which version a micro-batch is joined with: decided once, whoever asks and whenever."""

import json
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import semistream as ss
from semistream.core.errors import DamagedTable, PinFailed, TableNotFound
from semistream.storage import MasterTable
from semistream.storage.files.store import LocalStore, RemoteStore
from semistream.storage.pins import pinned_version

QUERY = "2f6d9a1e-aaaa-bbbb-cccc-000000000001"


def _rows(value: int) -> pa.Table:
    return pa.table({"k": [1, 2], "v": [value, value]})


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    return ss.stage(_rows(1), tmp_path / "t", key="k")


def test_a_batch_keeps_its_version_and_the_next_one_gets_the_newest(table: MasterTable) -> None:
    assert pinned_version(table, QUERY, 0).version == 1
    table.replace(_rows(2))
    assert pinned_version(table, QUERY, 0).version == 1
    assert pinned_version(table, QUERY, 1).version == 2
    assert pinned_version(table, "another-query", 0).version == 2


def test_tasks_that_ask_at_once_get_one_answer_while_versions_are_published(table: MasterTable) -> None:
    answers: list[int] = []
    start = threading.Barrier(9)

    def ask() -> None:
        start.wait()
        answers.append(pinned_version(table, QUERY, 7).version)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    start.wait()
    for value in range(3):
        table.replace(_rows(value))
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1


def test_old_pins_go_and_those_of_the_last_hundred_batches_stay(table: MasterTable, tmp_path: Path) -> None:
    for batch in range(130):
        pinned_version(table, QUERY, batch)
    assert sorted(map(int, os.listdir(tmp_path / "t" / "_pins" / QUERY))) == list(range(30, 130))


def test_a_pinned_version_that_is_gone_is_an_error_that_names_it(table: MasterTable) -> None:
    pinned_version(table, QUERY, 3)
    newest = table.replace(_rows(2))
    newest.expire_versions(keep=1)
    with pytest.raises(TableNotFound, match=rf"batch 3 of query {QUERY} began with version 1 .* keep more versions"):
        pinned_version(newest, QUERY, 3)


def test_a_newest_version_that_cannot_be_read_is_an_error_and_pins_nothing(table: MasterTable, tmp_path: Path) -> None:
    table.replace(_rows(2))
    manifest = tmp_path / "t" / "versions" / f"{2:020d}.json"
    manifest.write_text(manifest.read_text().replace('"rows": 2', '"rows": 3'))
    with pytest.raises(DamagedTable, match=r"altered or truncated|not a table manifest"):
        pinned_version(table, QUERY, 0)
    assert not (tmp_path / "t" / "_pins").exists()


def test_a_pin_of_another_table_at_the_same_place_is_an_error(table: MasterTable, tmp_path: Path) -> None:
    pinned_version(table, QUERY, 0)
    for name in ("data", "versions"):
        table.store.remove(name)
    again = ss.stage(_rows(5), tmp_path / "t", key="k")  # pins do not make the place taken
    with pytest.raises(PinFailed, match=r"is of another table .* a new checkpoint"):
        pinned_version(again, QUERY, 0)
    with pytest.raises(PinFailed, match="is of another table"):
        pinned_version(table, QUERY, 1)


def test_a_pin_that_is_no_pin_is_named(table: MasterTable, tmp_path: Path) -> None:
    pinned_version(table, QUERY, 0)
    (tmp_path / "t" / "_pins" / QUERY / "0").write_text("{}")
    with pytest.raises(DamagedTable, match=r"_pins/.*/0 is not a pin of a batch: remove it"):
        pinned_version(table, QUERY, 0)


def test_a_place_that_cannot_be_written_says_what_to_do(table: MasterTable, tmp_path: Path) -> None:
    (tmp_path / "t" / "_pins").write_text("a file where the folder should be")
    with pytest.raises(PinFailed, match=r"cannot write .*_pins.*pins=, or use refresh='never'"):
        pinned_version(table, QUERY, 0)
    elsewhere = LocalStore(str(tmp_path / "elsewhere"))
    assert pinned_version(table, QUERY, 0, elsewhere).version == 1
    table.replace(_rows(2))
    assert pinned_version(table, QUERY, 0, elsewhere).version == 1


def test_writers_leave_pins_alone(table: MasterTable, tmp_path: Path) -> None:
    pinned_version(table, QUERY, 0)
    table.append(_rows(2)).append(_rows(3)).expire_versions(keep=2)
    assert os.listdir(tmp_path / "t" / "_pins" / QUERY) == ["0"]


def test_pins_work_on_any_filesystem(tmp_path: Path) -> None:
    filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    table = ss.stage(_rows(1), "t", key="k", filesystem=filesystem)
    assert isinstance(table.store, RemoteStore)
    assert pinned_version(table, QUERY, 0).version == 1
    table.replace(_rows(2))
    assert pinned_version(table, QUERY, 0).version == 1
    assert pinned_version(table, QUERY, 1).version == 2


def test_a_pin_never_opens_another_table_that_was_staged_in_the_same_folder(table: MasterTable, tmp_path: Path) -> None:
    newest = table.replace(_rows(2))
    pinned_version(table, QUERY, 0)
    for folder in ("data", "versions"):
        shutil.rmtree(tmp_path / "t" / folder)
    other = ss.stage(_rows(3), tmp_path / "t", key="k").replace(_rows(4))
    assert other.version == newest.version
    with pytest.raises(TableNotFound, match="another one than before"):
        pinned_version(table, QUERY, 0)


def test_a_pin_never_opens_another_version_with_its_number(table: MasterTable, tmp_path: Path) -> None:
    second = table.replace(_rows(2))
    pinned_version(table, QUERY, 0)
    (tmp_path / "t" / "versions" / f"{2:020d}.json").unlink()
    again = table.replace(_rows(3))
    for known in (table, again):
        with pytest.raises(TableNotFound, match=r"version 2 of .* is another one than before, .* restore"):
            pinned_version(known, QUERY, 0)
    assert pinned_version(second, QUERY, 0) is second, "its files are still there"
    assert pinned_version(table, QUERY, 1).version_id == again.version_id


def test_a_pin_of_the_first_release_is_followed(table: MasterTable, tmp_path: Path) -> None:
    pinned_version(table, QUERY, 0)
    table.replace(_rows(2))
    pin = tmp_path / "t" / "_pins" / QUERY / "0"
    pin.write_text(json.dumps({"table_id": table.table_id, "version": 1}))
    assert pinned_version(table.latest(), QUERY, 0).version == 1


def test_a_folder_of_pins_that_is_a_file_is_an_error(table: MasterTable, tmp_path: Path) -> None:
    """Without a pin a replay could take another version."""
    (tmp_path / "t" / "_pins").mkdir()
    (tmp_path / "t" / "_pins" / QUERY).write_text("no folder")
    with pytest.raises(PinFailed, match="cannot write"):
        pinned_version(table, QUERY, 0)


@pytest.mark.parametrize("version", ["1.5", "1e400", "true", '"1"'])
def test_a_pin_has_a_whole_number(table: MasterTable, tmp_path: Path, version: str) -> None:
    pinned_version(table, QUERY, 0)
    pin = tmp_path / "t" / "_pins" / QUERY / "0"
    pin.write_text(f'{{"table_id": "{table.table_id}", "version": {version}}}')
    with pytest.raises(DamagedTable, match="is not a pin"):
        pinned_version(table, QUERY, 0)
