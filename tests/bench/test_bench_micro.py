"""The mechanics of the micro-benchmark at a tiny scale; no test asserts a time."""

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semistream.bench.micro import MicroSpec, run_micro
from semistream.bench.micro.mesh import meshjoin_with_share
from semistream.bench.micro.raw_scan import BLOCK_BYTES, fastest_block_bytes, raw_scan_s, table_files
from semistream.bench.micro.staged import staged_table
from semistream.bench.result_file import BenchResult, read_result, write_result
from semistream.core.errors import InvalidArgument
from semistream.operators.feeder import Feeder
from semistream.workloads import stream

ROWS = 20_000


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


@pytest.fixture(scope="module")
def result(data_dir: Path) -> BenchResult:
    return run_micro(MicroSpec(rows=ROWS, repeats=2), data_dir)


def test_every_figure_is_there(result: BenchResult) -> None:
    names = [entry.name for entry in result.entries]
    assert len(set(names)) == len(names) == 2 + 7 * 3 + 3 + 1
    assert all(np.isfinite(entry.value) and entry.value > 0 for entry in result.entries)


def test_every_figure_says_what_it_is_a_ratio_of(result: BenchResult) -> None:
    assert all(" / " in entry.ratio_of for entry in result.entries)
    assert len({entry.ratio_of for entry in result.entries}) == 5


def test_only_the_default_size_is_judged(result: BenchResult) -> None:
    assert {entry.met for entry in result.entries} == {None}
    assert MicroSpec(seed=3, repeats=1).has_target_size
    assert not MicroSpec(rows=ROWS).has_target_size
    assert not MicroSpec(page_bytes=4096).has_target_size


def test_the_result_survives_its_file(result: BenchResult, tmp_path: Path) -> None:
    write_result(result, tmp_path / "result.json")
    assert read_result(tmp_path / "result.json").entries[0] == result.entries[0]


def test_service_rate_answers_no_more_than_a_window_per_cycle(result: BenchResult) -> None:
    for entry in result.entries:
        if entry.name.startswith("MESHJOIN service rate"):
            details = entry.details
            assert sum(details["memory_bytes"].values()) <= details["budget_bytes"]
            for answered in details["answered_per_cycle"]:
                assert 0 < answered <= details["hS_tuples"] + details["w_tuples"]


def test_resident_memory_answers_every_tuple(result: BenchResult) -> None:
    details = result.entries[-1].details
    assert details["cycles"] >= 2
    assert details["rows_out"] == details["tuples_answered"] > 0
    assert details["peak_rss_bytes"] >= details["rss_before_bytes"]


def test_the_table_is_staged_once(data_dir: Path, result: BenchResult) -> None:
    spec = MicroSpec(rows=ROWS)
    table_id = staged_table(spec, data_dir).table_id
    assert staged_table(spec, data_dir).table_id == table_id


def test_a_half_staged_table_is_staged_again(tmp_path: Path) -> None:
    spec = MicroSpec(rows=1000)
    path = Path(staged_table(spec, tmp_path).path)
    for manifest in (path / "versions").iterdir():
        manifest.unlink()
    assert staged_table(spec, tmp_path).num_rows == 1000


@pytest.mark.parametrize("cold", [True, False])
def test_plain_reading_reads(data_dir: Path, result: BenchResult, cold: bool) -> None:
    paths = table_files(staged_table(MicroSpec(rows=ROWS), data_dir))
    assert sum(Path(path).stat().st_size for path in paths) > 120 * ROWS
    assert raw_scan_s(paths, 1 << 20, cold=cold) > 0
    assert fastest_block_bytes(paths, cold=cold) in BLOCK_BYTES


def test_the_feeder_loses_no_tuple(data_dir: Path, result: BenchResult) -> None:
    table = staged_table(MicroSpec(rows=ROWS), data_dir)
    batches = list(stream(5000, key_domain=ROWS, batch_rows=700))
    feeder = Feeder(cycle(batches))
    sales: list[int] = []
    with meshjoin_with_share(table, 0.5, "buffered") as op:
        offered = feeder.fill(op)
        for _ in range(3):
            for batch in op.step():
                sales += batch["sale"].to_pylist()
            offered += feeder.fill(op)
        for batch in op.drain():
            sales += batch["sale"].to_pylist()
    assert sorted(sales) == sorted(number % 5000 for number in range(offered))


def test_one_part_alone(data_dir: Path, result: BenchResult) -> None:
    alone = run_micro(MicroSpec(rows=ROWS, repeats=1, parts=("page-scan",)), data_dir)
    assert [entry.name for entry in alone.entries] == [entry.name for entry in result.entries[:2]]
    with pytest.raises(InvalidArgument, match="'magic'"):
        MicroSpec(parts=("magic",))


@pytest.mark.parametrize("arguments", [{"rows": 10}, {"repeats": 0}, {"page_bytes": 1}])
def test_the_spec_is_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        MicroSpec(**arguments)
