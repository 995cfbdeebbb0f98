"""The stopwatch that leaves out time without a core."""

import threading
import time
from pathlib import Path

import pytest

from semistream.cost.calibration import stopwatch
from semistream.cost.calibration.stopwatch import Aside, Stopwatch, waited_for_core_s


def write_waits(folder: Path, waits_s: dict[int, float]) -> None:
    for thread, wait_s in waits_s.items():
        (folder / str(thread)).mkdir(exist_ok=True)
        (folder / str(thread) / "schedstat").write_text(f"5 {round(wait_s * 1e9)} 3\n")


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stopwatch, "_TASKS", tmp_path)
    return tmp_path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    now = {"elapsed": 100.0, "cpu": 7.0}
    monkeypatch.setattr(time, "perf_counter", lambda: now["elapsed"])
    monkeypatch.setattr(time, "thread_time", lambda: now["cpu"])
    return now


def test_own_waiting_is_left_out_and_that_of_others_while_blocked(tasks: Path, clock: dict[str, float]) -> None:
    own = threading.get_native_id()
    write_waits(tasks, {own: 2.0, own + 1: 50.0})
    stopwatch = Stopwatch()
    # Of 10 s it ran for 4 and was ready for 3: it was blocked for 3, in 1 of which another thread had no core.
    clock["elapsed"], clock["cpu"] = 110.0, 11.0
    write_waits(tasks, {own: 5.0, own + 1: 51.0})
    assert stopwatch.worked_s() == pytest.approx(6.0)
    # Others that wait longer than it was blocked did so while it ran.
    write_waits(tasks, {own + 1: 90.0})
    assert stopwatch.worked_s() == pytest.approx(4.0)


def test_a_thread_that_began_later_counts(tasks: Path, clock: dict[str, float]) -> None:
    own = threading.get_native_id()
    write_waits(tasks, {own: 2.0})
    stopwatch = Stopwatch()
    clock["elapsed"] = 110.0
    write_waits(tasks, {own: 2.0, own + 1: 1.5})
    assert stopwatch.worked_s() == pytest.approx(8.5)


def test_what_is_done_aside_is_left_out_once(tasks: Path, clock: dict[str, float]) -> None:
    own = threading.get_native_id()
    write_waits(tasks, {own: 2.0})
    stopwatch, before = Stopwatch(), Aside.now()
    clock["elapsed"], clock["cpu"] = 106.0, 8.0
    write_waits(tasks, {own: 5.0})
    aside = Aside().plus(before)
    assert aside == pytest.approx(Aside(6.0, 1.0, 3.0))
    clock["elapsed"], clock["cpu"] = 110.0, 11.0
    write_waits(tasks, {own: 5.5})
    assert stopwatch.worked_s(aside) == pytest.approx(3.5)


def test_a_system_that_does_not_tell(tasks: Path, clock: dict[str, float]) -> None:
    stopwatch = Stopwatch()
    clock["elapsed"] = 103.0
    assert stopwatch.worked_s() == 3.0
    tasks.rmdir()
    assert Stopwatch().worked_s() == 0.0
    assert waited_for_core_s() == 0.0
