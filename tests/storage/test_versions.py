"""Versions: whole or absent, never changed, and removed only when asked."""

import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semistream.core.errors import (
    ConcurrentWrite,
    DamagedTable,
    EmptyTable,
    InvalidArgument,
    SchemaMismatch,
    TableExists,
    TableNotFound,
)
from semistream.storage import MasterTable, open_table, stage
from semistream.storage.files.manifest import DataFile, TableForm, _seal, publish_version, read_manifest
from semistream.storage.files.store import LocalStore, open_store
from semistream.storage.writing.page_writer import write_data_file
from semistream.storage.writing.write_job import WriteJob
from tests.depth import slow_unless
from tests.storage.cases import by_arrival, files_under, make_rows, read_all

SMALL: dict[str, Any] = {"page_bytes": "2KB", "memory": 100_000}

_REMOVE = LocalStore.remove


def small_table(path: Path, **options: Any) -> MasterTable:
    return stage(make_rows(1_000), path, key="k", **{**SMALL, **options})


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_append_and_replace_make_new_versions(tmp_path: Path, layout: str) -> None:
    first = small_table(tmp_path / "t", layout=layout, buckets=2)
    before = files_under(tmp_path / "t")
    second = first.append(make_rows(300, seed=1), memory="1MB")
    third = second.replace(make_rows(50, seed=2))
    assert [t.version for t in (first, second, third)] == [1, 2, 3]
    assert [t.num_rows for t in (first, second, third)] == [1_000, 1_300, 50]
    assert len({t.table_id for t in (first, second, third)}) == 1
    assert first.versions() == [1, 2, 3]
    assert first.latest().version == 3
    after = files_under(tmp_path / "t")
    assert all(after[name] == content for name, content in before.items())
    for table in (first, second, third):
        reopened = open_table(tmp_path / "t", table.version)
        reopened.verify()
        assert read_all(reopened).num_rows == table.num_rows
    both = sorted(make_rows(1_000)["arrival"].to_pylist() + make_rows(300, seed=1)["arrival"].to_pylist())
    assert sorted(read_all(second)["arrival"].to_pylist()) == both
    assert len(second.pages.files) == 4  # a sorted file per bucket and append


def test_append_goes_to_the_newest_version(tmp_path: Path) -> None:
    first = small_table(tmp_path / "t")
    first.append(make_rows(10))
    third = first.append(make_rows(20))
    assert (third.version, third.num_rows) == (3, 1_030)


def test_append_conforms_the_data(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.large_string())])
    table = stage(pa.table({"k": [1], "s": ["a"]}, schema), tmp_path / "t", key="k", layout="heap")
    table = table.append(pa.table({"s": pa.array(["b"]).dictionary_encode(), "k": pa.array([2], pa.int32())}))
    assert read_all(table).to_pydict() == {"k": [1, 2], "s": ["a", "b"]}
    assert read_all(table).schema == schema
    for bad, part in (
        (pa.table({"k": [1], "s": [1]}), "'s' has type int64, the table has large_string"),
        (pa.table({"k": ["x"], "s": ["a"]}), "'k' has type string, the table has int64"),
        (pa.table({"k": pa.array([1], pa.uint64()), "s": ["a"]}), "'k' has type uint64"),
        (pa.table({"k": [1.5], "s": ["a"]}), "'k' has type double"),
        (pa.table({"k": [1]}), "lacks column 's'"),
        (pa.table({"k": [1], "s": ["a"], "z": [0]}), "'z'"),
        (pa.table({"k": pa.array([None], pa.int64()), "s": ["a"]}), "without NULLs"),
    ):
        with pytest.raises(SchemaMismatch, match=part):
            table.append(bad)
    with pytest.raises(EmptyTable):
        table.append(schema.empty_table())
    assert open_table(tmp_path / "t").version == 2
    assert len(files_under(tmp_path / "t" / "data")) == 4


def test_expired_versions_take_their_files_along(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    table.append(make_rows(10))
    table.replace(make_rows(20))
    last = table.append(make_rows(30))
    with pytest.raises(InvalidArgument, match="keep=0"):
        table.expire_versions(keep=0)
    assert table.expire_versions(keep=2) == [1, 2]
    assert table.versions() == [3, 4]
    assert len(files_under(tmp_path / "t" / "data")) == 4
    assert read_all(last).num_rows == 50
    with pytest.raises(TableNotFound, match="version 1"):
        open_table(tmp_path / "t", 1)
    last.verify()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    with LocalStore(str(tmp_path / "t")).writing():
        for write in (
            lambda: table.append(make_rows(5)),
            lambda: table.replace(make_rows(5)),
            table.expire_versions,
        ):
            with pytest.raises(ConcurrentWrite, match="another writer"):
                write()
    assert table.append(make_rows(5)).version == 2


def test_a_version_is_published_once(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    newest = read_manifest(table.store)
    with pytest.raises(ConcurrentWrite, match="version 1"):
        publish_version(table.store, newest.form, 1, newest.files)
    assert sorted(files_under(tmp_path / "t" / "versions")) == [f"{1:020d}.json"]


def test_everything_is_on_disk_before_the_version_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_table(tmp_path / "t")
    old = set(files_under(tmp_path / "t" / "data"))
    done: list[str] = []
    link = os.link

    def synced(fd: int) -> None:
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path / "t"))

    def linked(source: str, target: str) -> None:
        done.append("published")
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    table.append(make_rows(5))
    new = {f"data/{name}" for name in set(files_under(tmp_path / "t" / "data")) - old}
    published = done.index("published")
    assert len(new) == 2
    assert new <= set(done[: done.index("data")]), "a file, then its name"
    assert done.index("data") < published
    assert any(name.startswith("versions/.") for name in done[:published])
    assert "versions" in done[published:]


def _write_bucket(arguments: tuple[str, TableForm, int]) -> DataFile:
    path, form, bucket = arguments
    rows = make_rows(200, seed=bucket).combine_chunks().to_batches()
    file = write_data_file(WriteJob.begin(open_store(path)), form, bucket, rows)
    assert file is not None
    return file


def test_files_written_by_other_processes_are_published_by_one(tmp_path: Path) -> None:
    table = stage(make_rows(100), tmp_path / "t", key="k", layout="heap", buckets=3, page_bytes="2KB")
    form = read_manifest(table.store).form
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        files = pool.map(_write_bucket, [(str(tmp_path / "t"), form, bucket) for bucket in range(3)])
    publish_version(table.store, form, 2, tuple(files))
    stored = read_all(open_table(tmp_path / "t"))
    assert stored.equals(pa.concat_tables([make_rows(200, seed=bucket) for bucket in range(3)]))


_PUBLISHING_STEPS = 10


class Crash(BaseException):
    """Stands for the death of the process: nothing of the library may run after it."""


def crashing_store(monkeypatch: pytest.MonkeyPatch, fail_at: int) -> Callable[[], int]:
    """Make the ``fail_at``-th change of the filesystem, counted from 0, and all after it fail."""
    steps = 0

    def counted(original: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            nonlocal steps
            steps += 1
            if steps > fail_at:
                raise Crash
            return original(*args, **options)

        return step

    for name in ("write", "open", "link", "unlink", "fsync", "mkdir", "rmdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return lambda: steps


@pytest.mark.parametrize("every", [slow_unless(False, 1), 4])
@pytest.mark.parametrize("operation", ["append", "replace", "stage", "expire"])
def test_a_crash_at_any_step_leaves_a_whole_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, every: int
) -> None:
    rows, more = make_rows(150), make_rows(60, seed=1)
    options: dict[str, Any] = {"page_bytes": "2KB", "memory": 8_000}

    def run(path: Path) -> None:
        if operation == "stage":
            stage(rows, path, key="k", **options)
        elif operation == "expire":
            open_table(path).expire_versions()
        else:
            getattr(open_table(path), operation)(more, memory=8_000)

    if operation != "stage":
        stage(rows, tmp_path / "before", key="k", **options)
    if operation == "expire":
        open_table(tmp_path / "before").replace(more, memory=8_000)

    def prepared(name: str) -> Path:
        path = tmp_path / name
        if operation != "stage":
            shutil.copytree(tmp_path / "before", path)
        return path

    whole = prepared("whole")
    with monkeypatch.context() as patch:
        steps = crashing_store(patch, sys.maxsize)
        run(whole)
        last = steps()
    survived = crashed = 0
    # Every step around the moment in which the version comes into being, some of those before.
    for fail_at in sorted({*range(0, last, every), *range(max(0, last - _PUBLISHING_STEPS), last + 1)}):
        path = prepared(str(fail_at))
        finished = False
        with monkeypatch.context() as patch:
            crashing_store(patch, fail_at)
            try:
                run(path)
                finished = True
            except Crash:
                crashed += 1
        if finished:
            survived += 1
        try:
            table = open_table(path)
        except TableNotFound:
            assert operation == "stage"
            assert not finished
            table = stage(rows, path, key="k", **options)  # the remains do not stand in the way
            assert table.version == 1
        table.verify()
        expected = {
            "stage": {1: 150},
            "append": {1: 150, 2: 210},
            "replace": {1: 150, 2: 60},
            "expire": {2: 60},
        }[operation]
        assert table.num_rows == expected[table.version]
        if finished:
            assert table.version == max(expected)
        # The next writer clears what is left.
        after = open_table(path).append(more, memory=8_000)
        after.expire_versions()
        assert sorted(p.name for p in path.iterdir()) == [".lock", "data", "versions"]
        named = {os.path.basename(p) for f in after.pages.files for p in (f.path, f.index_path)}
        assert {p.name for p in (path / "data").iterdir()} == named
    assert survived == 1
    assert crashed * every > 5


KILLED_WRITER = """
import sys
import pyarrow as pa
from semistream.storage import open_table, stage
from tests.storage.cases import make_rows
path = sys.argv[1]
while True:
    open_table(path).replace(make_rows(3_000), memory=60_000)
    print("published", flush=True)
    open_table(path).append(make_rows(2_000), memory=60_000)
    open_table(path).expire_versions(keep=2)
"""


@pytest.mark.parametrize("kills", [slow_unless(False, 6), 2])
def test_kill_at_random_moments(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "t"
    rows = make_rows(3_000)
    stage(rows, path, key="k", page_bytes="2KB", memory=60_000)
    chance = random.Random(7)
    root = Path(__file__).parents[2]
    version = open_table(path).version
    for _ in range(kills):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, str(path)],
            stdout=subprocess.PIPE,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"published\n"
        time.sleep(chance.uniform(0.02, 0.5))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        table = open_table(path)
        table.verify()
        assert table.num_rows in (3_000, 5_000)
        assert by_arrival(read_all(open_table(path))).slice(0, 1)["arrival"].to_pylist() == [0]
        assert table.version > version  # the writer did get somewhere
        version = table.version
    final = open_table(path).replace(rows)
    final.expire_versions()
    assert len(files_under(path / "data")) == 2
    assert sorted(p.name for p in path.iterdir()) == [".lock", "data", "versions"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_what_fails_after_publishing_leaves_the_new_version_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    table = stage(make_rows(500), tmp_path / "t", key="k")

    def fail(store: LocalStore, folder: str) -> None:
        if folder == "versions":
            raise failure

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "sync_folder", fail)
        with pytest.raises(failure):
            table.append(make_rows(100))
    newest = open_table(tmp_path / "t")
    newest.verify()
    assert (newest.version, newest.num_rows) == (2, 600)
    assert newest.append(make_rows(50)).num_rows == 650


def test_a_failing_source_leaves_no_files(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from make_rows(2_000).to_batches()
        raise RuntimeError("the source broke")

    reader = pa.RecordBatchReader.from_batches(make_rows(1).schema, failing())
    with pytest.raises(RuntimeError, match="the source broke"):
        stage(reader, tmp_path / "t", key="k", memory=60_000)
    assert files_under(tmp_path / "t") == {".lock": b""}
    assert stage(make_rows(5), tmp_path / "t", key="k").num_rows == 5


def test_tables_pickle_without_open_files(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    assert table.pages.num_pages == table.num_pages
    copy = pickle.loads(pickle.dumps(table))
    assert (copy.version, copy.table_id, copy.schema) == (table.version, table.table_id, table.schema)
    assert read_all(copy).equals(read_all(table))


def test_unknown_places_and_versions(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="nowhere"):
        open_table(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("file", "empty"):
        with pytest.raises(TableNotFound, match=name):
            open_table(tmp_path / name)
    small_table(tmp_path / "t")
    with pytest.raises(TableNotFound, match="version 9"):
        open_table(tmp_path / "t", 9)
    with pytest.raises(InvalidArgument, match="bogus"):
        open_table("bogus://x/y")
    with pytest.raises(TableExists):
        small_table(tmp_path / "t")


def test_the_key_is_known_in_any_order(tmp_path: Path) -> None:
    table = stage(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "t", key=["a", "b"], layout="heap")
    assert table.is_key(["b", "a"])
    assert not table.is_key(["a"])
    assert not table.is_key(["a", "c"])


def test_a_number_given_twice_is_another_version(tmp_path: Path) -> None:
    """As after a restore from a backup, or when somebody removes the newest manifest."""
    table = stage(make_rows(50), tmp_path / "t", key="k")
    second = table.append(make_rows(5))
    os.unlink(tmp_path / "t" / "versions" / f"{2:020d}.json")
    again = table.append(make_rows(7))
    assert again.version == second.version
    assert again.version_id != second.version_id
    assert again.version_id == open_table(tmp_path / "t").version_id
    assert again.bucket(0).version_id == again.version_id


def test_a_damaged_newest_version_is_left_behind_by_a_rollback(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = stage(make_rows(50), path, key="k")
    first.append(make_rows(5))
    manifest = path / "versions" / f"{2:020d}.json"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    with pytest.raises(DamagedTable, match=r"open_table\(path, version\).rollback\(\)"):
        open_table(path)
    back = open_table(path, version=1).rollback()
    assert back.version == 3
    assert read_all(back).equals(read_all(first))
    assert open_table(path).version_id == back.version_id
    assert back.append(make_rows(5)).num_rows == 55
    assert back.versions() == [1, 2, 3, 4]


def test_a_rollback_needs_the_files_of_its_version(tmp_path: Path) -> None:
    first = stage(make_rows(50), tmp_path / "t", key="k", buckets=2)
    first.replace(make_rows(5))
    assert first.bucket(0).rollback().num_rows == 50, "all buckets, whichever is viewed"
    os.unlink(tmp_path / "t" / first.pages.files[0].path)
    with pytest.raises(DamagedTable, match="is missing"):
        first.rollback()
    assert open_table(tmp_path / "t").version == 3


def test_an_append_reads_the_newest_manifest_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stage(make_rows(50), tmp_path / "t", key="k", buckets=4)
    read, names = LocalStore.read, []

    def counted(store: LocalStore, name: str, most_bytes: int) -> bytes:
        names.append(name)
        return read(store, name, most_bytes)

    monkeypatch.setattr(LocalStore, "read", counted)
    for _ in range(5):
        table = table.append(make_rows(50))
        assert names == [f"versions/{table.version - 1:020d}.json"]
        names.clear()


def test_tables_of_the_first_format_are_read_and_grow(tmp_path: Path) -> None:
    path = tmp_path / "t"
    stage(make_rows(50), path, key="k")
    manifest = path / "versions" / f"{1:020d}.json"
    fields = json.loads(manifest.read_bytes())
    manifest.write_bytes(_seal({**fields, "format_version": 1}))
    assert b"\n" in manifest.read_bytes(), "the first format had line breaks"
    assert open_table(path).append(make_rows(5)).num_rows == 55


def test_a_forked_child_does_not_keep_the_writers_lock(tmp_path: Path) -> None:
    table = stage(make_rows(50), tmp_path / "t", key="k")
    read, write = os.pipe()
    with table.store.writing():
        child = os.fork()
        if child == 0:
            os.read(read, 1)
            os._exit(0)
    try:
        table.append(make_rows(5))
    finally:
        os.write(write, b".")
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_another_table_at_the_same_place_is_never_taken_for_this_one(tmp_path: Path) -> None:
    table = stage(make_rows(50), tmp_path / "t", key="k")
    second = table.append(make_rows(5))
    shutil.rmtree(tmp_path / "t")
    stage(make_rows(9), tmp_path / "t", key="k").append(make_rows(3))
    for write in (table.append, table.replace):
        with pytest.raises(TableNotFound, match="another table by now: open it with open_table"):
            write(make_rows(5))
    with pytest.raises(TableNotFound, match="another one than before"):
        second.rollback()
    assert open_table(tmp_path / "t").num_rows == 12


def test_files_of_others_are_no_litter(tmp_path: Path) -> None:
    mine = tmp_path / "t" / "sorting-photos"
    mine.mkdir(parents=True)
    (mine / "a.jpg").write_text("mine")
    with pytest.raises(TableExists):
        stage(make_rows(5), tmp_path / "t", key="k")
    mine.rename(tmp_path / "away")
    table = stage(make_rows(5), tmp_path / "t", key="k")
    (tmp_path / "away").rename(mine)
    (tmp_path / "t" / "sorting-rules.md").write_text("mine")
    table.append(make_rows(5)).expire_versions()
    assert (mine / "a.jpg").exists()
    assert (tmp_path / "t" / "sorting-rules.md").exists()


def test_what_an_expiry_that_died_left_goes_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stage(make_rows(50), tmp_path / "t", key="k").replace(make_rows(5))
    with monkeypatch.context() as patched:
        patched.setattr("semistream.storage.table.remove_litter", lambda store, job: None)
        patched.setattr(WriteJob, "end", lambda job: None)
        table.expire_versions()
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4
    table.append(make_rows(5))
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4, "two of each version that is left"


@pytest.mark.parametrize("removals_before", range(5))
def test_an_expiry_that_dies_while_it_removes_files_is_finished_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removals_before: int
) -> None:
    table = stage(make_rows(50), tmp_path / "t", key="k").replace(make_rows(6)).replace(make_rows(5))
    removed: list[str] = []

    def remove(store: LocalStore, name: str) -> None:
        if len(removed) == removals_before:
            raise KeyboardInterrupt
        removed.append(name)
        _REMOVE(store, name)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "remove", remove)
        with pytest.raises(KeyboardInterrupt):
            table.expire_versions()
    table.append(make_rows(5))
    versions = len(table.versions())
    assert len(list((tmp_path / "t" / "data").iterdir())) == 2 * versions, "two of each version that is left"


@pytest.mark.parametrize("version", [1.0, True, "1"])
def test_numbers_of_versions_are_whole(tmp_path: Path, version: Any) -> None:
    stage(make_rows(5), tmp_path / "t", key="k")
    with pytest.raises(InvalidArgument, match="is not the number of a version"):
        open_table(tmp_path / "t", version)


def test_arguments_of_another_kind_are_one_line(tmp_path: Path) -> None:
    table = stage(make_rows(5), tmp_path / "t", key="k")
    odd: Any = "x"
    for call in (
        lambda: table.expire_versions(odd),
        lambda: table.bucket(odd),
        lambda: stage(make_rows(5), tmp_path / "u", key=5),  # type: ignore[arg-type]
        lambda: open_table(5),  # type: ignore[arg-type]
        lambda: open_table("a\0b"),
    ):
        with pytest.raises(InvalidArgument):
            call()
