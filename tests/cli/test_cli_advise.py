"""``semistream advise``: what it prints, its JSON and picture, and one clear line for each thing that cannot be had."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cost.advice.fake_models import FakeLookup, FakeScan
from typer.testing import CliRunner, Result

import semistream as ss
from semistream.cli import advise as command
from semistream.cli.app import app
from semistream.cost import model
from semistream.cost.calibration.calibration_file import Calibration, core_count, cpu_model
from semistream.cost.clock import AlgorithmFactors, CostFactors
from semistream.workloads.generated.master_table import master_table
from semistream.workloads.generated.streams import stream

ROWS = 50_000


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two models that are quick, and a user who has calibrated nothing."""
    monkeypatch.setattr(model, "_MODELS", {"meshjoin": FakeScan(), "inlj": FakeLookup()})
    monkeypatch.setenv("SEMISTREAM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advise") / "table"
    ss.stage(master_table(ROWS), path, key="key")
    return path


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.parquet"
    pq.write_table(stream(10_000, key_domain=ROWS, zipf_exponent=1.0, missing_share=0.1).read_all(), path)
    return path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["advise", *(str(argument) for argument in arguments)])


def assert_one_error_line(result: Result, *parts: str) -> None:
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("semistream: ")
    for part in parts:
        assert part in lines[0]


def test_help_has_examples() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "Example:\n    semistream advise" in result.stdout


def test_the_recommendation_is_the_first_line(table: Path, sample: Path) -> None:
    result = invoke(table, "--memory", "2MB", "--rate", 500, "--clock", "hdd", "--sample", sample)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "Recommended: meshjoin on a clustered table with pages of 8KB, staged again with --buckets"
    )
    assert "7200 rpm disk with 2.0MB" in lines[0]
    assert "do for the rate asked for" in lines[0]
    assert any(line.startswith("The sample: 10,000 tuples") for line in lines)
    assert any(line.startswith("Memory: disk buffer") for line in lines)
    assert any(line.startswith("algorithm") and "least memory" in line for line in lines)
    assert sum(line.startswith(("meshjoin", "inlj")) for line in lines) >= 2


def test_a_table_that_is_as_good_as_any_is_recommended_as_it_is(table: Path) -> None:
    result = invoke(table, "--memory", "2MB", "--clock", "hdd")
    first = "Recommended: meshjoin on a clustered table with pages of 64KB, as it is, b="
    assert result.stdout.startswith(first), result.stdout


def test_what_was_assumed_is_told(table: Path) -> None:
    result = invoke(table, "--memory", "2MB", "--clock", "ssd")
    assert "Assumed: the keys of the stream are Zipf-distributed with exponent 1" in result.stdout
    known = invoke(table, "--memory", "2MB", "--clock", "ssd", "--skew", 0.5, "--missing-share", 0.1)
    assert "Zipf" not in known.stdout


def test_json_has_all_that_a_program_needs(table: Path, sample: Path) -> None:
    result = invoke(table, "--memory", "2MB", "--rate", 500, "--clock", "hdd", "--sample", sample, "--json")
    content = json.loads(result.stdout)
    assert set(content) == {
        *("table", "clock", "rate", "memory_bytes", "recommended", "alternatives", "stream", "assumptions", "left_out")
    }
    assert content["rate"] == 500
    assert content["memory_bytes"] == 2 << 20
    assert content["stream"]["missing_share"] == pytest.approx(0.1, abs=0.03)
    assert content["stream"]["zipf_exponent"] == pytest.approx(1.0, abs=0.1)
    fields = {
        *("algorithm", "layout", "page_bytes", "stage_again", "tuples_per_s", "meets_rate", "budget_bytes", "memory"),
        *("cache_share", "processing_s", "waiting_s", "least_memory_bytes", "settings", "good_settings"),
    }
    for alternative in content["alternatives"]:
        assert set(alternative) == fields
    assert set(content["recommended"]) == {*fields, "buckets", "why"}
    low, high = content["recommended"]["good_settings"]["b"]
    assert low <= content["recommended"]["settings"]["b"] <= high


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_drawn(table: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"advice.{suffix}"
    result = invoke(table, "--memory", "2MB", "--rate", 500, "--clock", "hdd", "--plot", picture)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes()[:4] == (b"\x89PNG" if suffix == "png" else b"<?xm")


def test_calibration_is_measured_stored_and_used(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def measured(
        table: ss.MasterTable, *, memory_bytes: int | None, stream_schema: pa.Schema | None, progress: object
    ) -> Calibration:
        assert stream_schema is None
        asked.append(memory_bytes)
        factors = AlgorithmFactors(loop_s=1e-4, page_s=1e-5, disk_tuple_s=1e-6)
        measured_with = {"path": table.path, "rows": table.num_rows, "bytes": table.num_bytes}
        provenance = {"cpu": cpu_model(), "cores": core_count(), "table": measured_with, "date": "2026-01-02"}
        return Calibration(factors=CostFactors({"meshjoin": factors, "inlj": factors}), provenance=provenance)

    monkeypatch.setattr(command, "measure", measured)
    result = invoke(table, "--memory", "2MB", "--calibrate")
    assert result.exit_code == 0, result.output
    assert asked == [2 << 20]
    assert (tmp_path / "home" / "calibration.json").is_file()
    assert "on this machine" in result.stdout.splitlines()[0]
    assert "costs are those that were measured on" in result.stdout
    assert invoke(table, "--memory", "2MB").exit_code == 0  # from the file


def test_an_uncalibrated_machine_is_one_line(table: Path) -> None:
    assert_one_error_line(
        invoke(table, "--memory", "2MB"), "this machine is not calibrated", "--calibrate", "--clock hdd"
    )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ([], ["give --rate, --memory or both"]),
        (["--rate", "1e15"], ["rate=1e+15", "out of reach", "ask for less"]),
        (["--rate", "-5"], ["rate=-5.0", "above 0"]),
        (["--memory", "1KB"], ["memory=1024 bytes is too small for every algorithm", "give at least"]),
        (["--memory", "lots"], ["memory='lots' is not a size"]),
        (["--memory", "2MB", "--on", "nothing"], ["no column 'nothing'"]),
        (["--memory", "2MB", "--on", "a="], ["on='a=' is not a key"]),
        (["--memory", "2MB", "--how", "outer"], ["how='outer'"]),
        (["--memory", "2MB", "--columns", "nothing"], ["'nothing'"]),
        (["--memory", "2MB", "--skew", "-1"], ["skew=-1.0 must be from 0 to 10"]),
        (["--memory", "2MB", "--missing-share", "7"], ["missing_share=7.0 must be from 0 to 1"]),
        (["--memory", "2MB", "--clock", "sundial"], ["clock='sundial' is unknown", "machine, hdd, ssd"]),
        (["--memory", "2MB", "--calibrate"], ["--calibrate measures this machine", "--clock hdd"]),
        (["--memory", "2MB", "--sample", "absent.parquet"], ["'absent.parquet' does not exist"]),
        (["--memory", "2MB", "--plot", "advice.txt"], ["plot='advice.txt' is not a picture"]),
        (["--memory", "2MB", "--plot", "absent/advice.png"], ["absent/advice.png", "create the folder"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_had_is_one_line(table: Path, options: list[str], parts: list[str]) -> None:
    clock = [] if "--clock" in options else ["--clock", "hdd"]
    assert_one_error_line(invoke(table, *clock, *options), *parts)


def test_bad_samples_and_tables_are_one_line(table: Path, tmp_path: Path) -> None:
    rest = ("--memory", "2MB", "--clock", "hdd")
    text = tmp_path / "text.parquet"
    text.write_text("no Parquet")
    assert_one_error_line(invoke(table, *rest, "--sample", text), "text.parquet", "cannot be read as Parquet")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"colour": ["red"]}), other)
    assert_one_error_line(invoke(table, *rest, "--sample", other), "the stream has no column 'key'")
    empty = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"key": pa.array([], pa.int64())}), empty)
    assert_one_error_line(invoke(table, *rest, "--sample", empty), "the sample of the stream has no tuples")
    assert_one_error_line(invoke(tmp_path / "absent", *rest), "there is no master table at", "absent")


def test_join_takes_auto(table: Path, sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    arguments = ("join", sample, "--table", table, "--on", "key", "--algorithm", "auto", "--how", "semi", "--out", out)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert 0 < pq.read_table(out).num_rows < 10_000
    refused = CliRunner().invoke(app, [*(str(argument) for argument in arguments), "--option", "b=2"])
    assert_one_error_line(refused, "'b=2'", "name it with --algorithm")
