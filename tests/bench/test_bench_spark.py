"""The benchmark on Spark and the demonstration on Spark, small, each in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from semistream.bench.plot import plot_result
from semistream.bench.result_file import read_result
from semistream.bench.spark.cells import PlanResult
from semistream.bench.spark.plans import IDENTITY, OURS, PLAIN, PLANS, UNKNOWN_SIZE
from semistream.bench.spark.spec import SparkSpec
from semistream.bench.spark.verdicts import entries_of
from semistream.core.errors import InvalidArgument

ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    code = "from semistream.cli.main import main; main()"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_every_plan_is_measured_and_the_result_is_drawn(tmp_path: Path) -> None:
    out = tmp_path / "spark.json"
    sizes = ["--rows", "60000", "--batch-rows", "2000"]
    done = _run("bench", "spark", "--quick", *sizes, "--data-dir", str(tmp_path / "data"), "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(out.read_text())
    result = read_result(out)
    cells = [PlanResult(**cell) for cell in result.cells]
    assert [cell.plan for cell in cells if not cell.is_cold] == [plan.name for plan in PLANS]
    assert all(cell.failure is None and cell.batch_s for cell in cells)
    ours = next(cell for cell in cells if cell.plan == OURS)
    assert ours.observed["tuples_in"] == ours.observed["rows_out"] == 2000 * len(ours.batch_s)
    assert all(entry.met is None for entry in result.entries), "a small run gives no verdict"
    late = next(entry for entry in result.entries if entry.name.startswith("hot rows"))
    rows = sum(late.details["hot_rows_by_delay"].values()) + sum(late.details["other_rows_by_delay"].values())
    assert rows == 2000 * 6, "every row of the measured batches left"
    assert len(late.details["other_rows_by_delay"]) > 1, "rows that are not cached leave later"
    assert any(entry.name.startswith("staggered / batch") for entry in result.entries)
    plot_result(result, tmp_path / "spark.png")
    assert (tmp_path / "spark.png").stat().st_size > 10_000


def _result(plan: str, seconds: float, rows: int = 20_000_000, is_cold: bool = False) -> PlanResult:
    return PlanResult(rows, 100_000, plan, is_cold, [seconds, seconds])


def test_verdicts_are_ratios_of_medians() -> None:
    results = [
        _result(OURS, 0.5),
        _result(OURS, 0.6, rows=80_000_000),
        _result(IDENTITY["none"], 0.3),
        _result(PLAIN, 2.0),
        _result(UNKNOWN_SIZE, 17.0),
        _result("stream broadcast", 1.0),
        PlanResult(20_000_000, 100_000, "table broadcast", failure="too large"),
    ]
    found = {entry.name: entry for entry in entries_of(SparkSpec(), results)}
    best = found["Spark's best / ours, 20,000,000 rows, batches of 100,000"]
    assert (best.value, best.target, best.met) == (2.0, 2.0, True)
    assert best.details["best"] == "stream broadcast"
    assert found["plain Parquet / ours, 20,000,000 rows, batches of 100,000"].value == 34.0
    assert found["identity / ours, 20,000,000 rows, batches of 100,000"].value == pytest.approx(0.6)
    assert found["ours, 80,000,000 / 20,000,000 rows, batches of 100,000"].value == pytest.approx(1.2)
    assert all(entry.met is None for entry in entries_of(replace(SparkSpec(), cores=4), results))


@pytest.mark.parametrize("change", [{"rows": ()}, {"rows": (10,)}, {"batch_rows": (0,)}, {"memory_share": 0}])
def test_sizes_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="must"):
        replace(SparkSpec(), **change)  # type: ignore[arg-type]


def test_the_demo_on_spark_is_exact_and_leaves_a_report(tmp_path: Path) -> None:
    done = _run("demo", "--out", str(tmp_path), "--master-rows", "100000", "--stream-tuples", "60000")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "60,000, 60,000" in done.stdout
    assert "equals DuckDB's batch join" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "The output equals the batch join." in page
    assert "data:image/png;base64," in page
