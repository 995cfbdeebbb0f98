"""The demonstration, small."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semistream.bench.demo import DemoResult, DemoSpec, picture, run_demo, write_report
from semistream.bench.demo.check import Fingerprint, batch_join_fingerprint, file_fingerprint
from semistream.bench.extras import import_extra
from semistream.bench.provenance import collect_provenance
from semistream.core.errors import MissingExtra
from semistream.operators import algorithm_names
from semistream.workloads import master_table, stream

SPEC = DemoSpec(master_rows=20_000, stream_tuples=30_000, lookup_tuples=5000, budget_share=0.5)
CACHED = ("cmeshjoin", "chybridjoin", "cinlj", "ssbj", "sweepjoin")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    folder = tmp_path_factory.mktemp("demo")
    steps: list[str] = []
    result = run_demo(SPEC, folder, lambda what, done, total: steps.append(what))
    assert list(folder.iterdir()) == []  # data is removed
    assert "staging the table" in steps
    return result


def test_every_algorithm_is_run_and_exact(result: DemoResult) -> None:
    assert [run.algorithm for run in result.runs] == algorithm_names()
    assert result.exact
    for run in result.runs:
        assert run.metrics.tuples_answered == run.output.rows
        assert run.output.rows == (5000 if run.algorithm in ("inlj", "cinlj") else 30_000)
        assert run.memory.total_bytes <= run.memory.budget_bytes
        assert run.timeline[-1] == (run.busy_s, run.metrics.tuples_answered)


def test_the_report_says_so(result: DemoResult, tmp_path: Path) -> None:
    provenance = collect_provenance(seed=0)
    write_report(result, provenance, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Every output equals the batch join." in page
    assert "data:image/png;base64," in page
    assert "page cache: these are warm rates" in page
    assert "nothing is answered before the first full scan of the table" in page
    for run in result.runs:
        assert f'{picture.color_of(run.algorithm)}"></span>{run.algorithm.upper()}' in page
        assert (run.metrics.cache_share > 0) == (run.algorithm in CACHED)
        assert f"<td>{run.metrics.cache_share:.0%}</td>" in page
    wrong = replace(result.runs[0], output=Fingerprint(1, 1))
    write_report(replace(result, runs=(wrong, *result.runs[1:])), provenance, tmp_path / "wrong.html")
    assert "An output differs!" in (tmp_path / "wrong.html").read_text()


def test_every_algorithm_has_a_color_of_its_own_that_no_component_has() -> None:
    colors = [picture.color_of(name) for name in algorithm_names()]
    assert len(set(colors)) == len(colors)
    assert set(colors).isdisjoint({*picture._COMPONENT_COLORS, picture._REST_COLOR, picture._OTHER_RUN_COLOR})


def test_the_check_sees_a_lost_a_doubled_and_a_changed_row(tmp_path: Path) -> None:
    master = master_table(1000).read_all()
    sales = stream(2000, key_domain=1000, missing_share=0.1).read_all()
    joined = sales.join(master, "key", join_type="left outer")
    for name, table in (("master", master), ("sales", sales)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    expected = batch_join_fingerprint(tmp_path / "sales.parquet", tmp_path / "master.parquet", 2000)

    def fingerprint(table: pa.Table) -> Fingerprint:
        pq.write_table(table, tmp_path / "joined.parquet")
        return file_fingerprint(tmp_path / "joined.parquet")

    assert fingerprint(joined) == expected
    assert fingerprint(joined.slice(1)) != expected
    assert fingerprint(pa.concat_tables([joined.slice(1), joined.slice(1, 1)])) != expected
    quantities = pa.array([99, *joined["quantity"].to_pylist()[1:]], pa.int32())
    changed = joined.set_column(joined.schema.get_field_index("quantity"), "quantity", quantities)
    assert fingerprint(changed) != expected


def test_a_missing_extra_is_one_clear_line() -> None:
    with pytest.raises(MissingExtra, match=r"plotting needs 'absent_module': pip install 'semistream\[bench\]'"):
        import_extra("absent_module", "bench", "plotting")
