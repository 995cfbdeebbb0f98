"""The benchmark on Spark and the demonstration on Spark, small, each in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from semistream.bench.framework.measurement import MACHINE, Point, key_of
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result, read_result
from semistream.bench.framework.runner import measurements_of
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import Judged, judge_targets
from semistream.bench.measurements.spark import plan_times, warm_tables
from semistream.bench.measurements.spark.micro_batches import MicroBatches, _in_a_line
from semistream.bench.measurements.spark.plan_times import PlanTimes, WorkerMemory
from semistream.bench.measurements.spark.plans import OURS, PLANS
from semistream.bench.measurements.spark.staggered import StaggeredCompletion
from semistream.bench.measurements.spark.warm_tables import WarmTables
from semistream.core.errors import InvalidArgument

ROOT = Path(__file__).parents[2]
SPEC = load_spec("spark")
CONTEXT: Any = SimpleNamespace(report=lambda message: None)

REAL_RUN = """
import sys
from pathlib import Path
from semistream.bench.framework.result_file import write_result
from semistream.bench.framework.runner import Run, run_spec
from semistream.bench.framework.spec import load_spec

spec = load_spec("spark").with_parameters("quick", {"rows": 60_000, "batch_rows": 2000})
folder = Path(sys.argv[1])
write_result(run_spec(spec, "quick", Run(folder / "data")), folder / "spark.json")
"""


def _python(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_every_plan_is_measured_and_the_result_is_drawn(tmp_path: Path) -> None:
    done = _python(REAL_RUN, str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "spark.json")
    assert result.is_complete
    points = {(point.group, point.series): point for point in result.points}
    times = [point for point in result.points if point.group == "60,000 rows"]
    assert [point.series for point in times] == [plan.name for plan in PLANS]
    assert all(point.details["failure"] is None and point.y[MACHINE] > 0 for point in times)
    ours = points["60,000 rows", OURS].details
    assert ours["observed"]["tuples_in"] == ours["observed"]["rows_out"] == 2000 * len(ours["batch_s"])
    late = points["60,000 rows, heap", "staggered completion"].details
    rows = sum(late["hot_rows_by_delay"].values()) + sum(late["other_rows_by_delay"].values())
    assert rows == 2000 * 6, "every row of the measured batches left"
    assert len(late["other_rows_by_delay"]) > 1, "rows that are not cached leave later"
    assert points["60,000 rows, memory", "Python workers"].details["base_bytes"] > 0
    assert {line.met for line in judge_targets(result)} == {None}, "a small run gives no verdict"
    plot_result(result, tmp_path / "spark.png")
    assert (tmp_path / "spark.png").stat().st_size > 10_000


def test_listing_measurements_needs_no_spark() -> None:
    code = """
import sys
from semistream.bench.framework.runner import measurements_of
from semistream.bench.framework.spec import load_spec
print([len(measurements_of(load_spec(name), "full")) for name in ("spark", "punctuated-spark")])
print("pyspark" in sys.modules)
"""
    done = _python(code)
    assert done.stdout.split("\n")[:2] == ["[57, 3]", "False"], done.stderr


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_measurements_have_names_and_keys_of_their_own(scale: str) -> None:
    measurements = measurements_of(SPEC, scale)
    assert len({measurement.name for measurement in measurements}) == len(measurements)
    assert len({key_of(measurement) for measurement in measurements}) == len(measurements)


def test_the_slow_plan_is_measured_at_the_typical_size_alone() -> None:
    sizes = [
        (each.rows, each.batch_rows)
        for each in measurements_of(SPEC, "full")
        if isinstance(each, PlanTimes) and each.plan == "plain Parquet, size unknown"
    ]
    assert sizes == [(20_000_000, 100_000), (80_000_000, 100_000)]


def test_one_size_of_table_can_be_measured_and_is_judged() -> None:
    spec = SPEC.with_parameters("full", {"rows": 20_000_000})
    measurements = measurements_of(spec, "full")
    assert {measurement.rows for measurement in measurements} == {20_000_000}  # type: ignore[attr-defined]
    assert SPEC.has_size_of_targets(spec.parameters("full"))
    assert {key_of(each) for each in measurements} < {key_of(each) for each in measurements_of(SPEC, "full")}


@pytest.mark.parametrize(
    "change",
    [
        {"rows": []},
        {"rows": 10},
        {"batch_rows": 0},
        {"memory_share": 0},
        {"measured_batches": 0},
        {"staggered_cycles": 1},
    ],
)
def test_sizes_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must"):
        measurements_of(SPEC.with_parameters("full", change), "full")


def _measured(
    monkeypatch: pytest.MonkeyPatch, measurement: PlanTimes | WorkerMemory, found: MicroBatches
) -> list[Point]:
    """Return the points of a measurement on a Spark that gives ``found``."""
    master = SimpleNamespace(ours=SimpleNamespace(num_bytes=1000), our_files=list)
    tables = SimpleNamespace(
        spark=None, base_bytes=70, warmed=lambda rows, report: master, feed=lambda *args, **_: None
    )
    sizes = iter([80, 90, 85])

    def measure_plan(
        *args: Any, measured_batches: int | None, after_batch: Callable[[], Any] = int, **_: Any
    ) -> MicroBatches:
        for _batch in range(min(3, measured_batches or 1)):
            after_batch()
        return found

    monkeypatch.setattr(plan_times, "warm_tables", lambda context, settings: tables)
    monkeypatch.setattr(plan_times, "measure_plan", measure_plan)
    monkeypatch.setattr(plan_times, "read_into_page_cache", lambda files: None)
    monkeypatch.setattr(plan_times, "worker_bytes", lambda: next(sizes))
    return measurement.run(CONTEXT)


def test_a_plan_is_a_point_with_its_median(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [each for each in measurements_of(SPEC, "full") if isinstance(each, PlanTimes)]
    (point,) = _measured(monkeypatch, plans[0], MicroBatches(1.5, [2.0, 9.0, 3.0], {"tuples_in": 5}))
    assert (point.series, point.x, point.y, point.group) == (OURS, 1_000_000, {MACHINE: 3.0}, "20,000,000 rows")
    assert point.details["observed"] == {"tuples_in": 5}
    cold = next(plan for plan in plans if plan.cold_batches)
    (point,) = _measured(monkeypatch, cold, MicroBatches(1.5, failure="too large"))
    assert (point.y, point.details["failure"], point.group) == ({}, "too large", "20,000,000 rows, cold")


def test_memory_is_that_above_a_tiny_join(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = next(each for each in measurements_of(SPEC, "full") if isinstance(each, WorkerMemory))
    workers, budget = _measured(monkeypatch, memory, MicroBatches(0.0))
    assert (workers.y, budget.y) == ({"bytes": 20}, {"bytes": 100})
    assert (workers.details["first_third_bytes"], workers.details["last_third_bytes"]) == (80, 85)


def test_a_session_measures_the_tiny_join_first_and_warms_each_table_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def measure_plan(
        spark: Any, settings: Any, plan: Any, feed: Any, master: Any, *, after_batch: Callable[[], Any] = int, **_: Any
    ) -> MicroBatches:
        ran.append(f"{plan.name} {master.rows}")
        after_batch()
        return MicroBatches(0.0)

    monkeypatch.setattr(
        warm_tables, "MasterForms", lambda spark, settings, rows, *_: SimpleNamespace(rows=rows, our_files=list)
    )
    monkeypatch.setattr(warm_tables, "measure_plan", measure_plan)
    monkeypatch.setattr(warm_tables, "worker_bytes", lambda: 7)
    settings = next(each.settings for each in measurements_of(SPEC, "quick") if isinstance(each, StaggeredCompletion))
    for _ in range(2):  # a resumed run has another session
        tables = WarmTables(None, settings, tmp_path, seed=0)  # type: ignore[arg-type]
        for rows in (2000, 1000, 1000):
            tables.warmed(rows, CONTEXT.report)
        assert tables.base_bytes == 7
    assert ran == ["tiny 2000", f"{OURS} 2000", f"{OURS} 1000"] * 2


def test_a_failure_is_a_line_without_the_host() -> None:
    error = RuntimeError("\nLost task 1.0 in stage 2.0 (TID 3) (some-host.local executor driver): out of memory\nat x")
    assert _in_a_line(error) == "Lost task 1.0 in stage 2.0 (TID 3) (executor driver): out of memory"


def _result(points: list[Point], change: dict[str, Any]) -> Result:
    spec = SPEC.with_parameters("full", change)
    return Result("spark", "full", spec.as_run("full"), collect_provenance(0), (Finished("", "", 0, tuple(points)),))


def _by_name(result: Result) -> dict[str, Judged]:
    return {line.name: line for line in judge_targets(result)}


def test_verdicts_are_ratios_of_medians() -> None:
    def time(plan: str, seconds: float, rows: int = 20_000_000) -> Point:
        return Point(plan, 100_000, {MACHINE: seconds}, {}, f"{rows:,} rows")

    points = [
        time(OURS, 0.5),
        time(OURS, 0.6, rows=80_000_000),
        time("identity", 0.3),
        time("plain Parquet", 2.0),
        time("plain Parquet, size unknown", 17.0),
        time("stream broadcast", 1.0),
        Point("table broadcast", 100_000, {}, {"failure": "too large"}, "20,000,000 rows"),
    ]
    found = _by_name(_result(points, {}))
    best = found["Spark's best / ours, 20,000,000 rows, batches of 100,000"]
    assert (best.value, best.target.limit, best.met) == (2.0, 2.0, True)
    assert found["plain Parquet / ours, batches of 100,000, 20,000,000 rows"].value == 34.0
    assert found["identity / ours, batches of 100,000, 20,000,000 rows"].value == pytest.approx(0.6)
    assert found["ours, 80,000,000 / 20,000,000 rows, batches of 100,000"].value == pytest.approx(1.2)
    assert found["worker memory / budget"].value is None
    assert {line.met for line in judge_targets(_result(points, {"cores": 4}))} == {None}


def test_the_result_in_the_documentation_is_judged() -> None:
    result = read_result(ROOT / "docs/results/spark.json")
    assert result.is_complete
    assert [done.name for done in result.finished] == [each.name for each in measurements_of(SPEC, "full")]
    lines = _by_name(result)
    assert len(lines) == 18
    assert [name for name, line in lines.items() if line.met is not True] == [
        "identity / ours, batches of 1,000,000, 20,000,000 rows",
        "identity / ours, batches of 1,000,000, 80,000,000 rows",
        "identity / ours, batches of 100,000, 80,000,000 rows",
    ]
    assert all(line.value is not None for line in lines.values())
