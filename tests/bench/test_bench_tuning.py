"""The benchmark of dynamic tuning: its arrivals, its memory over time, and its targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semistream.bench.framework.measurement import Point, key_of
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.result_file import Result, read_result
from semistream.bench.framework.runner import Run, measurements_of, run_spec
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import judge_targets
from semistream.bench.measurements.cost.bursty_part import BurstyPart
from semistream.core.errors import InvalidArgument

SPEC = load_spec("tuning").with_parameters(
    "quick", {"rows": 8000, "page_bytes": 16_384, "peak_share": 0.4, "slow_ticks": 2, "fast_ticks": 16}
)
RESULTS = Path(__file__).parents[2] / "docs" / "results"
_PLACES = [(group, join) for group in ("slow bursts", "fast bursts") for join in ("fixed", "self-tuned")]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run_spec(SPEC, "quick", Run(tmp_path_factory.mktemp("tuning")))


def _part(**changes: Any) -> BurstyPart:
    values = {"peak_tuples": 5000.0, "scan_s": 2.0, "tick_scans": 3.0, "ticks": 16, "burstiness": 0.6, "seed": 4}
    return BurstyPart.around_peak(**{**values, **changes})


def _line(result: Result, group: str, join: str) -> list[Point]:
    return [point for point in result.points if (point.group, point.series) == (group, join)]


class TestBurstyPart:
    @pytest.mark.parametrize("tick_scans", [3.0, 0.125])
    def test_the_busiest_scan_has_as_many_tuples_as_asked_for(self, tick_scans: float) -> None:
        part = _part(tick_scans=tick_scans)
        times = part.times_s(0, part.num_tuples)
        in_a_scan = np.searchsorted(times, times + 2.0) - np.arange(times.size)
        assert in_a_scan.max() == pytest.approx(5000, rel=0.01)

    def test_times_begin_and_end_with_the_part(self) -> None:
        part = _part()
        times = part.times_s(0, part.num_tuples)
        assert times[0] >= 0
        assert times[-1] <= part.length_s
        assert part.times_s(7, 3).tolist() == times[7:10].tolist()

    def test_it_has_the_busiest_tick_of_the_period(self) -> None:
        part = _part()
        counts = np.diff(part.bursts.arrived_before(np.arange(1025)))
        assert part.first_tick <= int(np.argmax(counts)) < part.first_tick + part.ticks

    def test_the_ticks_around_the_peak_have_the_peak(self) -> None:
        for tick_scans in (3.0, 0.125):
            part = _part(tick_scans=tick_scans)
            assert part.busiest_ticks().peak_tuples() == pytest.approx(part.peak_tuples(), rel=0.01)


def test_both_joins_answer_the_same_tuples_on_the_same_arrivals(result: Result) -> None:
    assert list(dict.fromkeys((point.group, point.series) for point in result.points)) == _PLACES
    for place in _PLACES:
        line = _line(result, *place)
        whole = line[0].details
        assert whole["results"] == whole["num_tuples"] > 0
        assert max(point.y["memory"] for point in line) * 2**20 == whole["peak_bytes"] >= whole["mean_bytes"] > 0
        assert max(point.y["waiting"] for point in line) == whole["most_waiting_outside"]
        assert all("peak_bytes" not in point.details for point in line[1:])


def test_the_fixed_join_is_the_least_that_keeps_up(result: Result) -> None:
    for group in ("slow bursts", "fast bursts"):
        whole = _line(result, group, "fixed")[0].details
        assert whole["too_small_for_the_peak_bytes"] < whole["budget_bytes"]
        assert whole["budget_bytes"] <= 1.02 * whole["too_small_for_the_peak_bytes"]
        assert whole["longest_wait_s"] <= whole["most_wait_s"]


def test_the_self_tuned_join_is_retuned_and_takes_less_on_average(result: Result) -> None:
    fixed, tuned = (_line(result, "slow bursts", join)[0].details for join in ("fixed", "self-tuned"))
    assert tuned["retunings"] > 5
    assert fixed["retunings"] == 0
    assert tuned["mean_bytes"] < fixed["mean_bytes"]


def test_targets_speak_of_the_whole_replay_and_small_sizes_get_no_verdict(result: Result) -> None:
    lines = judge_targets(result)
    assert [line.where for line in lines] == ["slow bursts", "fast bursts"] * 3
    fixed, tuned = (_line(result, "fast bursts", join)[0].details for join in ("fixed", "self-tuned"))
    assert [line.value for line in lines if line.where == "fast bursts"] == [
        tuned["peak_bytes"] / fixed["peak_bytes"],
        tuned["mean_bytes"] / fixed["peak_bytes"],
        tuned["longest_wait_s"] / tuned["most_wait_s"],
    ]
    assert all(line.met is None for line in lines)


def test_it_is_drawn(result: Result, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot_result(result, tmp_path / "tuning.png")
    assert (tmp_path / "tuning.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 10}, "rows=10 must be at least 1000"),
        ({"slow_ticks": 3}, "slow_ticks=3 must be a power of 2"),
        ({"fast_ticks": 2048}, "fast_ticks=2048 must be a power of 2"),
        ({"peak_share": 0.0}, "peak_share=0.0 must be above 0"),
        ({"budget_factor": 1.0}, "budget_factor=1.0 must be above 1"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        measurements_of(SPEC.with_parameters("quick", changes), "quick")


def test_time_scales_differ_in_their_ticks_alone() -> None:
    slow, fast = measurements_of(load_spec("tuning"), "full")
    assert (slow.name, fast.name) == ("slow bursts", "fast bursts")
    assert key_of(slow) != key_of(fast)
    renamed = key_of(slow).replace('"slow"', '"fast"').replace('"ticks": 16', '"ticks": 256')
    assert renamed.replace('"tick_scans": 4.0', '"tick_scans": 0.125') == key_of(fast)


def test_the_measured_result_meets_its_targets() -> None:
    lines = judge_targets(read_result(RESULTS / "tuning.json"))
    assert [line.met for line in lines] == [True] * 6
    assert [round(line.value or 0.0, 4) for line in lines] == [1.0034, 1.099, 0.176, 0.1278, 0.1441, 0.1441]
