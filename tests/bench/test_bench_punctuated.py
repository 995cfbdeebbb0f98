"""The mechanics of the benchmark of punctuated streams at a tiny scale; no test asserts a time."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from semistream.bench.plot import plot_result
from semistream.bench.punctuated import PunctuatedSpec, run_punctuated
from semistream.bench.punctuated.auction_files import BIDS, AuctionFiles
from semistream.bench.punctuated.comparison import Curve
from semistream.bench.punctuated.experiments import _crossover
from semistream.bench.punctuated.on_spark import Course, _rate_entry, _state_entries
from semistream.bench.punctuated.saturated import run_saturated
from semistream.bench.punctuated.settings import BATCH, IMMEDIATE, PRIORITY, chosen, fixed, make_join
from semistream.bench.punctuated.spec import PARTS
from semistream.bench.punctuated.stream_pairs import WORKLOADS, stream_pair
from semistream.bench.result_file import BenchResult, read_result, write_result
from semistream.cli.app import app
from semistream.core.errors import InvalidArgument

NEWS = 150


@pytest.fixture(scope="module")
def result() -> BenchResult:
    local = tuple(part for part in PARTS if part != "spark")
    return run_punctuated(PunctuatedSpec(news=NEWS, memory_auctions=200, repeats=1, parts=local), Path("unused"))


def test_every_figure_is_there(result: BenchResult) -> None:
    names = [entry.name for entry in result.entries]
    assert len(set(names)) == len(names) == 2 + 6 + 2 + 3 * 6 + 1
    assert all(np.isfinite(entry.value) and entry.value > 0 for entry in result.entries)
    assert all(" / " in entry.ratio_of for entry in result.entries)


def test_curves_end_with_all_outputs(result: BenchResult) -> None:
    curves = [Curve(**cell) for cell in result.cells]
    assert {curve.part for curve in curves} == set(PARTS) - {"memory", "spark"}
    for curve in curves:
        assert curve.outputs[-1] == NEWS * 10
        assert np.all(np.diff(curve.seconds) >= 0)
        assert (curve.mean_delay_s is None) == (curve.setting in ("xjoin", "shj") or "no prop" in curve.setting)
        if curve.setting in ("xjoin", "shj"):
            assert curve.peak_tuples == NEWS * 11


def test_the_result_survives_its_file_and_is_drawn(result: BenchResult, tmp_path: Path) -> None:
    write_result(result, tmp_path / "punctuated.json")
    plot_result(read_result(tmp_path / "punctuated.json"), tmp_path / "punctuated.png")
    assert (tmp_path / "punctuated.png").stat().st_size > 10_000


def test_only_the_default_size_is_judged(result: BenchResult) -> None:
    assert {entry.met for entry in result.entries} == {None}
    assert PunctuatedSpec(seed=3, repeats=1).has_target_size


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("setting", [fixed(PRIORITY, IMMEDIATE), chosen("memory"), "xjoin"])
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
    op = make_join(fixed(PRIORITY, BATCH), pair)
    assert run_saturated(op, pair).outputs[-1] == 40_000


def test_a_crossover_is_where_the_slower_one_is_overtaken() -> None:
    def curve(seconds: list[float]) -> Curve:
        outputs = [10.0, 20.0, 30.0]
        return Curve("xjoin", "", "", outputs, seconds, seconds, seconds, seconds[-1], 0, 0, None, None, None)

    baseline = curve([1.0, 2.0, 3.0])
    assert _crossover(curve([1.5, 1.9, 2.0]), baseline) == 20.0
    assert _crossover(curve([0.5, 1.0, 2.0]), baseline) == 0.0
    assert _crossover(curve([0.5, 1.0, 4.0]), baseline) is None


@pytest.mark.parametrize(
    ("arguments", "part"), [({"parts": ("magic",)}, "'magic'"), ({"news": 1}, "news"), ({"repeats": 0}, "repeats")]
)
def test_the_spec_is_checked(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        PunctuatedSpec(**arguments)


def test_an_unknown_setting_is_told() -> None:
    with pytest.raises(InvalidArgument, match="'magic'"):
        make_join("magic", stream_pair("auctions", 100, seed=0))


def test_the_command_prints_json_and_writes_the_same(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    arguments = ["bench", "punctuated", "--news", "150", "--memory-auctions", "150", "--repeats", "1"]
    done = CliRunner().invoke(app, [*arguments, "--only", "memory", "--json", "--out", str(out)])
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content == json.loads(out.read_text())
    assert [entry["name"] for entry in content["entries"]] == ["MJoin against dicts of lists"]
    refused = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert refused.exit_code == 1
    assert "--overwrite" in refused.stderr


def test_the_command_says_where_the_curves_cross() -> None:
    arguments = ["bench", "punctuated", "--news", "150", "--repeats", "1", "--only", "xjoin"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.count(": less time than XJoin ") == 4
    assert "No verdict: the targets speak of the default size, 10,000 news" in done.stdout


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


def test_figures_of_spark_are_worked_out_from_courses(tmp_path: Path, result: BenchResult) -> None:
    files = AuctionFiles(tmp_path, tuples=3000, batch_tuples=700, seed=1)

    def course(plan: str, seconds: float, state: list[int]) -> Course:
        return Course("spark", plan, 693, [9.0, *[seconds] * 3], state, state, files.num_bids)

    found = {
        "punctuated_join, RocksDB": [course("punctuated_join, RocksDB", 1.0, [70, 80, 90, 5])],
        "Spark, watermark, RocksDB": [course("Spark, watermark, RocksDB", 4.0, [700] * 4)],
        "Spark, watermark, in memory": [course("Spark, watermark, in memory", 2.5, [700] * 4)],
    }
    rate = _rate_entry(files, found)
    assert rate.value == pytest.approx(2.5)
    assert rate.met
    growing = course("Spark, no watermark, RocksDB", 4.0, [700, 1400, 2100, 2800])
    flat, grows = _state_entries(found["punctuated_join, RocksDB"][0], growing)
    assert flat.value == pytest.approx(90 / 80)
    assert (grows.value, grows.met) == (4.0, True)
    cells = [asdict(each) for several in found.values() for each in several]
    plot_result(replace(result, cells=(*result.cells, *cells)), tmp_path / "punctuated.png")
    assert (tmp_path / "punctuated.png").stat().st_size > 10_000
