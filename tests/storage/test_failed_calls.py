"""Every call of a writer to the filesystem fails once: the version before is there, or the new one, and no other."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from semistream.core.errors import InvalidArgument, SemistreamError, TableNotFound
from semistream.storage import MasterTable, open_table, stage, staging
from tests.storage.cases import by_arrival, make_rows, read_all
from tests.storage.failing_store import FailingStore, Faults

BEFORE, MORE = make_rows(400), make_rows(300, seed=1)

WRITERS: dict[str, Callable[[MasterTable], object]] = {
    "append": lambda table: table.append(MORE, memory=60_000),
    "replace": lambda table: table.replace(MORE, memory=60_000),
    "rollback": lambda table: table.rollback(),
    "expire": lambda table: table.expire_versions(),
}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_failed_call_leaves_a_whole_version(tmp_path: Path, writer: str, lasting: bool) -> None:
    stage(make_rows(50), tmp_path / "base", key="k", buckets=2, page_bytes="2KB").replace(BEFORE)
    allowed = {"append": [BEFORE, pa.concat_tables([BEFORE, MORE])], "replace": [BEFORE, MORE]}.get(writer, [BEFORE])
    at, failed = 1, True
    while failed:
        path = tmp_path / f"call-{at}"
        shutil.copytree(tmp_path / "base", path)
        store = FailingStore(str(path))
        object.__setattr__(store, "faults", Faults(at, lasting=lasting))
        opened = open_table(path)
        try:
            WRITERS[writer](MasterTable(store, opened._manifest))
        except (OSError, SemistreamError) as error:
            failed = True
            reason = str(error)
        else:
            failed = store.faults.calls >= at
            reason = "hidden"
        table = open_table(path)
        table.verify()
        rows = read_all(table).sort_by([("arrival", "ascending"), ("text", "ascending")])
        expected = [each.sort_by([("arrival", "ascending"), ("text", "ascending")]) for each in allowed]
        assert any(rows.equals(each) for each in expected), f"call {at} ({reason})"
        # The next writer finds its way, and nothing is left behind.
        final = table.replace(BEFORE)
        final.expire_versions()
        assert by_arrival(read_all(final)).equals(by_arrival(read_all(open_table(path)).combine_chunks()))
        assert len(list((path / "data").iterdir())) == 4
        assert sorted(name.name for name in path.iterdir()) == [".lock", "data", "versions"]
        shutil.rmtree(path)
        at += 1
    assert at > 5, "the writer makes calls"


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_failed_call_of_the_first_version_leaves_a_folder_to_stage_in_again(
    tmp_path: Path, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, failed = 1, True
    while failed:
        path = tmp_path / f"call-{at}"
        store = FailingStore(str(path))
        object.__setattr__(store, "faults", Faults(at, lasting=lasting))
        with monkeypatch.context() as patch:
            patch.setattr(staging, "open_store", lambda *_, given=store: given)
            try:
                stage(BEFORE, path, key="k", buckets=2, page_bytes="2KB", memory=60_000)
            except (OSError, SemistreamError):
                failed = True
            else:
                failed = store.faults.calls >= at
        try:
            table = open_table(path)
        except TableNotFound:
            table = stage(BEFORE, path, key="k", buckets=2, page_bytes="2KB")
        table.verify()
        assert by_arrival(read_all(table)).equals(by_arrival(BEFORE))
        final = table.replace(BEFORE)
        final.expire_versions()
        assert len(list((path / "data").iterdir())) == 4
        assert sorted(name.name for name in path.iterdir()) == [".lock", "data", "versions"]
        at += 1
    assert at > 5, "the writer makes calls"


def test_sorting_on_disk_in_a_folder_whose_name_is_not_utf_8_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    few = pa.table({"k": [1, 2]})
    assert stage(few, folder / "few", key="k").num_rows == 2
    many = pa.table({"k": range(100_000)})
    with pytest.raises(InvalidArgument, match=r"path=.* is not UTF-8: rename the file or folder"):
        stage(many, folder / "many", key="k", memory="1MB")
    with pytest.raises(InvalidArgument, match=r"data=.* is not UTF-8: rename the file or folder"):
        stage(os.fspath(folder / "data.parquet"), tmp_path / "t", key="k")
