"""Runs: kept after every measurement, resumed, shared, and told apart by what they were measured with."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from semistream.bench.framework import provenance, runner
from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.provenance import Provenance, collect_provenance
from semistream.bench.framework.result_file import Result, read_result, write_result
from semistream.bench.framework.runner import KINDS, Progress, Run, run_spec
from semistream.bench.framework.spec import Spec, load_spec
from semistream.core.errors import InvalidArgument
from semistream.cost.clock import HDD


@dataclass
class Measured:
    """What the counted measurements did, and when to interrupt them."""

    numbers: list[int] = field(default_factory=list)
    interrupt_at: int | None = None


MEASURED = Measured()


@dataclass(frozen=True)
class Counted:
    x: int
    weight = 1.0

    @property
    def name(self) -> str:
        return f"number {self.x}"

    def run(self, context: Context) -> list[Point]:
        context.report("counting")
        if self.x == MEASURED.interrupt_at:
            raise KeyboardInterrupt
        MEASURED.numbers.append(self.x)
        return [Point("count", self.x, {"value": float(self.x)}, {"seed": context.seed})]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    def counted(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
        return [Counted(x) for x in parameters["x"]]

    module = ModuleType("counted")
    module.counted_measurements = counted  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "semistream.bench.measurements.counted", module)
    monkeypatch.setitem(KINDS, "counted", "counted:counted_measurements")
    monkeypatch.setattr(sys.modules[__name__], "MEASURED", Measured())
    return MEASURED


def figure(figure_id: str = "X-1", x: tuple[int, ...] = (1, 2, 3)) -> Spec:
    return replace(load_spec("S0-5f"), id=figure_id, kind="counted", scales={"quick": {"x": list(x)}})


def test_an_interrupted_run_goes_on_where_it_stopped(measured: Measured, tmp_path: Path) -> None:
    path = tmp_path / "figures" / "result.json"
    run = Run(tmp_path, keep=lambda result: write_result(result, path))
    measured.interrupt_at = 3
    with pytest.raises(KeyboardInterrupt):
        run_spec(figure(), "quick", run)
    unfinished = read_result(path)
    assert not unfinished.is_complete
    assert [done.name for done in unfinished.finished] == ["number 1", "number 2"]
    measured.interrupt_at = None
    # The measurements that are shared are gone: the result file alone says what is finished.
    empty = Run(tmp_path / "empty", keep=run.keep)
    result = run_spec(figure(), "quick", empty, resumed=unfinished)
    assert measured.numbers == [1, 2, 3]
    assert result.is_complete
    assert [point.x for point in result.points] == [1, 2, 3]
    assert read_result(path) == result


def test_figures_share_their_measurements(measured: Measured, tmp_path: Path) -> None:
    run_spec(figure("X-1", (1, 2)), "quick", Run(tmp_path))
    other = run_spec(figure("X-2", (2, 3)), "quick", Run(tmp_path))
    assert measured.numbers == [1, 2, 3]
    assert [point.x for point in other.points] == [2, 3]


def test_another_seed_or_code_shares_nothing(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_spec(figure(x=(1,)), "quick", Run(tmp_path))
    other = run_spec(figure(x=(1,)), "quick", Run(tmp_path, seed=5))
    assert other.points[0].details == {"seed": 5}

    def other_code(seed: int) -> Provenance:
        return replace(collect_provenance(seed), commit="0" * 40, commit_is_clean=True)

    monkeypatch.setattr(runner, "collect_provenance", other_code)
    run_spec(figure(x=(1,)), "quick", Run(tmp_path))
    assert measured.numbers == [1] * 3


def test_one_state_of_changes_shares_nothing_with_another(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(("first", "first", "second", "second", "second", "second"))

    def changed_code(seed: int) -> Provenance:
        return replace(collect_provenance(seed), commit="0" * 40, commit_is_clean=False, changes=next(states))

    monkeypatch.setattr(runner, "collect_provenance", changed_code)
    first = run_spec(figure(x=(1,)), "quick", Run(tmp_path))
    run_spec(figure(x=(1,)), "quick", Run(tmp_path))
    assert measured.numbers == [1] * 2
    with pytest.raises(InvalidArgument, match="another code"):
        run_spec(figure(x=(1,)), "quick", Run(tmp_path), resumed=first)


def test_changes_are_told_apart_by_what_is_in_the_package(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("a = 1")
    before = provenance._digest(tmp_path)
    (tmp_path / "__pycache__" / "kernels").mkdir(parents=True)
    (tmp_path / "__pycache__" / "kernels" / "module.nbi").write_text("compiled")
    assert provenance._digest(tmp_path) == before
    (tmp_path / "module.py").write_text("a = 2")
    assert provenance._digest(tmp_path) != before


def test_measuring_again_leaves_earlier_runs_aside_but_shares_within_the_run(
    measured: Measured, tmp_path: Path
) -> None:
    run_spec(figure("X-1", (1, 2)), "quick", Run(tmp_path))
    again = Run(tmp_path, measure_again=True)
    store = again.store()
    run_spec(figure("X-1", (1, 2)), "quick", again, store=store)
    run_spec(figure("X-2", (2, 3)), "quick", again, store=store)
    assert measured.numbers == [1, 2] * 2 + [3]


def test_a_damaged_measurement_is_measured_again(measured: Measured, tmp_path: Path) -> None:
    run_spec(figure(x=(1,)), "quick", Run(tmp_path))
    [kept] = (tmp_path / "measurements").iterdir()
    kept.write_text("{")
    run_spec(figure(x=(1,)), "quick", Run(tmp_path))
    assert measured.numbers == [1] * 2


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda result: replace(result, benchmark="X-2"), "benchmark: X-2, not X-1"),
        (lambda result: replace(result, scale="paper"), "scale: paper, not quick"),
        (lambda result: replace(result, spec={**result.spec, "title": "?"}), "spec"),
        (lambda result: replace(result, provenance=replace(result.provenance, seed=9)), "seed: 9, not 0"),
        (lambda result: replace(result, provenance=replace(result.provenance, commit="f" * 40)), "code: ffff"),
        (lambda result: replace(result, provenance=replace(result.provenance, cpu="6502")), "machine: 6502"),
    ],
)
def test_only_a_result_of_the_same_run_is_gone_on_with(
    measured: Measured, tmp_path: Path, changed: Any, what: str
) -> None:
    result = run_spec(figure(), "quick", Run(tmp_path))
    with pytest.raises(InvalidArgument, match=f"another {what}.*--overwrite"):
        run_spec(figure(), "quick", Run(tmp_path), resumed=changed(result))


def test_the_rest_is_estimated_by_what_is_done(measured: Measured, tmp_path: Path) -> None:
    told: list[Progress] = []
    run_spec(figure(), "quick", Run(tmp_path, tell=told.append))
    shares = [progress.share_done for progress in told if progress.message.endswith("counting")]
    assert shares == pytest.approx([0, 1 / 3, 2 / 3])
    assert told[0].left_s is None
    assert told[-1].left_s is not None
    assert told[0].message.startswith("X-1, 1 of 3")


def test_only_what_is_named_is_measured_and_the_rest_can_follow(measured: Measured, tmp_path: Path) -> None:
    some = run_spec(figure(), "quick", Run(tmp_path, only=("NUMBER 2",)))
    assert measured.numbers == [2]
    assert not some.is_complete
    rest = run_spec(figure(), "quick", Run(tmp_path), resumed=some)
    assert measured.numbers == [2, 1, 3]
    assert [point.x for point in rest.points] == [1, 2, 3]
    with pytest.raises(InvalidArgument, match="--only 7 names no measurement: use a part of one of number 1; number 2"):
        run_spec(figure(), "quick", Run(tmp_path, only=("7",)))


LOG: list[str] = []


@dataclass(frozen=True)
class Sharing:
    """Uses a resource and a value that its neighbours use as well."""

    x: int
    name = "sharing"
    weight = 1.0

    def run(self, context: Context) -> list[Point]:
        @contextmanager
        def session() -> Iterator[str]:
            LOG.append("opened")
            try:
                yield "session"
            finally:
                LOG.append("closed")

        def work_out() -> int:
            LOG.append("worked out")
            return 7

        assert context.resource("session", session) == "session"
        value = context.remembered("seven", work_out)
        if self.x == MEASURED.interrupt_at:
            raise KeyboardInterrupt
        LOG.append(f"measured {self.x}")
        return [Point("shared", self.x, {"value": float(value)})]


def test_measurements_share_resources_for_a_run_and_values_for_ever(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOG.clear()
    monkeypatch.setattr(runner, "measurements_of", lambda spec, scale: [Sharing(1), Sharing(2), Sharing(3)])
    measured.interrupt_at = 2
    with pytest.raises(KeyboardInterrupt):
        run_spec(figure(), "quick", Run(tmp_path))
    assert LOG == ["opened", "worked out", "measured 1", "closed"]
    measured.interrupt_at = None
    run_spec(figure(), "quick", Run(tmp_path))
    assert LOG[4:] == ["opened", "measured 2", "measured 3", "closed"]
    run_spec(figure(), "quick", Run(tmp_path, measure_again=True))
    assert LOG[8:] == ["opened", "worked out", "measured 1", "measured 2", "measured 3", "closed"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def rates(data_dir: Path) -> Result:
    return run_spec(load_spec("S0-5a"), "quick", Run(data_dir))


def test_rates_are_those_of_both_clocks(rates: Result) -> None:
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
    rates: Result, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any) -> Any:
        pytest.fail("measured again")

    monkeypatch.setattr(runner._Measuring, "measure", never)
    shares = run_spec(load_spec("S0-5f"), "quick", Run(data_dir))
    of_ssbj = [point for point in rates.points if point.series == "SSBJ"]
    assert [(point.x, point.y) for point in shares.points] == [
        (point.x, {"value": point.details["cache_share"]}) for point in of_ssbj
    ]
    assert all(0 < point.y["value"] < 1 for point in shares.points)


def test_a_budget_that_is_too_small_leaves_the_point_out(data_dir: Path, tmp_path: Path) -> None:
    spec = load_spec("S0-5a")
    spec = replace(spec, scales={"quick": {**spec.parameters("quick"), "x": [0.001, 0.4]}})
    result = run_spec(spec, "quick", Run(data_dir))
    assert [bool(point.y) for point in result.points] == [False, False, True, True]
    assert "too small" in result.points[0].details["skipped"]
    plot_result(result, tmp_path / "picture.png")


@pytest.mark.slow
def test_groups_and_clocks_are_drawn_beside_each_other(data_dir: Path, tmp_path: Path) -> None:
    result = run_spec(load_spec("S1-6"), "quick", Run(data_dir))
    assert [(point.group, set(point.y)) for point in result.points[:2]] == [
        ("service rate", {MACHINE, HDD.name}),
        ("I/O cost", {HDD.name}),
    ]
    costs = [point.y[HDD.name] for point in result.points if point.group == "I/O cost"]
    assert 1000 * HDD.seek_s < costs[0] < costs[1]
    plot_result(result, tmp_path / "picture.svg")
    picture = (tmp_path / "picture.svg").read_text()
    assert picture.count("<!-- service rate: ") == 2
    assert picture.count("<!-- I/O cost: ") == 1
    assert "milliseconds per load" in picture


def test_a_result_without_points_is_not_drawn(rates: Result, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="nothing to draw"):
        plot_result(replace(rates, finished=()), tmp_path / "picture.png")
    with pytest.raises(InvalidArgument, match="cannot write a picture"):
        plot_result(rates, tmp_path / "picture.pony")
