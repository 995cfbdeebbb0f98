"""``semistream bench`` and ``semistream figure``."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from semistream.bench.framework import runner
from semistream.bench.framework.result_file import read_result
from semistream.bench.framework.spec import figure_ids, load_spec, spec_ids
from semistream.cli import bench as bench_command
from semistream.cli.app import app

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


def figure(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["figure", *arguments])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def measured(data_dir: Path) -> Result:
    return figure("S0-5f", "--quick", "--data-dir", str(data_dir))


@pytest.fixture
def never_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> Any:
        pytest.fail("measured again")

    monkeypatch.setattr(runner._Measuring, "measure", never)


def test_the_lists_name_everything() -> None:
    listed = bench("--list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in (*spec_ids(), *figure_ids()))
    figures = figure("--list")
    assert all(name in figures.stdout for name in figure_ids())
    assert "Predictions of the cost models" not in figures.stdout


def test_a_figure_is_measured_written_and_drawn(measured: Result, data_dir: Path) -> None:
    assert measured.exit_code == 0, measured.output
    result = read_result(data_dir / "results" / "S0-5f-quick.json")
    assert (result.benchmark, result.scale, result.is_complete) == ("S0-5f", "quick", True)
    assert (data_dir / "results" / "S0-5f-quick.png").stat().st_size > 1000
    assert "The paper: 39% of the tuples" in measured.stdout


@pytest.mark.usefixtures("measured", "never_measured")
def test_what_is_finished_is_not_measured_again_and_a_figure_is_a_benchmark_too(data_dir: Path) -> None:
    result = bench("S0-5f", "--scale", "quick", "--data-dir", str(data_dir), "--json", "--no-plot")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["missing"] == []


def test_parameters_of_a_benchmark_are_options_and_another_size_gives_no_verdict(tmp_path: Path) -> None:
    sizes = [
        "--rows=20000",
        "--zipf-exponent",
        "1",
        "--x",
        "0.4,0.5",
        "--page_bytes",
        "4_096",
        "--arrival-share",
        "0.5",
    ]
    only = ["--only", "meshjoin, 20,000 rows, skew 1, 4"]  # MESHJOIN and CMESHJOIN with 40%
    out = tmp_path / "result.json"
    arguments = ["operators", "--quick", *sizes, *only, "--data-dir", str(tmp_path), "--out", str(out)]
    result = bench(*arguments)
    assert result.exit_code == 0, result.output
    stored = read_result(out)
    given = stored.spec["parameters"]
    assert (given["rows"], given["zipf_exponent"], given["x"]) == ([20_000], [1.0], [0.4, 0.5])
    assert {(point.series, point.x, point.group) for point in stored.points} == {
        ("MESHJOIN", 40.0, "20,000 rows, skew 1"),
        ("CMESHJOIN", 40.0, "20,000 rows, skew 1"),
    }
    assert "No verdict: the targets speak of the full size." in result.stdout
    assert "missed" not in result.stdout
    other = bench(*arguments, "--seed", "5")
    assert other.exit_code == 1
    assert "another seed: 0, not 5: give --overwrite, or another --out" in other.stderr


def test_missing_a_target_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stored = read_result(RESULTS / "shedding.json")
    monkeypatch.setattr(bench_command, "run_spec", lambda *_: stored)
    result = bench("shedding", "--out", str(tmp_path / "result.json"), "--data-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "missed" in result.stdout
    assert "No verdict" not in result.stdout


def test_an_unfinished_run_says_that_its_verdicts_may_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stored = read_result(RESULTS / "shedding.json")
    part = replace(stored, finished=stored.finished[:2], missing=("CHYBRIDJOIN, keep, 20,000,000 rows",))
    monkeypatch.setattr(bench_command, "run_spec", lambda *_: part)
    result = bench("shedding", "--out", str(tmp_path / "result.json"), "--data-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "1 measurements are missing: some verdicts are open" in result.stdout


def test_names_with_brackets_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stored = read_result(RESULTS / "shedding.json")
    done = stored.finished[0]
    points = tuple(replace(point, series="[/a]", group="[b]") for point in done.points)
    renamed = replace(stored, finished=(replace(done, points=points),))
    monkeypatch.setattr(bench_command, "run_spec", lambda *_: renamed)
    result = bench("shedding", "--out", str(tmp_path / "result.json"), "--data-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "[/a]" in result.stdout
    assert "[b]" in result.stdout


@pytest.mark.usefixtures("never_measured")
def test_plotting_measures_nothing(tmp_path: Path) -> None:
    result = bench("plot", str(RESULTS / "shedding.json"), "--out", str(tmp_path / "again.svg"))
    assert result.exit_code == 0, result.output
    assert "shedding" in (tmp_path / "again.svg").read_text()


def test_a_page_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "result.json").write_text((RESULTS / "shedding.json").read_text())
    (tmp_path / "page.md").write_text("<!-- table of result.json: targets -->\n<!-- end of table -->\n")
    result = bench("fill", "page.md")
    assert result.exit_code == 0, result.output
    assert "page.md: 1 tables written" in result.stdout
    assert "at least 1.5" in (tmp_path / "page.md").read_text()


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner._Measuring, "measure", interrupted)
    result = figure("S0-5f", "--quick", "--data-dir", str(tmp_path))
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1
    assert "goes on" in result.stderr


def test_of_all_figures_those_that_fail_are_named_and_the_others_run(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_command, "figure_ids", lambda: ["S0-5f", "S3-6d"])
    # At this scale the second wants real data, and there are none.
    laptop = load_spec("S3-6d").parameters("laptop")
    wanting = load_spec("S3-6d")
    wanting = replace(wanting, scales={**wanting.scales, "quick": laptop})
    specs = {"S0-5f": load_spec("S0-5f"), "S3-6d": wanting}
    monkeypatch.setattr(bench_command, "load_spec", specs.__getitem__)
    monkeypatch.chdir(data_dir)
    result = figure("all", "--quick", "--data-dir", str(data_dir))
    assert result.exit_code == 1
    assert "S3-6d: workload 'ship_weather' needs real data: give it with --real-data" in result.stderr
    assert "1 of 2 failed" in result.stderr
    assert "S0-5f-quick.json and" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure"], "--list"),
        (["figure", "S0-9"], "'S0-9' is no benchmark: use"),
        (["bench", "nano"], "'nano' is no benchmark: use"),
        (["figure", "S0-5f", "--scale", "huge"], "scale 'huge' is unknown to S0-5f: use one of 'quick', 'laptop'"),
        (["figure", "all", "--json"], "speak of one benchmark"),
        (["figure", "S0-5f", "--real-data", "absent"], "real_data='absent' is not a folder"),
        (["figure", "S0-5f", "--out", "absent/result.json"], "create the folder 'absent' first"),
        (["bench", "operators", "--data-dir", "file"], "'file' is a file"),
        (["bench", "operators", "--moons", "3"], "option --moons is unknown: parameters of this spec are "),
        (["bench", "operators", "--rows", "many"], "rows='many' is not a whole number: give one"),
        (["bench", "operators", "--arrival-share", "most"], "arrival_share='most' is not a number: give one"),
        (["bench", "validation", "--advises", "yes"], "advises='yes' is neither true nor false"),
        (["bench", "operators", "--quick", "--x", "nan"], "x='nan' is not a number: give one"),
        (["bench", "operators", "--quick", "--x", "1e999"], "x='1e999' is not a number: give one"),
        (["bench", "operators", "--quick", "--rows", "0"], "rows=0 must be at least 1"),
        (["bench", "operators", "--quick", "--scale", "full"], "--quick and --scale full are two scales"),
        (["bench", "operators", "--quick", "--out", "result.png"], "'result.png' is where the picture goes"),
        (["bench", "operators", "--quick", "--data-dir", "/proc/absent"], "cannot make the folder '/proc/absent'"),
        (["bench", "operators", "--rows"], "'--rows' cannot be read"),
        (["bench", "operators", "rows"], "'rows' cannot be read"),
        (["bench", "operators", "--only", "magic"], "--only magic names no measurement"),
        (["bench", "plot", "absent.json", "--out", "x.png"], "cannot read 'absent.json'"),
        (["bench", "plot", "file", "--out", "x.png"], "'file' is not a result file"),
        (["bench", "plot", "file", "--out", "absent/x.png"], "create the folder 'absent' first"),
        (["bench", "fill", "absent.md"], "cannot read 'absent.md'"),
        (["bench", "report", "absent", "--out", "page.md"], "'absent' is not a folder"),
        (["demo", "--out", "file"], "'file' is a file"),
    ],
)
def test_bad_input_ends_with_one_line_before_any_work(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("precious")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert (tmp_path / "file").read_text() == "precious"


def test_a_negative_seed_is_a_usage_error(tmp_path: Path) -> None:
    result = figure("S0-5a", "--quick", "--data-dir", str(tmp_path), "--seed", "-1")
    assert result.exit_code == 2
    assert "--seed" in result.stderr
