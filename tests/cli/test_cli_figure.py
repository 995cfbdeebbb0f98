"""``semistream figure``."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from semistream.bench.figures import runner
from semistream.bench.figures.spec import figure_ids, load_figure
from semistream.cli import figure as figure_command
from semistream.cli.app import app


def figure(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["figure", *arguments])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def measured(data_dir: Path) -> Result:
    return figure("S0-5f", "--scale", "ci", "--data-dir", str(data_dir))


@pytest.fixture
def never_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> Any:
        pytest.fail("measured again")

    monkeypatch.setattr(runner, "_measure", never)


def test_a_figure_is_measured_written_and_drawn(measured: Result, data_dir: Path) -> None:
    assert measured.exit_code == 0, measured.output
    content = json.loads((data_dir / "figures" / "S0-5f-ci.json").read_text())
    assert (content["figure"], content["scale"], content["is_complete"]) == ("S0-5f", "ci", True)
    assert content["provenance"]["seed"] == 0
    assert (data_dir / "figures" / "S0-5f-ci.png").stat().st_size > 1000
    assert "The paper: 39% of the tuples" in measured.stdout


@pytest.mark.usefixtures("measured", "never_measured")
def test_drawing_measures_nothing(data_dir: Path, tmp_path: Path) -> None:
    picture = data_dir / "figures" / "S0-5f-ci.png"
    picture.unlink()
    assert figure("S0-5f", "--scale", "ci", "--data-dir", str(data_dir), "--plot-only").exit_code == 0
    assert picture.exists()
    result_file = str(data_dir / "figures" / "S0-5f-ci.json")
    assert figure("plot", result_file, "--out", str(tmp_path / "again.svg")).exit_code == 0
    assert "S0-5f" in (tmp_path / "again.svg").read_text()


@pytest.mark.usefixtures("measured", "never_measured")
def test_a_finished_figure_is_not_measured_again(data_dir: Path) -> None:
    result = figure("S0-5f", "--scale", "ci", "--data-dir", str(data_dir), "--json", "--no-plot")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["is_complete"]


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_measure", interrupted)
    result = figure("S0-5f", "--scale", "ci", "--data-dir", str(tmp_path))
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1
    assert "goes on" in result.stderr


def test_of_all_figures_those_that_fail_are_named_and_the_others_run(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure_command, "figure_ids", lambda: ["S0-5f", "S3-6d"])
    # At this scale the second wants real data, and there are none.
    laptop = load_figure("S3-6d").parameters("laptop")
    monkeypatch.setattr(
        figure_command,
        "load_figure",
        lambda name: load_figure(name) if name == "S0-5f" else _with_ci_of(name, laptop),
    )
    monkeypatch.chdir(data_dir)
    result = figure("all", "--scale", "ci", "--data-dir", str(data_dir))
    assert result.exit_code == 1
    assert "S3-6d: workload 'ship_weather' needs real data: give it with --real-data" in result.stderr
    assert "1 of 2 figures failed" in result.stderr
    assert "S0-5f-ci.json written" in result.stdout


def _with_ci_of(name: str, parameters: dict[str, Any]) -> Any:
    from dataclasses import replace

    return replace(load_figure(name), scales={"ci": parameters})


def test_the_list_names_every_figure() -> None:
    result = figure("--list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in figure_ids())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--list"),
        (["S0-9"], "figure 'S0-9' is unknown: use one of S0-"),
        (["S0-5f", "--scale", "huge"], "scale 'huge' is unknown: use one of 'ci', 'laptop', 'paper'"),
        (["S0-5f", "result.json"], "only after 'plot'"),
        (["plot"], "'plot' needs a result file and --out"),
        (["plot", "absent.json", "--out", "x.png"], "cannot read 'absent.json'"),
        (["all", "--json"], "speak of one figure"),
        (["S0-5f", "--plot-only"], "cannot read"),
        (["S0-5f", "--real-data", "absent"], "real_data='absent' is not a folder"),
        (["S0-5f", "--out", "absent/result.json"], "create the folder 'absent' first"),
    ],
)
def test_bad_input_ends_with_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = figure(*arguments)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 99}', "has format 99, this version reads 1: measure the figure again"),
        ('{"format": 1}', "is not the result file of a figure"),
        ("[]", "is not the result file of a figure"),
        ("?", "is not the result file of a figure"),
    ],
)
def test_another_file_is_no_result(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    result = figure("plot", str(path), "--out", str(tmp_path / "x.png"))
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_a_negative_seed_is_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["figure", "S0-5a", "--scale", "ci", "--data-dir", str(tmp_path), "--seed", "-1"])
    assert result.exit_code == 2
    assert "--seed" in result.stderr
