"""The report: written from result files alone, with the verdicts and the reasons that people gave."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semistream.bench.framework.measurement import MACHINE, Point
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result, write_result
from semistream.bench.framework.spec import load_spec
from semistream.bench.reproduction.claim import Verdict
from semistream.bench.reproduction.report import write_report
from semistream.cli.app import app
from semistream.core.errors import InvalidArgument
from semistream.cost.clock import HDD


def _result(ratio_on_disk: float, ratio_here: float = 7.5) -> Result:
    points = [
        Point(series, x, {HDD.name: on_disk, MACHINE: here})
        for x in (1.0, 10.0)
        for series, on_disk, here in (("SSBJ", ratio_on_disk, ratio_here), ("MESHJOIN", 1.0, 1.0))
    ]
    return Result(
        benchmark="S0-5a",
        scale="laptop",
        spec=load_spec("S0-5a").as_run("laptop"),
        provenance=collect_provenance(seed=0),
        finished=(Finished("SSBJ", "key", 1.0, tuple(points)),),
    )


def _written(folder: Path, result: Result, name: str = "result.json") -> Path:
    write_result(result, folder / name)
    return folder / name


def test_the_report_holds_both_clocks_against_the_claims(tmp_path: Path) -> None:
    [judged] = write_report([_written(tmp_path, _result(2.5))], tmp_path / "report" / "README.md")
    assert judged.on_disk is Verdict.IN_DIRECTION
    assert judged.on_machine is Verdict.REPRODUCED
    text = (tmp_path / "report" / "README.md").read_text()
    assert (
        "| [S0-5a](#s0-5a-laptop) | laptop | Service rate against memory | reproduced in direction | reproduced |"
        in text
    )
    assert "| 2.5x | reproduced in direction | 7.5x | reproduced |" in text
    assert "![S0-5a-laptop](../result.png)" in text
    assert (tmp_path / "result.png").stat().st_size > 1000


def test_reasons_come_from_people(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    page = folder / "README.md"
    path = _written(tmp_path, _result(0.5))
    write_report([path], page)
    assert "Why: Not examined." in (folder / "README.md").read_text()
    (folder / "reasons.toml").write_text('S0-5a = "The cache is small."\n')
    write_report([path], page)
    assert "Why: The cache is small." in (folder / "README.md").read_text()
    write_report([_written(tmp_path, _result(7.5))], page)
    assert "Note: The cache is small." in (folder / "README.md").read_text()
    (folder / "reasons.toml").write_text("S0-5a = \n")
    with pytest.raises(InvalidArgument, match="is not TOML"):
        write_report([path], page)


def test_of_two_results_the_later_counts(tmp_path: Path) -> None:
    old = _result(0.5)
    old = replace(old, provenance=replace(old.provenance, date="2020-01-01T00:00:00+00:00"))
    paths = [_written(tmp_path, _result(7.5), "a.json"), _written(tmp_path, old, "b.json")]
    [judged] = write_report(paths, tmp_path / "README.md")
    assert judged.on_disk is Verdict.REPRODUCED


def test_figures_that_were_not_measured_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "README.md"
    write_report([_written(tmp_path, replace(_result(7.5), scale="laptop", missing=("SSBJ",)))], folder)
    text = folder.read_text()
    assert "The run is not finished." in text


def test_the_command_line(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    arguments = ["bench", "report", str(results), "--out", str(tmp_path / "README.md")]
    none = CliRunner().invoke(app, arguments)
    assert none.exit_code == 1
    assert "there are no result files to report on" in none.stderr
    _written(results, _result(7.5))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert "1 reproduced: S0-5a-laptop" in done.stdout
