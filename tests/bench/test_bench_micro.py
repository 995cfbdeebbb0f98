"""The micro-benchmark at a tiny scale; no test asserts a time."""

from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from semistream.bench.framework.measurement import VALUE, Point, key_of
from semistream.bench.framework.result_file import Result, read_result
from semistream.bench.framework.runner import Run, measurements_of, run_spec
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.store import staged_workload
from semistream.bench.framework.targets import judge_targets
from semistream.bench.measurements.micro.multimap import OPERATIONS
from semistream.bench.measurements.micro.raw_scan import BLOCK_BYTES, fastest_block_bytes, raw_scan_s, table_files
from semistream.bench.measurements.micro.service_rate import meshjoin_with_share
from semistream.core.errors import InvalidArgument
from semistream.cost.calibration.feeder import Feeder
from semistream.storage import MasterTable
from semistream.workloads import stream, synthetic

ROWS = 20_000
SPEC = load_spec("micro").with_parameters(
    "quick", {"rows": ROWS, "multimap_entries": 8000, "plain_entries": 4000, "repeats": 2}
)
RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


@pytest.fixture(scope="module")
def result(data_dir: Path) -> Result:
    return run_spec(SPEC, "quick", Run(data_dir))


@pytest.fixture(scope="module")
def table(data_dir: Path) -> MasterTable:
    return staged_workload(data_dir, synthetic(ROWS, zipf_exponent=0.0), layout="heap", page_bytes=65_536)


def _points(result: Result, group: str, series: str) -> list[Point]:
    return [point for point in result.points if (point.group, point.series) == (group, series)]


def test_every_part_is_measured_on_every_side(result: Result) -> None:
    assert result.is_complete
    assert Counter((point.group, point.series) for point in result.points) == {
        **{("page scan", side): 2 for side in ("plain reading", "pages verified", "pages decoded")},
        **{
            (f"multi-map, {keys}", side): len(OPERATIONS)
            for keys in ("uniform keys", "one key with 5%")
            for side in ("compiled", "plain Python")
        },
        **{("service rate", side): 3 for side in ("MESHJOIN", "bound")},
        **{("resident memory", side): 1 for side in ("growth of the process", "budget")},
    }


def test_every_target_has_its_lines_and_a_small_run_no_verdict(result: Result) -> None:
    lines = judge_targets(result)
    assert len({line.name for line in lines}) == len(lines) == 2 + 7 * 3 + 3 + 1
    assert all(line.value is not None and line.met is None for line in lines)


def test_the_ticks_name_the_operations_and_the_states_of_the_page_cache() -> None:
    assert SPEC.x.ticks == (*OPERATIONS, "cold", "warm")


def test_medians_are_shown_of_as_many_runs_as_asked_for(result: Result) -> None:
    for point in _points(result, "multi-map, uniform keys", "compiled"):
        runs = point.details["all_ns_per_tuple"]
        assert len(runs) == 2
        assert point.y[VALUE] == sum(runs) / 2
    for point in _points(result, "page scan", "pages verified"):
        assert point.y[VALUE] == pytest.approx(point.details["table_bytes"] / sum(point.details["scan_s"]) * 2 / 1e6)


def test_the_plain_twin_has_the_entries_it_was_given(result: Result) -> None:
    found = {point.series: point.details["entries"] for point in result.points if "entries" in point.details}
    assert found == {"compiled": 8000, "plain Python": 4000}


def test_service_rate_answers_no_more_than_a_window_per_cycle(result: Result) -> None:
    for point in _points(result, "service rate", "MESHJOIN"):
        details = point.details
        assert sum(details["memory_bytes"].values()) <= details["budget_bytes"]
        assert len(details["answered_per_cycle"]) == 2
        for answered in details["answered_per_cycle"]:
            assert 0 < answered <= details["hS_tuples"] + details["w_tuples"]


def test_resident_memory_answers_every_tuple(result: Result) -> None:
    details = _points(result, "resident memory", "growth of the process")[0].details
    assert details["cycles"] >= 2
    assert details["rows_out"] == details["tuples_answered"] > 0
    assert details["peak_rss_bytes"] >= details["rss_before_bytes"]


def test_one_part_alone(data_dir: Path, result: Result) -> None:
    alone = run_spec(SPEC, "quick", Run(data_dir, only=("page-scan",)))
    assert [done.name for done in alone.finished] == ["page-scan, cold", "page-scan, warm"]
    assert not alone.is_complete
    lines = [line for line in judge_targets(alone) if line.value is not None]
    assert [line.name.partition(":")[0] for line in lines] == ["page scan, cold", "page scan, warm"]


@pytest.mark.parametrize("cold", [True, False])
def test_plain_reading_reads(table: MasterTable, cold: bool) -> None:
    paths = table_files(table)
    assert sum(Path(path).stat().st_size for path in paths) > 120 * ROWS
    assert raw_scan_s(paths, 1 << 20, cold=cold) > 0
    assert fastest_block_bytes(paths, cold=cold) in BLOCK_BYTES


def test_the_feeder_loses_no_tuple(table: MasterTable) -> None:
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 10}, "rows=10 must be at least 1000"),
        ({"repeats": 0}, "repeats=0 must be at least 1"),
        ({"page_bytes": 1}, "page_bytes=1 must be at least 1024"),
        ({"budget_shares": [0.1, 1.0]}, "a budget of 1 of R"),
        ({"resident_share": 0.0}, "a budget of 0 of R"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        measurements_of(SPEC.with_parameters("quick", changes), "quick")


def test_measurements_have_names_and_keys_of_their_own() -> None:
    measurements = measurements_of(SPEC, "quick")
    assert len({each.name for each in measurements}) == len(measurements)
    smaller = measurements_of(SPEC.with_parameters("quick", {"repeats": 1}), "quick")
    # Resident memory is measured once.
    assert len({key_of(each) for each in [*measurements, *smaller]}) == 2 * len(measurements) - 1


def test_the_measured_result_meets_the_targets_that_the_readme_says() -> None:
    lines = judge_targets(read_result(RESULTS / "micro.json"))
    assert len(lines) == 27
    assert all(line.value is not None for line in lines)
    missed = [line for line in lines if not line.met]
    assert [line.where for line in missed] == ["0.01", "0.05", "0.1"]
    assert [round(line.value or 0.0, 3) for line in missed] == [0.467, 0.307, 0.202]
    flatness = {line.where: line.value for line in lines if line.target.over_group is not None}
    assert list(flatness) == list(OPERATIONS)
    assert flatness["probe, misses"] == pytest.approx(17.156873 / 16.858528)
