"""Runs of figures: kept after every measurement, resumed, shared, and told apart by what they were measured with."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from semistream.bench.figures import runner
from semistream.bench.figures.figure_result import FigureResult, read_figure, write_figure
from semistream.bench.figures.kinds import KINDS
from semistream.bench.figures.measurement import Context, Measurement
from semistream.bench.figures.plot import plot_figure
from semistream.bench.figures.point import MACHINE, Point
from semistream.bench.figures.runner import FigureRun, Progress, run_figure
from semistream.bench.figures.spec import FigureSpec, load_figure
from semistream.bench.provenance import Provenance, collect_provenance
from semistream.core.errors import InvalidArgument
from semistream.cost.disk_profile import HDD


@dataclass
class Measured:
    """What the counted measurements did, and when to interrupt them."""

    keys: list[str] = field(default_factory=list)
    interrupt_at: str | None = None


@dataclass(frozen=True)
class Counted:
    measured: Measured
    x: int

    @property
    def key(self) -> str:
        return f"counted {self.x}"

    @property
    def weight(self) -> float:
        return 1.0

    def run(self, context: Context) -> list[Point]:
        context.report("counting")
        if self.key == self.measured.interrupt_at:
            raise KeyboardInterrupt
        self.measured.keys.append(self.key)
        return [Point("count", self.x, {"value": float(self.x)}, {"seed": context.seed})]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    measured = Measured()

    def counted(spec: FigureSpec, parameters: Mapping[str, Any]) -> list[Measurement]:
        return [Counted(measured, x) for x in parameters["x"]]

    monkeypatch.setitem(KINDS, "counted", counted)
    return measured


def figure(figure_id: str = "X-1", x: tuple[int, ...] = (1, 2, 3)) -> FigureSpec:
    return replace(load_figure("S0-5f"), id=figure_id, kind="counted", scales={"ci": {"x": list(x)}})


def test_an_interrupted_run_goes_on_where_it_stopped(measured: Measured, tmp_path: Path) -> None:
    path = tmp_path / "figures" / "result.json"
    run = FigureRun(tmp_path, keep=lambda result: write_figure(result, path))
    measured.interrupt_at = "counted 3"
    with pytest.raises(KeyboardInterrupt):
        run_figure(figure(), "ci", run)
    unfinished = read_figure(path)
    assert not unfinished.is_complete
    assert [done.key for done in unfinished.finished] == ["counted 1", "counted 2"]
    measured.interrupt_at = None
    # The measurements that are shared are gone: the result file alone says what is finished.
    empty = FigureRun(tmp_path / "empty", keep=run.keep)
    result = run_figure(figure(), "ci", empty, resumed=unfinished)
    assert measured.keys == ["counted 1", "counted 2", "counted 3"]
    assert result.is_complete
    assert [point.x for point in result.points] == [1, 2, 3]
    assert read_figure(path) == result


def test_figures_share_their_measurements(measured: Measured, tmp_path: Path) -> None:
    run_figure(figure("X-1", (1, 2)), "ci", FigureRun(tmp_path))
    other = run_figure(figure("X-2", (2, 3)), "ci", FigureRun(tmp_path))
    assert measured.keys == ["counted 1", "counted 2", "counted 3"]
    assert [point.x for point in other.points] == [2, 3]


def test_another_seed_or_code_shares_nothing(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_figure(figure(x=(1,)), "ci", FigureRun(tmp_path))
    other = run_figure(figure(x=(1,)), "ci", FigureRun(tmp_path, seed=5))
    assert other.points[0].details == {"seed": 5}

    def other_code(seed: int) -> Provenance:
        return replace(collect_provenance(seed), commit="0" * 40, commit_is_clean=True)

    monkeypatch.setattr(runner, "collect_provenance", other_code)
    run_figure(figure(x=(1,)), "ci", FigureRun(tmp_path))
    assert measured.keys == ["counted 1"] * 3


def test_measuring_again_leaves_earlier_runs_aside_but_shares_within_the_run(
    measured: Measured, tmp_path: Path
) -> None:
    run_figure(figure("X-1", (1, 2)), "ci", FigureRun(tmp_path))
    again = FigureRun(tmp_path, measure_again=True)
    store = again.store()
    run_figure(figure("X-1", (1, 2)), "ci", again, store=store)
    run_figure(figure("X-2", (2, 3)), "ci", again, store=store)
    assert measured.keys == ["counted 1", "counted 2"] * 2 + ["counted 3"]


def test_a_damaged_measurement_is_measured_again(measured: Measured, tmp_path: Path) -> None:
    run_figure(figure(x=(1,)), "ci", FigureRun(tmp_path))
    [kept] = (tmp_path / "measurements").iterdir()
    kept.write_text("{")
    run_figure(figure(x=(1,)), "ci", FigureRun(tmp_path))
    assert measured.keys == ["counted 1"] * 2


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda result: replace(result, figure="X-2"), "figure: X-2, not X-1"),
        (lambda result: replace(result, scale="paper"), "scale: paper, not ci"),
        (lambda result: replace(result, spec={**result.spec, "title": "?"}), "spec"),
        (lambda result: replace(result, provenance=replace(result.provenance, seed=9)), "seed: 9, not 0"),
        (lambda result: replace(result, provenance=replace(result.provenance, commit="f" * 40)), "code: ffff"),
    ],
)
def test_only_a_result_of_the_same_run_is_gone_on_with(
    measured: Measured, tmp_path: Path, changed: Any, what: str
) -> None:
    result = run_figure(figure(), "ci", FigureRun(tmp_path))
    with pytest.raises(InvalidArgument, match=f"another {what}.*--overwrite"):
        run_figure(figure(), "ci", FigureRun(tmp_path), resumed=changed(result))


def test_the_rest_is_estimated_by_what_is_done(measured: Measured, tmp_path: Path) -> None:
    told: list[Progress] = []
    run_figure(figure(), "ci", FigureRun(tmp_path, tell=told.append))
    shares = [progress.share_done for progress in told if progress.message.endswith("counting")]
    assert shares == pytest.approx([0, 1 / 3, 2 / 3])
    assert told[0].left_s is None
    assert told[-1].left_s is not None
    assert told[0].message.startswith("X-1, 1 of 3")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def rates(data_dir: Path) -> FigureResult:
    return run_figure(load_figure("S0-5a"), "ci", FigureRun(data_dir))


def test_rates_are_those_of_both_clocks(rates: FigureResult) -> None:
    assert [(point.series, point.x) for point in rates.points] == [
        ("MESHJOIN", 10.0),
        ("SSBJ", 10.0),
        ("MESHJOIN", 40.0),
        ("SSBJ", 40.0),
    ]
    for point in rates.points:
        assert set(point.y) == {MACHINE, HDD.name}
        details = point.details
        worked_s = max(details["elapsed_s"] - details["waited_s"], details["cpu_s"] / (os.cpu_count() or 1))
        assert point.y[MACHINE] == pytest.approx(details["tuples"] / worked_s)
        io_s = HDD.io_s(details["seeks"], details["bytes_read"])
        assert point.y[HDD.name] == pytest.approx(details["tuples"] / io_s)
        assert details["peak_bytes"] <= details["budget_bytes"]
        assert details["budget_bytes"] == int(details["table_bytes"] * point.x / 100)
        assert details["workload"].startswith("repeated, 30,000 rows")


def test_a_figure_shows_something_else_of_the_same_measurements(
    rates: FigureResult, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any) -> Any:
        pytest.fail("measured again")

    monkeypatch.setattr(runner, "_measure", never)
    shares = run_figure(load_figure("S0-5f"), "ci", FigureRun(data_dir))
    of_ssbj = [point for point in rates.points if point.series == "SSBJ"]
    assert [(point.x, point.y) for point in shares.points] == [
        (point.x, {"value": point.details["cache_share"]}) for point in of_ssbj
    ]
    assert all(0 < point.y["value"] < 1 for point in shares.points)


def test_a_budget_that_is_too_small_leaves_the_point_out(data_dir: Path, tmp_path: Path) -> None:
    spec = load_figure("S0-5a")
    spec = replace(spec, scales={"ci": {**spec.parameters("ci"), "x": [0.001, 0.4]}})
    result = run_figure(spec, "ci", FigureRun(data_dir))
    assert [bool(point.y) for point in result.points] == [False, False, True, True]
    assert "too small" in result.points[0].details["skipped"]
    plot_figure(result, tmp_path / "picture.png")


def test_groups_and_clocks_are_drawn_beside_each_other(data_dir: Path, tmp_path: Path) -> None:
    result = run_figure(load_figure("S1-6"), "ci", FigureRun(data_dir))
    assert [(point.group, set(point.y)) for point in result.points[:2]] == [
        ("service rate", {MACHINE, HDD.name}),
        ("I/O cost", {HDD.name}),
    ]
    costs = [point.y[HDD.name] for point in result.points if point.group == "I/O cost"]
    assert 1000 * HDD.seek_s < costs[0] < costs[1]
    plot_figure(result, tmp_path / "picture.svg")
    picture = (tmp_path / "picture.svg").read_text()
    assert picture.count("<!-- service rate: ") == 2
    assert picture.count("<!-- I/O cost: ") == 1
    assert "milliseconds per load" in picture


def test_a_result_without_points_is_not_drawn(rates: FigureResult, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="nothing to draw"):
        plot_figure(replace(rates, finished=()), tmp_path / "picture.png")
    with pytest.raises(InvalidArgument, match="cannot write a picture"):
        plot_figure(rates, tmp_path / "picture.pony")
