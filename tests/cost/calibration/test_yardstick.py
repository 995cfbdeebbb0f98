"""The join that tells how fast the machine is: it works on any table, and its time is not the work's."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.bench.measurements.joins import saturated, steady
from semistream.bench.measurements.joins.saturated import PreparedStream, Saturated, Work
from semistream.bench.measurements.joins.steady import make_operator
from semistream.core.errors import EmptyTable, InvalidArgument
from semistream.core.metrics import Metrics
from semistream.cost.calibration import yardstick as yardstick_module
from semistream.cost.calibration.yardstick import Yardstick, at_usual_speed
from semistream.storage import MasterTable
from semistream.workloads import master_table, synthetic


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yardstick_module, "_WARM_UP_S", 0.01)
    monkeypatch.setattr(yardstick_module, "_MEASURED_S", 0.0)


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    return ss.stage(master_table(5000), tmp_path / "table", key="key", page_bytes=4096)


def even_stream(rows: int) -> PreparedStream:
    return PreparedStream(synthetic(rows, zipf_exponent=0.0).stream(0))


@pytest.mark.parametrize("layout", ["heap", "clustered"])
@pytest.mark.parametrize("rows", [1, 5000])
def test_it_works_on_any_table(tmp_path: Path, layout: str, rows: int) -> None:
    content = {"day": np.arange(rows), "name": [f"n{number}" for number in range(rows)]}
    table = ss.stage(pa.table(content), tmp_path / "t", key=["day", "name"], layout=layout, page_bytes=4096)
    with Yardstick(table) as yardstick:
        measured = [yardstick.measure() for _ in range(3)]
    assert min(measured) > 0
    assert yardstick.step_s[1:] == measured
    assert yardstick.usual_step_s == pytest.approx(np.median(yardstick.step_s))


class Slow:
    """A yardstick that takes its time."""

    def __init__(self) -> None:
        self.measured = 0

    def measure(self) -> float:
        self.measured += 1
        time.sleep(0.02)
        return float(self.measured)


def test_work_is_measured_without_the_yardstick(table: MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saturated, "_TURN_S", 0.0)
    yardstick = Slow()
    with make_operator("meshjoin", table, 400_000) as op:
        busy = Saturated(op, even_stream(table.num_rows))
        busy.run(bytes_read=table.num_bytes)
        began_s = time.perf_counter()
        work = busy.run(bytes_read=3 * table.num_bytes, yardstick=yardstick)  # type: ignore[arg-type]
        took_s = time.perf_counter() - began_s
    assert yardstick.measured == work.counted.steps + 1  # before, and after each step
    assert work.yardstick_s == pytest.approx((1 + yardstick.measured) / 2)
    assert work.elapsed_s <= took_s - yardstick.measured * 0.02 + 1e-6
    assert work.undisturbed_s <= work.elapsed_s


def test_there_need_not_be_one(table: MasterTable) -> None:
    with make_operator("meshjoin", table, 400_000) as op:
        work = Saturated(op, even_stream(table.num_rows)).run(bytes_read=table.num_bytes)
    assert work.yardstick_s is None


def test_the_part_of_median_speed_counts(table: MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = iter([5.0, 1.0, 2.0, 9.0, 3.0])

    class Scripted:
        peak = None

        def run(self, **_: object) -> Work:
            return Work(Metrics(tuples_answered=100), elapsed_s=1.0, cpu_s=0.1, yardstick_s=next(speeds))

    monkeypatch.setattr(steady, "Saturated", lambda *_: Scripted())
    monkeypatch.setattr(steady, "_warm_up", lambda *_: None)
    with make_operator("meshjoin", table, 400_000) as op:
        found = steady.measure_steady(op, even_stream(1000), table, steady.Effort(least_measured_s=4.5))
    assert found.work.yardstick_s == 3.0  # the machine was three times as slow, and the work took as long as ever


def test_seconds_at_the_usual_speed_of_the_machine() -> None:
    assert at_usual_speed(6.0, yardstick_s=3.0, usual_step_s=2.0) == 4.0
    assert at_usual_speed(6.0, yardstick_s=None, usual_step_s=2.0) == 6.0


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_a_yardstick_leaves_nothing_behind(table: MasterTable, scratch: Path) -> None:
    with Yardstick(table, scratch) as yardstick:
        assert [folder.name.startswith("semistream-yardstick-") for folder in scratch.iterdir()] == [True]
        assert yardstick.measure() > 0
    assert not list(scratch.iterdir())


def test_a_yardstick_that_fails_leaves_nothing_behind(
    table: MasterTable, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Yardstick, "measure", lambda yardstick: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Yardstick(table, scratch)
    assert not list(scratch.iterdir())


def test_tables_without_keys_are_refused_by_their_own_name(tmp_path: Path) -> None:
    buckets = ss.stage(pa.table({"id": [1]}), tmp_path / "buckets", key="id", buckets=2)
    empty = next(buckets.bucket(bucket) for bucket in range(2) if buckets.bucket(bucket).num_pages == 0)
    with pytest.raises(EmptyTable, match=str(empty.path)):
        Yardstick(empty)
    unknown = ss.stage(pa.table({"id": pa.array([None, None], pa.int64())}), tmp_path / "unknown", key="id")
    with pytest.raises(InvalidArgument, match=str(unknown.path)):
        Yardstick(unknown)
