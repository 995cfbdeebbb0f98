"""``semistream bench`` and ``semistream demo``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semistream.bench.micro import run as micro_run
from semistream.bench.provenance import collect_provenance
from semistream.bench.result_file import BenchResult, Entry, write_result
from semistream.cli.app import app
from semistream.operators import algorithm_names

NAMES = [name.upper() for name in algorithm_names()]


def test_micro_prints_json_and_writes_the_same(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    arguments = ["bench", "micro", "--rows", "20000", "--repeats", "1", "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(app, [*arguments, "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content == json.loads(out.read_text())
    assert {"name", "value", "target", "met", "details"} <= set(content["entries"][0])
    assert {entry["met"] for entry in content["entries"]} == {None}  # not the size that the targets speak of
    refused = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert "--overwrite" in refused.stderr
    assert json.loads(out.read_text()) == content


def test_micro_at_another_size_gives_no_verdict_and_overwrites_on_request(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    out.write_text("old")
    arguments = ["--rows", "20000", "--repeats", "1", "--only", "page-scan", "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(app, ["bench", "micro", *arguments, "--out", str(out), "--overwrite"])
    assert result.exit_code == 0, result.output
    assert "met" not in result.stdout
    assert "missed" not in result.stdout
    assert "No verdict: the targets speak of the default size, 20,000,000 rows." in result.stdout
    assert result.stdout.count("page scan: rate of reading and verifying every page / rate of plain reading") == 1
    assert json.loads(out.read_text())["benchmark"] == "micro"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["bench", "micro", "--out", "absent/result.json"], "create the folder 'absent'"),
        (["bench", "micro", "--data-dir", "file"], "'file' is a file"),
        (["bench", "plot", "file", "--out", "absent/result.png"], "create the folder 'absent'"),
        (["demo", "--out", "file"], "'file' is a file"),
    ],
)
def test_bad_output_paths_are_one_line_before_any_work(
    arguments: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("precious")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    assert part in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_micro_prints_a_table_and_missing_a_target_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = BenchResult("micro", {}, collect_provenance(0), (Entry("slow", 0.1, 0.9, "at least"),))
    monkeypatch.setattr("semistream.cli.bench.run_micro", lambda *_: missed)
    result = CliRunner().invoke(app, ["bench", "micro"])
    assert result.exit_code == 0
    assert "missed" in result.stdout
    assert "No verdict" not in result.stdout


def test_plot_draws_without_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("plotting must not measure")

    for name in ("bench_page_scan", "bench_multimap", "bench_service_rate", "bench_resident_memory"):
        monkeypatch.setattr(micro_run, name, forbidden)
    stored = BenchResult("micro", {}, collect_provenance(0), (Entry("slow", 0.1, 0.9, "at least"),))
    write_result(stored, tmp_path / "result.json")
    result = CliRunner().invoke(
        app, ["bench", "plot", str(tmp_path / "result.json"), "--out", str(tmp_path / "plot.svg")]
    )
    assert result.exit_code == 0, result.output
    assert "<svg" in (tmp_path / "plot.svg").read_text()


def test_plot_of_an_absent_file_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "plot", str(tmp_path / "absent.json"), "--out", "plot.png"])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "absent.json" in result.stderr


def test_demo_leaves_a_report(tmp_path: Path) -> None:
    sizes = ["--master-rows", "100000", "--stream-tuples", "20000", "--lookup-tuples", "2000"]
    result = CliRunner().invoke(app, ["demo", "--local", "--out", str(tmp_path), *sizes])
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    lines = result.stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(tuple(NAMES))}
    assert list(rows) == NAMES
    for name, cells in rows.items():
        tuples = "2,000" if name in ("INLJ", "CINLJ") else "20,000"
        assert cells[:2] == [tuples, tuples]
        assert (cells[3] != "0%") == (name not in ("INLJ", "HYBRIDJOIN", "MESHJOIN"))
        assert cells[-1] == "yes"
    assert max(len(line) for line in lines if not line.startswith(("The table", "Report"))) <= 80
    assert "page cache: these are warm rates" in result.stdout


def test_operators_prints_json_writes_the_same_and_resumes(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    grid = ["--rows", "50000", "--skew", "1", "--memory", "0.2", "--algorithm", "meshjoin", "--algorithm", "cmeshjoin"]
    arguments = ["bench", "operators", "--quick", *grid, "--data-dir", str(tmp_path / "data"), "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content == json.loads(out.read_text())
    assert [cell["cell"]["algorithm"] for cell in content["cells"]] == ["meshjoin", "cmeshjoin"]
    assert {disk["name"] for disk in content["spec"]["disks"]} == set(content["cells"][0]["disks"])
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert "--overwrite" in refused.stderr
    resumed = CliRunner().invoke(app, [*arguments, "--resume"])
    assert resumed.exit_code == 0, resumed.output
    assert json.loads(out.read_text())["cells"] == content["cells"]
    assert "50,000 rows, skew 1" in resumed.stdout
    assert "disk/s: stream tuples per second on the 7200 rpm disk" in resumed.stdout
    assert "No verdict: the targets speak of the default size, 2,000,000 rows and 20,000,000 rows." in resumed.stdout


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--resume"], "--resume needs --out"),
        (["--algorithm", "magic"], "'magic'"),
        (["--out", "absent/result.json"], "create the folder 'absent'"),
    ],
)
def test_operators_refuses_bad_arguments_in_one_line(arguments: list[str], part: str) -> None:
    result = CliRunner().invoke(app, ["bench", "operators", *arguments])
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    assert part in result.stderr
