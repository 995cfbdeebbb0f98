"""Service rates over a grid, as the benchmark of the operators has them; no test asserts a time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semistream.bench.framework.measurement import MACHINE, Point
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.result_file import Result
from semistream.bench.framework.runner import Run, measurements_of, run_spec
from semistream.bench.framework.spec import Spec, load_spec
from semistream.bench.framework.store import staged_workload
from semistream.bench.measurements.joins.rate import RateMeasurement
from semistream.bench.measurements.joins.saturated import PreparedStream
from semistream.bench.measurements.joins.steady import Effort, WarmUp, make_operator, measure_steady
from semistream.bench.measurements.joins.times import Times
from semistream.cost.clock import HDD
from semistream.operators import algorithm, algorithm_names
from semistream.workloads import synthetic

TINY: dict[str, Any] = {
    "rows": [20_000],
    "zipf_exponent": [0.0, 1.0],
    "x": [0.4],
    "page_bytes": 4096,
    "measured_rows": 20_000,
    "lookup_tuples": 200,
    "lookup_backlog_tuples": 1024,
    "most_warm_up_scans": 2,
    "most_warm_up_tuples": 300,
}


def tiny(**parameters: Any) -> Spec:
    spec = load_spec("operators").with_parameters("quick", {**TINY, **parameters})
    series = {name: value for name, value in spec.series.items() if "shown_as" not in value}
    return replace(spec, series=series)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


@pytest.fixture(scope="module")
def result(data_dir: Path) -> Result:
    return run_spec(tiny(), "quick", Run(data_dir))


def test_every_algorithm_is_a_series_and_ssbj_with_both_disk_phases() -> None:
    series = load_spec("operators").series.values()
    found = {(each["algorithm"], each["layout"]) for each in series}
    assert found == {(name, algorithm(name).layouts[0]) for name in algorithm_names()} | {("ssbj", "clustered")}


def test_series_take_turns_at_each_place_and_ssbj_has_less_memory_at_one_skew() -> None:
    spec = load_spec("operators")
    found = [each for each in measurements_of(spec, "full") if isinstance(each, RateMeasurement)]
    places = [(next(iter(each.values)), each.x) for each in found]
    assert places[:9] == [("2,000,000 rows, skew 0", 1.0)] * 9
    assert {each.series for each in found} == {*spec.series} - {"SSBJ with less memory"}
    less = [each for each in found if round(each.x, 2) not in (1.0, 5.0, 10.0)]
    assert {(each.series, next(iter(each.values))) for each in less} == {
        ("SSBJ", "2,000,000 rows, skew 1"),
        ("SSBJ", "20,000,000 rows, skew 1"),
    }
    assert {each.cell.effort.measured_windows for each in found} == {3, 1}


def test_figures_fit_together(result: Result) -> None:
    assert result.is_complete
    for point in result.points:
        found = point.details
        assert found["tuples"] > 0
        assert found["pages_per_1000_tuples"] == pytest.approx(1000 * found["pages_read"] / found["tuples"])
        assert found["cpu_us_per_tuple"] == pytest.approx(1e6 * found["cpu_s"] / found["tuples"])
        assert 0 <= found["cache_share"] <= 1
        assert sum(found["peak_components_bytes"].values()) == found["peak_bytes"] <= found["budget_bytes"]
        assert 0 < found["seeks"] <= found["pages_read"]
        io_s = found["seeks"] * HDD.seek_s + found["bytes_read"] / HDD.bytes_per_s
        assert point.y[HDD.name] == pytest.approx(found["tuples"] / io_s)
        assert point.y[MACHINE] > 0
        assert found["tuples_per_s_with_cpu"][HDD.name] < point.y[HDD.name]


def times_of(point: Point) -> Times:
    return Times(**point.details["times"])


def test_times_per_tuple_are_waiting_and_processing(result: Result) -> None:
    for point in result.points:
        times = times_of(point)
        assert times.arrivals_per_s == pytest.approx(0.8 * point.y[HDD.name])
        assert times.in_system_s > 0
        if times.waiting_s is not None and times.processing_s is not None:
            assert times.waiting_s + times.processing_s == pytest.approx(times.in_system_s)


def test_meshjoin_scans_whole_tables_and_inlj_seeks_for_nearly_every_page(result: Result) -> None:
    for point in result.points:
        found = point.details
        if point.series == "MESHJOIN":
            assert found["scans"] == pytest.approx(1, abs=0.2)
            assert found["seeks"] <= 2
            # A tuple stays for one scan, whatever the arrival rate.
            scan_s = HDD.io_s(1, round(found["bytes_read"] / found["scans"]))
            assert times_of(point).processing_s == pytest.approx(scan_s, rel=0.25)
        if point.series == "INLJ":
            assert found["seeks"] > 0.8 * found["pages_read"]


def test_a_grid_is_drawn_with_a_panel_for_each_group_and_clock(result: Result, tmp_path: Path) -> None:
    plot_result(result, tmp_path / "rates.svg")
    picture = (tmp_path / "rates.svg").read_text()
    for clock in (MACHINE, HDD.name):
        assert picture.count(f"<!-- 20,000 rows, skew 1: {clock}") == 1


def _warm_up(data_dir: Path, name: str, layout: str, **effort: Any) -> WarmUp:
    workload = synthetic(20_000, zipf_exponent=1.0)
    table = staged_workload(data_dir, workload, layout=layout, page_bytes=4096)
    with make_operator(name, table, int(0.4 * table.num_bytes)) as op:
        settings = {name: TINY[name] for name in ("lookup_tuples", "lookup_backlog_tuples")}
        return measure_steady(op, PreparedStream(workload.stream(0)), table, Effort(**settings, **effort)).warm_up


@pytest.mark.parametrize(
    ("name", "layout", "windows"),
    [("cmeshjoin", "heap", 6), ("ssbj", "heap", 2), ("chybridjoin", "clustered", 6), ("cinlj", "clustered", 3)],
)
def test_warm_up_ends_after_counted_work_whatever_the_time(
    data_dir: Path, name: str, layout: str, windows: int
) -> None:
    # Never steady: work alone ends it. Look-ups go on for 100, 200 and 400 tuples.
    never = {"share_tolerance": 0.0, "io_tolerance": 0.0, "most_warm_up_scans": 6, "most_warm_up_tuples": 700}
    warm_up = _warm_up(data_dir, name, layout, **never)
    assert not warm_up.is_steady
    assert len(warm_up.cache_shares) == windows


def test_a_cell_that_time_cut_short_is_not_steady(data_dir: Path) -> None:
    assert not _warm_up(
        data_dir, "meshjoin", "heap", share_tolerance=1.0, io_tolerance=1e9, most_warm_up_s=0.0
    ).is_steady


def test_no_memory_at_all_is_named_as_such() -> None:
    spec = load_spec("operators").with_parameters("quick", {"x": [0.0]})
    [cell, *_] = [each.cell for each in measurements_of(spec, "quick") if isinstance(each, RateMeasurement)]
    assert "memory 0% of R" in str(cell)
