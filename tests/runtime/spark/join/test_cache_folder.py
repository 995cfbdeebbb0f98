"""The folder of the cache that workers share: in memory where there is room, and gone with its executor."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semistream as ss
from semistream.runtime.spark.join import cache_folder as module
from semistream.runtime.spark.join import cache_keeper
from semistream.runtime.spark.join.cache_folder import cache_folder, remove_abandoned
from semistream.runtime.spark.join.plan import JoinPlan
from tests.runtime.spark.knowing_sink import LONG_S

SCHEMA = pa.schema([("k", pa.int64())])

# A worker of another executor, which makes a folder in memory and waits.
WORKER = """
import os, sys, time
from semistream.runtime.spark.join import cache_folder
memory, executor = sys.argv[1:]
cache_folder._MEMORY = memory
cache_folder._is_memory = lambda folder: True
cache_folder.start_keeper = lambda folder: None
cache_folder._hold(os.path.join(cache_folder._private_root(), executor))
print("holds", flush=True)
time.sleep(600)
"""


@pytest.fixture
def plan(tmp_path: Path) -> JoinPlan:
    table = ss.stage(pa.table({"k": [1], "v": ["x"]}), tmp_path / "t", key="k")
    return JoinPlan(
        join_id="a",
        table=table,
        stream_schema=SCHEMA,
        on={"k": "k"},
        how="inner",
        columns=None,
        algorithm="sweepjoin",
        task_bytes=1 << 20,
        slots=2,
        exchange="none",
        refresh="never",
        completion="batch",
    )


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Spark gives the executor."""
    disk = tmp_path / "spark-local"
    disk.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(disk))
    return disk


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in the place of ``/dev/shm``."""
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(module, "_MEMORY", str(memory))
    monkeypatch.setattr(module, "_LEFT_SHARE", 0.0)  # the disk that stands for memory may be fuller
    monkeypatch.setattr(module, "_is_memory", lambda folder: True)
    held: dict[str, int] = {}
    monkeypatch.setattr(module, "_HELD", held)
    monkeypatch.setattr(module, "start_keeper", lambda folder: None)
    yield memory
    for file in held.values():
        os.close(file)


def _executors(memory: Path) -> list[Path]:
    return list((memory / f"semistream-{os.geteuid()}").iterdir())


def test_a_cache_lies_in_memory_for_its_user_alone(plan: JoinPlan, disk: Path, memory: Path) -> None:
    before = os.umask(0)
    try:
        folder = cache_folder(plan)
    finally:
        os.umask(before)
    assert folder is not None
    assert Path(folder).is_relative_to(memory)
    assert {path.stat().st_mode & 0o777 for path in memory.rglob("*") if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in memory.rglob("*") if path.is_file()} == {0o600}
    assert cache_folder(plan) == folder, "the same for all tasks"
    assert cache_folder(replace(plan, join_id="b")) != folder
    assert len(_executors(memory)) == 1
    assert not list(disk.iterdir())


def test_executors_do_not_share(
    plan: JoinPlan, disk: Path, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cache_folder(plan)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "other"))
    assert cache_folder(plan) != first


def test_without_room_a_cache_lies_on_the_disk(plan: JoinPlan, disk: Path, memory: Path) -> None:
    large = replace(plan, task_bytes=1 << 60)
    assert cache_folder(large) == str(disk / "semistream" / "a")
    assert cache_folder(replace(large, may_write_rows=False)) is None, "where Spark encrypts what it writes there"
    assert not list(memory.rglob("*/joins"))


def test_without_such_memory_a_cache_lies_on_the_disk(
    plan: JoinPlan, disk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_MEMORY", str(tmp_path))  # no tmpfs of its own
    assert cache_folder(plan) == str(disk / "semistream" / "a")
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert cache_folder(plan) is None, "outside of Spark"


def test_a_folder_that_others_can_write_is_not_used(plan: JoinPlan, disk: Path, memory: Path) -> None:
    root = memory / f"semistream-{os.geteuid()}"
    root.mkdir()
    root.chmod(0o777)
    assert cache_folder(plan) == str(disk / "semistream" / "a")


def test_a_folder_that_was_removed_is_made_again(plan: JoinPlan, disk: Path, memory: Path) -> None:
    folder = cache_folder(plan)
    (executor,) = _executors(memory)
    executor.rename(memory / "gone")
    assert cache_folder(plan) == folder
    assert (executor / "users").exists()


def _worker(memory: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WORKER, str(memory), "other"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "holds\n"
    return worker


def test_what_a_killed_worker_left_goes_and_what_is_used_stays(plan: JoinPlan, disk: Path, memory: Path) -> None:
    cache_folder(plan)
    (own,) = _executors(memory)
    with _worker(memory) as worker:
        remove_abandoned()
        assert len(_executors(memory)) == 2
        worker.kill()
    remove_abandoned()
    assert _executors(memory) == [own]


def test_the_keeper_removes_a_folder_when_the_daemon_has_ended_and_the_last_worker(
    plan: JoinPlan, disk: Path, memory: Path
) -> None:
    cache_folder(plan)
    (own,) = _executors(memory)
    (held,) = module._HELD.values()
    daemon = subprocess.Popen(["sleep", "600"])
    keepers = [_keeper(own, daemon.pid), _keeper(own, daemon.pid)]
    _wait_until(lambda: any(keeper.poll() is not None for keeper in keepers))
    (keeper,) = [keeper for keeper in keepers if keeper.poll() is None]
    daemon.kill()
    daemon.wait()
    assert own.exists(), "its worker lives"
    module._HELD.clear()
    os.close(held)
    assert keeper.wait(LONG_S) == 0
    assert not _executors(memory)


def test_a_worker_starts_a_keeper_for_the_process_that_forked_it(memory: Path) -> None:
    folder = memory / "executor"
    folder.mkdir()
    code = f"from semistream.runtime.spark.join.cache_keeper import start_keeper; start_keeper({str(folder)!r})"
    # The shell is the parent; it ends after its worker.
    daemon = subprocess.Popen(["sh", "-c", '"$0" -c "$1" && echo started && read _', sys.executable, code], **PIPES)
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == "started\n"
    _wait_until(lambda: (folder / "users").exists())
    daemon.communicate("\n")
    _wait_until(lambda: not folder.exists())


PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def _keeper(folder: Path, daemon: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", cache_keeper.__file__, str(folder), str(daemon)])


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_folder_without_its_lock_goes_when_it_is_old(memory: Path, plan: JoinPlan, disk: Path) -> None:
    cache_folder(plan)
    (own,) = _executors(memory)
    half_made = own.with_name("half-made")
    half_made.mkdir()
    remove_abandoned()
    assert half_made.exists()
    os.utime(half_made, (0, 0))
    remove_abandoned()
    assert _executors(memory) == [own]
