"""The mechanics of the benchmarks of punctuated streams at a tiny scale; no test asserts a time."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from semistream.bench.framework.measurement import MACHINE, key_of
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result, read_result, write_result
from semistream.bench.framework.runner import Run, measurements_of, run_spec
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import judge_targets
from semistream.bench.measurements.two_streams.auction_files import BIDS, AuctionFiles
from semistream.bench.measurements.two_streams.on_spark import Course, _points
from semistream.bench.measurements.two_streams.saturated import run_saturated
from semistream.bench.measurements.two_streams.settings import make_join
from semistream.bench.measurements.two_streams.stream_pairs import WORKLOADS, stream_pair
from semistream.core.errors import InvalidArgument

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
NEWS, AUCTIONS = 150, 200
SPEC = load_spec("punctuated")
ON_SPARK = load_spec("punctuated-spark")

REAL_RUN = """
import sys
from pathlib import Path
from semistream.bench.framework.result_file import write_result
from semistream.bench.framework.runner import Run, run_spec
from semistream.bench.framework.spec import load_spec

spec = load_spec("punctuated-spark").with_parameters("quick", {"tuples": 3000, "batch_tuples": 1000})
folder = Path(sys.argv[1])
write_result(run_spec(spec, "quick", Run(folder / "data")), folder / "punctuated-spark.json")
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    spec = SPEC.with_parameters("quick", {"news": NEWS, "memory_auctions": AUCTIONS})
    return run_spec(spec, "quick", Run(tmp_path_factory.mktemp("punctuated")))


def test_every_figure_is_there_and_has_no_verdict(result: Result) -> None:
    assert result.is_complete
    lines = judge_targets(result)
    measured = [line.name for line in lines if line.value is not None and line.value > 0]
    assert {"time, MJoin as chosen / XJoin, xjoin, news, random", "time, dicts of lists / MJoin"} <= set(measured)
    assert sum(line.target.kind == "crossing" for line in lines) == 4
    assert {line.met for line in lines} == {None}


def test_curves_end_with_all_outputs(result: Result) -> None:
    curves: dict[tuple[str, str], list[Any]] = {}
    for point in result.points:
        if point.group != "memory, auctions":
            curves.setdefault((point.group, point.series), []).append(point)
    assert len(curves) == 2 * (3 + 4 + 4) + 3 * 7
    for (_, setting), points in curves.items():
        last = points[-1]
        assert last.x == NEWS * 10
        assert np.all(np.diff([point.y[MACHINE] for point in points]) >= 0)
        passes_on = setting not in ("xjoin", "shj") and "no propagation" not in setting
        assert (last.details["mean_delay_s"] is not None) == passes_on
        if setting in ("xjoin", "shj"):
            assert last.details["peak_tuples"] == NEWS * 11


def test_plain_python_is_measured_on_the_same_auctions(result: Result) -> None:
    points = [point for point in result.points if point.group == "memory, auctions"]
    assert [point.series for point in points][:2] == ["MJoin", "dicts of lists"]
    assert {(point.x, point.details["tuples"]) for point in points} == {(AUCTIONS * 10, AUCTIONS * 11)}


def test_the_result_survives_its_file_and_is_drawn(result: Result, tmp_path: Path) -> None:
    write_result(result, tmp_path / "punctuated.json")
    read = read_result(tmp_path / "punctuated.json")
    assert read.points == result.points
    plot_result(read, tmp_path / "punctuated.png")
    assert (tmp_path / "punctuated.png").stat().st_size > 10_000


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("setting", ["priority+value, purge every 1", "chosen for memory", "xjoin"])
def test_a_saturated_join_answers_everything(workload: str, setting: str) -> None:
    pair = stream_pair(workload, 300, seed=2)
    op = make_join(setting, pair)
    course = run_saturated(op, pair)
    op.close()
    assert course.outputs[-1] == 3000
    assert course.tuples[-1] == 3300
    assert np.all(course.peak_tuples >= course.state_tuples)
    punctuations = 600 if workload == "auctions" else 300
    assert course.delays_s.size == (0 if setting == "xjoin" else punctuations)


def test_longer_streams_come_in_several_batches() -> None:
    pair = stream_pair("news, ordered", 4000, seed=0)
    assert [len(side) for side in pair.batches] == [1, 3]
    op = make_join("priority+value, purge every 100", pair)
    assert run_saturated(op, pair).outputs[-1] == 40_000


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("punctuated", {"news": 1}, "news=1 "),
        ("punctuated", {"repeats": 0}, "repeats=0 "),
        ("punctuated", {"experiments": {"new": {"workloads": ["news, ordered"], "settings": ["magic"]}}}, "'magic'"),
        ("punctuated", {"experiments": {"new": {"workloads": ["magic"], "settings": ["xjoin"]}}}, "'magic'"),
        ("punctuated-spark", {"tuples": 10}, "tuples=10 "),
        ("punctuated-spark", {"repeats": 0}, "repeats=0 "),
        ("punctuated-spark", {"batch_tuples": []}, "batch_tuples"),
        ("punctuated-spark", {"batch_tuples": 10}, "batch_tuples"),
    ],
)
def test_parameters_are_checked(name: str, change: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        measurements_of(load_spec(name).with_parameters("full", change), "full")


def test_an_unknown_setting_is_told() -> None:
    with pytest.raises(InvalidArgument, match="'magic'"):
        make_join("magic", stream_pair("auctions", 100, seed=0))


@pytest.mark.parametrize("name", ["punctuated", "punctuated-spark"])
def test_measurements_have_names_and_keys_of_their_own(name: str) -> None:
    measurements = measurements_of(load_spec(name), "full")
    assert len({measurement.name for measurement in measurements}) == len(measurements)
    assert len({key_of(measurement) for measurement in measurements}) == len(measurements)


def test_auctions_lie_in_files_by_micro_batch(tmp_path: Path) -> None:
    files = AuctionFiles(tmp_path, tuples=3000, batch_tuples=700, seed=1)
    files.make()
    files.make()
    assert (files.batches, files.batch_tuples) == (4, 693)
    rows = pq.read_table(files.path("bids"))
    assert rows.num_rows == files.num_bids + 4 * 63, "every auction ends once"
    tuples = rows.filter(pc.invert(rows["is_end"]))
    opened = pc.multiply(tuples["auction"], BIDS)
    assert pc.max(pc.subtract(tuples["bid"], opened)).as_py() <= files.longest_open_bids, "the watermark keeps all"
    assert pc.min(pc.subtract(tuples["bid"], opened)).as_py() >= 0


def test_figures_of_spark_are_worked_out_from_courses(tmp_path: Path) -> None:
    def course(seconds: float, state: list[int]) -> Course:
        return Course([9.0, *[seconds] * (len(state) - 1)], state, state, 1000)

    grown = [700 * batch for batch in range(1, 21)]
    points = [
        *_points("punctuated_join, RocksDB", [course(1.0, [70, 80, 90, 0]), course(1.5, [70, 80, 90, 0])], 249_997),
        *_points("Spark, watermark, RocksDB", [course(4.0, [700] * 4)], 249_997),
        *_points("Spark, watermark, in memory", [course(3.0, [700] * 4)], 249_997),
        *_points("Spark, no watermark, RocksDB", [course(4.0, grown)], 249_997),
    ]
    spec = ON_SPARK.as_run("full")
    finished = (Finished("", "", 0.0, tuple(points)),)
    made = Result("punctuated-spark", "full", spec, collect_provenance(0), finished)
    rate, flat, grows = judge_targets(made)
    assert rate.value == pytest.approx((1 / 1.0 + 1 / 1.5) / 2 * 3.0), "medians of rates"
    assert (rate.met, rate.where) == (True, "batches of 249,997 tuples")
    assert (flat.value, flat.met) == (90 / 80, True)
    assert (grows.value, grows.met) == (20.0, True)
    plot_result(made, tmp_path / "punctuated-spark.png")
    assert (tmp_path / "punctuated-spark.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_joins_on_spark_are_run_and_hold_what_they_should(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAL_RUN, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "punctuated-spark.json")
    assert result.is_complete
    courses = {point.series: point.details["courses"][0] for point in result.points if "courses" in point.details}
    assert len(courses) == 4
    assert {course["rows_out"] for course in courses.values()} == {2700}
    assert courses["punctuated_join, RocksDB"]["state_rows"][-1] == 0, "all auctions have ended"
    assert courses["Spark, no watermark, RocksDB"]["state_rows"] == [990, 1980, 2970], "nothing is forgotten"


@pytest.mark.parametrize(("file", "lines", "missed"), [("punctuated", 33, 7), ("punctuated-spark", 4, 1)])
def test_results_in_the_documentation_are_judged(file: str, lines: int, missed: int) -> None:
    result = read_result(RESULTS / f"{file}.json")
    assert result.is_complete
    assert [done.name for done in result.finished] == [each.name for each in measurements_of(load_spec(file), "full")]
    judged = judge_targets(result)
    assert len(judged) == lines
    assert all(line.value is not None for line in judged)
    assert sum(line.met is False for line in judged) == missed


def test_the_later_run_of_the_choice_met_all_targets_of_it() -> None:
    result = read_result(RESULTS / "punctuated-choice.json")
    assert (result.benchmark, result.is_complete) == ("punctuated", False)
    measured = [line for line in judge_targets(result) if line.value is not None]
    assert len(measured) == 18
    assert all(line.met for line in measured)
