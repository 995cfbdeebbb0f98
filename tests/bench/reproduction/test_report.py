"""The report: written from result files alone, with the verdicts and the reasons that people gave."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semistream.bench.figures.figure_result import FigureResult, Finished, write_figure
from semistream.bench.figures.point import MACHINE, Point
from semistream.bench.figures.spec import load_figure
from semistream.bench.provenance import collect_provenance
from semistream.bench.reproduction.report import write_report
from semistream.bench.reproduction.verdict import Verdict
from semistream.cli.app import app
from semistream.core.errors import InvalidArgument
from semistream.cost.disk_profile import HDD


def _result(ratio_on_disk: float, ratio_here: float = 7.5) -> FigureResult:
    points = [
        Point(series, x, {HDD.name: on_disk, MACHINE: here})
        for x in (1.0, 10.0)
        for series, on_disk, here in (("SSBJ", ratio_on_disk, ratio_here), ("MESHJOIN", 1.0, 1.0))
    ]
    return FigureResult(
        figure="S0-5a",
        scale="laptop",
        spec=load_figure("S0-5a").as_run("laptop"),
        provenance=collect_provenance(seed=0),
        finished=(Finished("key", 1.0, tuple(points)),),
        is_complete=True,
    )


def _written(folder: Path, result: FigureResult, name: str = "result.json") -> Path:
    write_figure(result, folder / name)
    return folder / name


def test_the_report_holds_both_clocks_against_the_claims(tmp_path: Path) -> None:
    [judged] = write_report([_written(tmp_path, _result(2.5))], tmp_path / "report")
    assert judged.on_disk is Verdict.IN_DIRECTION
    assert judged.on_machine is Verdict.REPRODUCED
    text = (tmp_path / "report" / "README.md").read_text()
    assert (
        "| [S0-5a](#s0-5a-laptop) | laptop | Service rate against memory | reproduced in direction | reproduced |"
        in text
    )
    assert "| 2.5x | reproduced in direction | 7.5x | reproduced |" in text
    assert (tmp_path / "report" / "figures" / "S0-5a-laptop.png").stat().st_size > 1000


def test_reasons_come_from_people(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    path = _written(tmp_path, _result(0.5))
    write_report([path], folder)
    assert "Why: Not examined." in (folder / "README.md").read_text()
    (folder / "reasons.toml").write_text('S0-5a = "The cache is small."\n')
    write_report([path], folder)
    assert "Why: The cache is small." in (folder / "README.md").read_text()
    write_report([_written(tmp_path, _result(7.5))], folder)
    assert "Note: The cache is small." in (folder / "README.md").read_text()
    (folder / "reasons.toml").write_text("S0-5a = \n")
    with pytest.raises(InvalidArgument, match="is not TOML"):
        write_report([path], folder)


def test_the_report_can_be_written_again_from_its_own_results(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write_report([_written(tmp_path, _result(2.5))], folder)
    before = (folder / "README.md").read_text()
    write_report(sorted((folder / "results").glob("*.json")), folder)
    assert (folder / "README.md").read_text() == before


def test_of_two_results_the_later_counts(tmp_path: Path) -> None:
    old = _result(0.5)
    old = replace(old, provenance=replace(old.provenance, date="2020-01-01T00:00:00+00:00"))
    paths = [_written(tmp_path, _result(7.5), "a.json"), _written(tmp_path, old, "b.json")]
    [judged] = write_report(paths, tmp_path / "report")
    assert judged.on_disk is Verdict.REPRODUCED


def test_figures_that_were_not_measured_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write_report([_written(tmp_path, replace(_result(7.5), scale="laptop", is_complete=False))], folder)
    text = (folder / "README.md").read_text()
    assert "The run is not finished." in text


def test_the_command_line(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    arguments = ["bench", "reproduction", str(results), "--out", str(tmp_path / "report")]
    none = CliRunner().invoke(app, arguments)
    assert none.exit_code == 1
    assert "there are no result files to report on" in none.stderr
    _written(results, _result(7.5))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert "1 reproduced: S0-5a (laptop)" in done.stdout
    absent = CliRunner().invoke(app, ["bench", "reproduction", str(tmp_path / "no"), "--out", str(tmp_path / "report")])
    assert "is not a folder" in absent.stderr
