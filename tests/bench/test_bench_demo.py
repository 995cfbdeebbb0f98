"""The demonstration, small: on both back ends, and its check."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from semistream.bench.demo import DemoResult, DemoSpec, picture, run_demo, write_report
from semistream.bench.demo.local_backend import local_backend
from semistream.bench.demo.run import Fingerprint, JoinRun, batch_join_fingerprint, file_fingerprint
from semistream.bench.demo.workload import generate
from semistream.bench.framework.extras import import_extra
from semistream.bench.framework.provenance import collect_provenance
from semistream.cli.app import app
from semistream.core.errors import InvalidArgument, MissingExtra
from semistream.operators import algorithm_names

ROOT = Path(__file__).parents[2]
NAMES = [name.upper() for name in algorithm_names()]
FROM_MEMORY = ("CMESHJOIN", "CHYBRIDJOIN", "CINLJ", "SSBJ", "SWEEPJOIN")
SPEC = DemoSpec(master_rows=20_000, stream_tuples=30_000, lookup_tuples=2000, budget_share=0.5)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    folder = tmp_path_factory.mktemp("it's a demo")
    steps: list[str] = []
    result = run_demo(SPEC, folder, local_backend, lambda what, done, total, line="": steps.append(what))
    assert list(folder.iterdir()) == []  # data is removed
    assert {"warming up", "generating products", "generating sales", "staging the table"} < set(steps)
    return result


def test_every_algorithm_is_run_and_exact(result: DemoResult) -> None:
    assert [run.name for run in result.runs] == NAMES
    assert result.exact
    for run in result.runs:
        tuples = 2000 if run.name in ("INLJ", "CINLJ") else 30_000
        assert run.metrics is not None
        assert run.memory_bytes is not None
        assert run.output is not None
        assert run.tuples == run.metrics.tuples_answered == run.output.rows == tuples
        assert sum(run.components.values()) == run.memory_bytes <= result.budget_bytes
        assert run.timeline[-1][1:] == (tuples, run.metrics.hits)


def test_the_report_says_so(result: DemoResult, tmp_path: Path) -> None:
    provenance = collect_provenance(seed=0)
    write_report(result, provenance, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Every output equals the batch join." in page
    assert "data:image/png;base64," in page
    assert "page cache: these are warm rates" in page
    assert "nothing is answered before the first full scan of the table" in page
    for run in result.runs:
        assert run.metrics is not None
        assert f'{picture.color_of(run.name)}"></span>{run.name}' in page
        assert (run.metrics.hits > 0) == (run.name in FROM_MEMORY)
        assert f"<td>{run.metrics.hit_ratio:.0%}</td>" in page
    wrong = replace(result.runs[0], output=Fingerprint(1, 1))
    write_report(replace(result, runs=(wrong, *result.runs[1:])), provenance, tmp_path / "wrong.html")
    page = (tmp_path / "wrong.html").read_text()
    assert "An output differs!" in page
    assert "<td>NO</td>" in page


def test_a_run_without_a_check_is_not_exact() -> None:
    assert not JoinRun(name="SSBJ", tuples=1, joined=Path(), service_rate=1.0, timeline=()).exact


def test_every_algorithm_has_a_color_of_its_own_and_so_has_every_component(result: DemoResult) -> None:
    colors = [picture.color_of(name) for name in NAMES]
    assert len(set(colors)) == len(colors)
    assert set(colors).isdisjoint({*picture._COMPONENT_COLORS, picture._REST_COLOR, picture._OTHER_RUN_COLOR})
    shown = {name for run in result.runs for name in picture._large_components(run, result.budget_bytes)}
    assert len(shown) <= len(set(picture._COMPONENT_COLORS))


def test_the_check_sees_a_lost_a_doubled_and_a_changed_row(tmp_path: Path) -> None:
    spec = DemoSpec(master_rows=1000, stream_tuples=2000, missing_share=0.1)
    workload = generate(spec, tmp_path / "workload", lambda what, done, total, line="": None)
    joined = pq.read_table(workload.sales).join(pq.read_table(workload.products), "key", join_type="left outer")
    expected = batch_join_fingerprint(workload.sales, workload.products, 2000)

    def fingerprint(table: pa.Table) -> Fingerprint:
        pq.write_table(table, tmp_path / "joined.parquet")
        return file_fingerprint(tmp_path / "joined.parquet")

    assert expected.rows == 2000
    assert fingerprint(joined) == expected
    assert fingerprint(joined.slice(1)) != expected
    assert fingerprint(pa.concat_tables([joined.slice(1), joined.slice(1, 1)])) != expected
    quantities = pa.array([99, *joined["quantity"].to_pylist()[1:]], pa.int32())
    changed = joined.set_column(joined.schema.get_field_index("quantity"), "quantity", quantities)
    assert fingerprint(changed) != expected
    assert batch_join_fingerprint(workload.sales, workload.products, 1999) != expected


@pytest.mark.parametrize("size", ["master_rows", "stream_tuples", "lookup_tuples"])
def test_sizes_that_make_no_sense_are_refused(size: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{size}=0 must be at least"):
        DemoSpec(**{size: 0})


def test_the_command_prints_the_runs_and_leaves_a_report(
    result: DemoResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[DemoSpec, object]] = []

    def small(spec: DemoSpec, folder: Path, open_backend: object, progress: object) -> DemoResult:
        given.append((spec, open_backend))
        return result

    monkeypatch.setattr("semistream.cli.demo.run_demo", small)
    sizes = ["--master-rows", "20000", "--stream-tuples", "30000", "--lookup-tuples", "2000", "--seed", "7"]
    done = CliRunner().invoke(app, ["demo", "--local", "--out", str(tmp_path), *sizes])
    assert done.exit_code == 0, done.output
    assert given == [(replace(SPEC, budget_share=DemoSpec.budget_share, seed=7), local_backend)]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    lines = done.stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(tuple(NAMES))}
    assert list(rows) == NAMES
    for name, cells in rows.items():
        assert cells[:2] == ["2,000" if name in ("INLJ", "CINLJ") else "30,000"] * 2
        assert (cells[3] != "0%") == (name in FROM_MEMORY)
        assert cells[-1] == "yes"
    assert max(len(line) for line in lines if not line.startswith("Report")) <= 80
    assert "these are warm rates" in " ".join(done.stdout.split())


def test_an_output_that_differs_fails_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semistream.bench.demo.local_backend.algorithm_names", lambda: ["ssbj"])
    monkeypatch.setattr("semistream.bench.demo.run.file_fingerprint", lambda joined: Fingerprint(1, 1))
    sizes = ["--master-rows", "100000", "--stream-tuples", "1000"]
    done = CliRunner().invoke(app, ["demo", "--local", "--out", str(tmp_path), *sizes])
    assert done.exit_code == 1
    assert "an output differs from DuckDB's batch join" in done.stderr
    assert "An output differs!" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_the_demo_on_spark_is_exact_and_leaves_a_report(tmp_path: Path) -> None:
    sizes = ["--master-rows", "100000", "--stream-tuples", "60000"]
    done = subprocess.run(
        [sys.executable, "-c", "from semistream.cli.main import main; main()", "demo", "--out", str(tmp_path), *sizes],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    rows = {name: line for line in done.stdout.splitlines() for name in ("live", "own join") if f"{name}  " in line}
    assert rows["live"].split()[2:4] == ["60,000"] * 2
    assert rows["own join"].split()[3:5] == ["30,000"] * 2
    assert all(row.split()[-1] == "yes" for row in rows.values())
    page = (tmp_path / "report.html").read_text()
    assert "Every output equals the batch join." in page
    assert "data:image/png;base64," in page


def test_a_missing_extra_is_one_clear_line() -> None:
    with pytest.raises(MissingExtra, match=r"plotting needs 'absent_module': pip install 'semistream\[bench\]'"):
        import_extra("absent_module", "bench", "plotting")
