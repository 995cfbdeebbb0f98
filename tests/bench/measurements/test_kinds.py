"""The kinds of measurements of joins, at a tiny scale; no test asserts a time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.runner import Run, measurements_of
from semistream.bench.framework.spec import Axis, Spec
from semistream.bench.framework.store import staged_workload
from semistream.bench.measurements.cost import cost_validation
from semistream.bench.measurements.cost.cost_validation import CostValidation
from semistream.bench.measurements.joins.cell import OpenCell, open_cell, rate_cell
from semistream.bench.measurements.joins.overload_rates import OutsideStore, Shedder
from semistream.bench.measurements.joins.page_use import PageReads
from semistream.bench.measurements.joins.saturated import Work
from semistream.bench.measurements.joins.steady import SteadyState, WarmUp
from semistream.bench.measurements.joins.times import replay_for
from semistream.core.budget import MemoryReport
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.metrics import Metrics
from semistream.cost.calibration.calibration_file import Calibration
from semistream.cost.clock import HDD, AlgorithmFactors, CostFactors
from semistream.runtime.local.replay import StepCost
from semistream.storage import MasterTable
from semistream.workloads import Workload

CLOCKS = {HDD.name, MACHINE}
CELL: dict[str, Any] = {
    "rows": 20_000,
    "page_bytes": 4096,
    "zipf_exponent": 1.0,
    "memory_share": 0.4,
    "measured_windows": 1,
    "most_warm_up_scans": 1,
    "lookup_tuples": 200,
    "lookup_backlog_tuples": 512,
    "most_warm_up_tuples": 200,
}
MESHJOIN = {"algorithm": "meshjoin", "layout": "heap"}
HYBRIDJOIN = {"algorithm": "hybridjoin", "layout": "clustered"}
CHYBRIDJOIN = {"algorithm": "chybridjoin", "layout": "clustered"}
INLJ = {"algorithm": "inlj", "layout": "clustered", "w": 1}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    data_dir = tmp_path_factory.mktemp("figures")

    def table(workload: Workload, layout: str, page_bytes: int) -> MasterTable:
        return staged_workload(data_dir, workload, layout=layout, page_bytes=page_bytes)

    open_until_the_end = ExitStack()
    resources: dict[str, Any] = {}

    def resource(name: str, make: Callable[[], Any]) -> Any:
        if name not in resources:
            resources[name] = open_until_the_end.enter_context(make())
        return resources[name]

    store = Run(data_dir).store()
    with open_until_the_end:
        yield Context(table, data_dir, None, 0, lambda message: None, resource, store.remembered)


def figure(kind: str, x_name: str, series: dict[str, Any], **parameters: Any) -> list[Measurement]:
    spec = Spec(
        id="S9-1",
        paper="S9",
        place="",
        title="",
        kind=kind,
        about="",
        x=Axis("x", name=x_name),
        y=Axis("y"),
        series=series,
        scales={"quick": parameters},
    )
    return measurements_of(spec, "quick")


def run(measurements: list[Measurement], context: Context) -> list[Point]:
    return [point for measurement in measurements for point in measurement.run(context)]


def of(points: list[Point], series: str) -> list[Point]:
    return [point for point in points if point.series == series]


# --- page use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [MESHJOIN, HYBRIDJOIN, INLJ])
def test_reads_of_pages_add_up_to_what_the_operator_counts(context: Context, series: dict[str, Any]) -> None:
    opened = open_cell(rate_cell({**CELL, **series}), context)
    reads = PageReads(opened.table)
    batch = next(opened.stream()).slice(0, 500)
    with opened._replace(table=reads.table).operator() as op:
        op.offer(batch)
        for _ in op.drain():
            pass
    # Closed: nothing is being read ahead any more.
    assert reads.counts.sum() >= op.metrics.pages_read > 0
    if op.name == "meshjoin":
        assert reads.counts.sum() == op.metrics.pages_read
        assert reads.counts.max() - reads.counts.min() <= 1


def test_pages_are_used_less_and_less_along_a_table_sorted_by_demand(context: Context) -> None:
    settings = {
        "HYBRIDJOIN": {**HYBRIDJOIN, "b": 1, "memory_share": 0.22},
        "MESHJOIN": {"algorithm": "meshjoin", "layout": "clustered"},
    }
    points = run(
        figure(
            "page use",
            "",
            settings,
            **{**CELL, "zipf_exponent": 1.5},
            scatter_hot_keys=False,
            sections=4,
            warm_up_scans=1.0,
            measured_scans=1.0,
        ),
        context,
    )
    used, even = of(points, "HYBRIDJOIN"), of(points, "MESHJOIN")
    assert [point.x for point in used] == sorted(point.x for point in used)
    assert used[0].y["value"] > 1.5 * used[-1].y["value"]
    pages = sum(point.details["pages"] for point in used)
    for series in (used, even):  # a scan's worth of bytes, and what was read ahead
        reads = sum(point.details["pages"] * point.details["reads_per_page"] for point in series)
        assert 0.9 * pages <= reads <= 1.3 * pages
    assert max(point.y["value"] for point in even) <= 1.3 * min(point.y["value"] for point in even)


# --- times ----------------------------------------------------------------------------------------------------------


def test_processing_time_is_measured_on_both_clocks_at_a_share_of_the_rate_on_each(context: Context) -> None:
    points = run(
        figure(
            "processing time",
            "rows",
            {"MESHJOIN": MESHJOIN},
            **{**CELL, "x": [10_000, 20_000], "arrival_share": 0.5, "least_tuples": 200, "memory_share": 0.6},
        ),
        context,
    )
    assert [point.x for point in points] == [10_000, 20_000]
    for point in points:
        assert set(point.y) == CLOCKS
        assert point.details["arrivals_per_s"][HDD.name] != point.details["arrivals_per_s"][MACHINE]
    small, large = (point.y[HDD.name] for point in points)
    # A scan of twice the bytes; by I/O alone, so it is the same on every machine.
    assert 1.2 * small < large < 2.5 * small


def test_a_tuple_that_finds_the_join_idle_does_not_wait(context: Context) -> None:
    opened = open_cell(rate_cell({**CELL, **INLJ}), context)
    times = replay_for(
        opened.operator(), opened.stream(), 2.0, settling_s=1.0, measured_s=10.0, step_cost_s=lambda step: 0.25
    ).times
    assert times.is_settled
    assert times.waiting_s == pytest.approx(0.0, abs=1e-9)
    assert times.in_system_s == pytest.approx(0.25, rel=0.1)


def test_a_backlog_grows_when_more_tuples_arrive_than_can_be_answered(context: Context) -> None:
    opened = open_cell(rate_cell({**CELL, **INLJ}), context)
    waited = [
        replay_for(
            opened.operator(), opened.stream(), 8.0, settling_s=1.0, measured_s=seconds, step_cost_s=lambda step: 0.25
        ).times
        for seconds in (10.0, 40.0)
    ]
    assert waited[0].waiting_s is not None
    assert waited[1].waiting_s is not None
    assert waited[1].waiting_s > 2 * waited[0].waiting_s > 0


def test_waiting_time_says_who_cannot_keep_up(context: Context) -> None:
    points = run(
        figure(
            "waiting time",
            "arrivals_per_s",
            {"HYBRIDJOIN": HYBRIDJOIN, "INLJ": INLJ},
            **{**CELL, "memory_share": 0.3, "x": [5, 3000], "settling_s": 0.1, "measured_s": 0.5},
        ),
        context,
    )
    keeps_up = {(point.series, point.x): point.details["keeps_up"][HDD.name] for point in points}
    assert keeps_up == {("HYBRIDJOIN", 5): True, ("INLJ", 5): True, ("HYBRIDJOIN", 3000): True, ("INLJ", 3000): False}
    inlj = of(points, "INLJ")
    assert inlj[1].y[HDD.name] > inlj[0].y[HDD.name]


# --- shedding -------------------------------------------------------------------------------------------------------


def test_tuples_outside_come_back_in_order_however_they_are_cut() -> None:
    store = OutsideStore()
    store.put(pa.record_batch({"k": [1, 2, 3]}))
    store.put(pa.record_batch({"k": [4]}))
    taken = [store.take(rows).column("k").to_pylist() for rows in (2, 5, 5)]
    assert taken == [[1, 2], [3], [4]]


def test_shed_tuples_go_nowhere_else() -> None:
    with pytest.raises(InvalidArgument, match=r"to='tape' is no place for shed tuples: use 'disk' or 'network'"):
        Shedder(strategy="keep", to="tape")


def test_rates_under_shedding(context: Context) -> None:
    points = run(
        figure(
            "shedding",
            "overload",
            {
                "arrivals": {},
                "network": {**CHYBRIDJOIN, "strategy": "considering", "to": "network"},
                "disk": {**CHYBRIDJOIN, "strategy": "considering"},
            },
            **{
                **CELL,
                "memory_share": 1.0,
                "x": [0.5, 4.0],
                "settling_scans": 0.3,
                "scans": 0.3,
                "spool_bytes": "64MB",
            },
            unshed=CHYBRIDJOIN,
        ),
        context,
    )
    arrivals, network, disk = (of(points, series) for series in ("arrivals", "network", "disk"))
    assert arrivals[1].y[HDD.name] == pytest.approx(8 * arrivals[0].y[HDD.name])
    for series in (network, disk):
        calm, busy = (point.details["tuples_shed"][HDD.name] for point in series)
        assert busy > calm
        assert series[1].y[HDD.name] < arrivals[1].y[HDD.name]
    # All that arrive are predicted to be answered while they are few.
    few, many = of(points, "disk predicted")
    assert few.y[HDD.name] == pytest.approx(arrivals[0].y[HDD.name])
    assert many.y[HDD.name] < arrivals[1].y[HDD.name]
    # A spool on disk has an index in memory.
    assert many.y[HDD.name] == pytest.approx(of(points, "network predicted")[1].y[HDD.name], rel=0.05)


def test_tuples_that_are_shed_to_disk_take_the_disks_time(context: Context) -> None:
    opened = open_cell(rate_cell({**CELL, **CHYBRIDJOIN}), context)
    step = StepCost(0.5, Metrics(), Metrics(seeks=1, tuples_shed=100_000, tuples_reloaded=50_000))
    took = {to: Shedder(strategy="keep", to=to).clocks(opened) for to in ("disk", "network")}
    shed_bytes = 150_000 * 20
    assert took["network"][HDD.name](step) == pytest.approx(HDD.seek_s)
    assert took["disk"][HDD.name](step) == pytest.approx(HDD.io_s(1 + shed_bytes / (1 << 20), shed_bytes))
    assert took["disk"][MACHINE](step) == took["network"][MACHINE](step) == 0.5


def test_a_rate_under_overload_is_what_was_answered_in_the_measured_seconds(context: Context) -> None:
    opened = open_cell(rate_cell({**CELL, **INLJ}), context)
    # It is slow for the first five seconds, in which nothing is measured.
    found = replay_for(
        opened.operator(),
        opened.stream(),
        100.0,
        settling_s=5.0,
        measured_s=5.0,
        step_cost_s=lambda step: 0.5 if step.after.steps <= 10 else 0.125,
    )
    assert found.tuples_per_s == pytest.approx(8.0, rel=0.05)
    assert found.counted.tuples_answered == pytest.approx(40, abs=2)


# --- a growing table ------------------------------------------------------------------------------------------------


def test_a_join_goes_on_when_its_table_doubles(context: Context) -> None:
    parameters = {"rows": 10_000, "page_bytes": 4096, "zipf_exponent": 1.0, "memory_share": 0.4}
    points = run(
        figure(
            "growing table", "", {"CMESHJOIN": {"algorithm": "cmeshjoin"}}, **parameters, windows=6, window_scans=1.0
        ),
        context,
    )
    assert [point.details["rows"] for point in points] == [10_000] * 6 + [20_000] * 7  # one for what it had left
    assert [point.x for point in points] == sorted(point.x for point in points)
    before, after = points[5], points[-1]
    assert before.y[HDD.name] > after.y[HDD.name] > 0
    assert min(before.details["cache_share"], after.details["cache_share"]) > 0
    assert not list(context.data_dir.glob("growing-*"))


# --- the generator --------------------------------------------------------------------------------------------------


def test_the_most_frequent_keys_have_most_tuples(context: Context) -> None:
    shares = [0.0, 0.2, 0.5, 1.0]
    series = {"zipf": {"zipf_exponent": 1.0}, "uniform": {"zipf_exponent": 0.0}}
    points = run(figure("sales by product", "", series, keys=1000, tuples=20_000, x=shares), context)
    zipf, uniform = (
        [point.y["value"] for point in of(points, name) if point.group == "by share of keys"] for name in series
    )
    assert zipf[0] == uniform[0] == 0
    assert zipf[-1] == uniform[-1] == 100
    assert zipf[1] > 75
    assert 20 < uniform[1] < 30
    by_rank = [point.y["value"] for point in of(points, "zipf") if point.group == "by rank"]
    assert by_rank == sorted(by_rank, reverse=True)
    assert 10 ** by_rank[0] == pytest.approx(20_000 / np.sum(1 / np.arange(1, 1001)), rel=0.1)


def test_a_part_of_the_arrivals_is_as_bursty_as_the_whole(context: Context) -> None:
    points = run(
        figure(
            "arrivals over time", "", {"b": {"burstiness": 0.6}}, rate=1000.0, period_s=64.0, part=0.125, intervals=64
        ),
        context,
    )
    whole, part = ([point for point in points if point.group == group] for group in ("whole period", "busiest part"))
    arrived = sum(point.y["value"] for point in whole) * whole[0].details["interval_s"]
    assert arrived == pytest.approx(64_000)
    arrived_in_part = sum(point.y["value"] for point in part) * part[0].details["interval_s"]
    assert arrived_in_part == pytest.approx(0.8**3 * arrived, rel=0.01)  # the busier half, thrice
    for group in (whole, part):
        assert group[0].details["busiest_to_mean"] > 10
        assert group[0].details["time_share_of_80_percent"] < 0.3


# --- memory and costs -----------------------------------------------------------------------------------------------


def test_the_memory_for_a_rate_has_that_rate_and_the_model_agrees(context: Context) -> None:
    measurements = figure(
        "memory for rate",
        "tuples_per_s",
        {"MESHJOIN": MESHJOIN},
        **{**CELL, "x": [200_000, 300_000], "tolerance": 0.05, "most_runs": 5},
    )
    points = run(measurements, context)
    opened = open_cell(rate_cell({**CELL, **MESHJOIN}), context)
    for measured, model in zip(of(points, "MESHJOIN"), of(points, "MESHJOIN predicted"), strict=True):
        assert measured.x == model.x
        assert measured.y[HDD.name] == pytest.approx(model.y[HDD.name], rel=0.1)
        rate = opened.measure(int(measured.y[HDD.name] * (1 << 20))).disks[HDD.name].tuples_per_s
        assert rate == pytest.approx(measured.x, rel=0.08)


def test_memory_is_measured_only_where_the_figure_asks_for_it(context: Context) -> None:
    parameters = {**CELL, "x": [1, 2, 4], "measured_x": [2], "tuples_per_s": 200_000, "tolerance": 0.1, "most_runs": 4}
    points = run(figure("memory for rate", "b", {"MESHJOIN": MESHJOIN}, **parameters), context)
    assert [point.x for point in of(points, "MESHJOIN")] == [2]
    assert [point.x for point in of(points, "MESHJOIN predicted")] == [1, 2, 4]


@pytest.fixture
def _calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = CostFactors({"meshjoin": AlgorithmFactors(loop_s=1e-3, page_s=1e-5)})
    monkeypatch.setattr(
        cost_validation,
        "calibrate",
        lambda table, **_: Calibration(factors=factors, left_out={}, provenance={"yardstick_s": 1e-3}),
    )


@pytest.mark.usefixtures("_calibrated")
def test_costs_are_predicted_and_measured_side_by_side(context: Context) -> None:
    parameters = {**CELL, "x": [0.3, 0.5], "measured_x": [0.5], "shown": "loop_s"}
    points = run(
        figure("cost validation", "memory_share", {"MESHJOIN": MESHJOIN, "HYBRIDJOIN": HYBRIDJOIN}, **parameters),
        context,
    )
    predicted, measured = of(points, "MESHJOIN predicted"), of(points, "MESHJOIN measured")
    assert [point.x for point in predicted] == [0.3, 0.5]
    assert [point.x for point in measured] == [0.5]
    assert set(predicted[1].y) == set(measured[0].y) == CLOCKS
    assert predicted[1].y[HDD.name] == pytest.approx(measured[0].y[HDD.name], rel=0.05)
    details = measured[0].details
    for clock in CLOCKS:
        assert measured[0].y[clock] * details["tuples_per_s"][clock] == pytest.approx(details["tuples_per_loop"])
    errors = details["loop_s_error"]
    assert errors[MACHINE] == pytest.approx(predicted[1].y[MACHINE] / measured[0].y[MACHINE] - 1)
    # No factors, no prediction on this machine.
    assert all(set(point.y) == {HDD.name} for point in of(points, "HYBRIDJOIN predicted"))


def test_without_calibration_costs_are_predicted_for_the_disk_alone(context: Context) -> None:
    parameters = {**CELL, "x": [1, 2], "measured_x": [2], "shown": "tuples_per_s", "calibrates": False}
    points = run(figure("cost validation", "b", {"MESHJOIN": MESHJOIN}, **parameters), context)
    assert [(point.series, set(point.y)) for point in points] == [
        ("MESHJOIN predicted", {HDD.name}),
        ("MESHJOIN predicted", {HDD.name}),
        ("MESHJOIN measured", CLOCKS),
    ]
    assert points[1].y[HDD.name] == pytest.approx(points[2].y[HDD.name], rel=0.05)


def validation() -> CostValidation:
    cell = rate_cell({**CELL, **MESHJOIN})
    return CostValidation(
        series="MESHJOIN", x=1.0, group="", cell=cell, is_measured=True, shown="loop_s", calibrated=None
    )


def test_work_takes_time_even_if_all_of_it_seems_to_have_been_waiting() -> None:
    steady = SteadyState(
        Work(Metrics(tuples_answered=10, seeks=1, steps=2), elapsed_s=2.0, cpu_s=1.0, waited_s=2.0),
        WarmUp(0, 0.0, True, []),
        MemoryReport(1, {}),
    )
    point = validation().measured(steady, {})
    assert 0 < point.y[MACHINE] < 1
    assert point.y[HDD.name] == pytest.approx(HDD.seek_s / 2)


def test_times_are_those_of_a_machine_as_fast_as_in_calibration() -> None:
    work = Work(Metrics(tuples_answered=10, seeks=1, steps=2), elapsed_s=2.0, cpu_s=1.0, yardstick_s=3e-4)
    steady = SteadyState(work, WarmUp(0, 0.0, True, []), MemoryReport(1, {}))
    point = validation().measured(steady, {}, usual_yardstick_s=1e-4)
    assert point.y[MACHINE] == pytest.approx(2.0 / 3 / 2)
    assert point.y[HDD.name] == pytest.approx(HDD.seek_s / 2)


def test_a_cost_that_is_unknown_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"shows 'miles', which is unknown: use one of loop_s, tuples_per_s"):
        figure("cost validation", "b", {"MESHJOIN": MESHJOIN}, **{**CELL, "x": [1], "shown": "miles"})


# --- two streams ----------------------------------------------------------------------------------------------------


def test_curves_of_two_streams(context: Context) -> None:
    series = {"MJoin": {"setting": "priority+value, purge every 100, no propagation"}, "XJoin": {"setting": "xjoin"}}
    workloads = ["news, ordered", "news, random"]
    points = run(
        figure("two streams", "", series, workloads=workloads, shown="state_tuples", items=200, repeats=1), context
    )
    assert {point.group for point in points} == set(workloads)
    for workload in workloads:
        ends = {point.series: point for point in points if point.group == workload and "total_s" in point.details}
        assert all(1900 < end.x < 2000 for end in ends.values())  # before the streams have ended
        assert ends["MJoin"].y["value"] < ends["XJoin"].y["value"]
        assert ends["XJoin"].details["peak_state_tuples"] > 2000


def test_an_interrupted_run_leaves_a_folder_that_the_next_one_replaces(context: Context, tmp_path: Path) -> None:
    (tmp_path / "growing-cmeshjoin-5000").mkdir()
    (tmp_path / "growing-cmeshjoin-5000" / "rest").write_text("of a run that was stopped")
    parameters = {"rows": 5000, "page_bytes": 4096, "zipf_exponent": 0.0, "memory_share": 0.5}
    measurements = figure(
        "growing table", "", {"c": {"algorithm": "cmeshjoin"}}, **parameters, windows=1, window_scans=1.0
    )
    assert len(run(measurements, context._replace(data_dir=tmp_path))) == 3


# --- the benchmark of the cost models -------------------------------------------------------------------------------

GRID: dict[str, Any] = {**CELL, "rows": [20_000], "zipf_exponent": [0.5], "shown": "tuples_per_s", "advises": True}


@pytest.mark.usefixtures("_calibrated")
def test_what_is_advised_is_measured_beside_every_algorithm(context: Context) -> None:
    measurements = figure(
        "cost validation",
        "memory_share",
        {"MESHJOIN": MESHJOIN, "HYBRIDJOIN": HYBRIDJOIN},
        **{**GRID, "x": [0.5], "calibrates_on_grid": True},
    )
    points = run(measurements, context)
    [calibration] = of(points, "calibration")
    assert set(calibration.details["factors"]) == {"meshjoin"}
    assert {point.group for point in points} == {"", "20,000 rows, skew 0.5"}
    [on_disk], [here] = (of(points, f"advised for {clock} measured") for clock in (HDD.name, MACHINE))
    assert on_disk.details["algorithm"] in ("meshjoin", "hybridjoin")
    best = max(of(points, f"{name} measured")[0].y[HDD.name] for name in ("MESHJOIN", "HYBRIDJOIN"))
    assert on_disk.y[HDD.name] >= 0.8 * best
    assert here.details["algorithm"] == "meshjoin"  # the only one with factors


def test_points_of_the_calibration_do_not_validate_themselves() -> None:
    parameters = {**GRID, "zipf_exponent": [0.3], "x": [0.035], "calibrates_on_grid": True}
    with pytest.raises(InvalidArgument, match=r"skew 0\.3 with memory 0\.035 is where cost factors are measured"):
        figure("cost validation", "memory_share", {"MESHJOIN": MESHJOIN}, **parameters)


def test_advice_that_does_not_work_answers_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_small(*arguments: Any, **options: Any) -> Any:
        raise BudgetTooSmall("no room")

    measurements = figure(
        "cost validation", "memory_share", {"MESHJOIN": MESHJOIN}, **{**GRID, "x": [0.5], "calibrates": False}
    )
    monkeypatch.setattr(OpenCell, "measure", too_small)
    [point] = measurements[-1].run(context)
    assert (point.series, point.y) == (f"advised for {HDD.name} measured", {HDD.name: 0.0})
    assert point.details["skipped"] == "no room"
