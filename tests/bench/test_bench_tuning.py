"""The benchmark of dynamic tuning: its arrivals, its memory over time, its file and its picture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semistream.bench.plot import plot_result
from semistream.bench.result_file import BenchResult, read_result, write_result
from semistream.bench.tuning import TuningSpec, run_tuning
from semistream.bench.tuning.bursty_part import BurstyPart
from semistream.core.errors import InvalidArgument

SPEC = replace(TuningSpec.quick(), rows=8000, page_bytes=16_384, peak_share=0.4, slow_ticks=2, fast_ticks=16)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BenchResult:
    return run_tuning(SPEC, tmp_path_factory.mktemp("tuning"))


def _part(**changes: Any) -> BurstyPart:
    values = {"peak_tuples": 5000.0, "scan_s": 2.0, "tick_scans": 3.0, "ticks": 16, "burstiness": 0.6, "seed": 4}
    return BurstyPart.around_peak(**{**values, **changes})


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


def test_both_joins_answer_the_same_tuples_on_the_same_arrivals(result: BenchResult) -> None:
    assert [(cell["bursts"], cell["join"]) for cell in result.cells] == [
        ("slow", "fixed"),
        ("slow", "self-tuned"),
        ("fast", "fixed"),
        ("fast", "self-tuned"),
    ]
    for cell in result.cells:
        assert cell["results"] == cell["num_tuples"] > 0
        assert len(cell["at_s"]) == len(cell["memory_bytes"]) == len(cell["arrivals_per_s"])
        assert max(cell["memory_bytes"]) == cell["peak_bytes"] >= cell["mean_bytes"] > 0


def test_the_fixed_join_is_the_least_that_keeps_up(result: BenchResult) -> None:
    details = result.entries[0].details
    assert details["too_small_for_the_peak_bytes"] < details["fixed_memory_bytes"]
    assert details["fixed_memory_bytes"] <= 1.02 * details["too_small_for_the_peak_bytes"]
    assert details["fixed_longest_wait_s"] <= details["most_wait_s"]


def test_the_self_tuned_join_is_retuned_and_takes_less_on_average(result: BenchResult) -> None:
    tuned = next(cell for cell in result.cells if cell["join"] == "self-tuned")
    fixed = next(cell for cell in result.cells if cell["join"] == "fixed")
    assert tuned["retunings"] > 5
    assert fixed["retunings"] == 0
    assert tuned["mean_bytes"] < fixed["mean_bytes"]


def test_small_sizes_get_no_verdict(result: BenchResult) -> None:
    assert len(result.entries) == 6
    assert all(entry.met is None for entry in result.entries)
    assert TuningSpec().is_default_size


def test_the_file_is_read_back_and_drawn(result: BenchResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_result(result, tmp_path / "tuning.json")
    plot_result(read_result(tmp_path / "tuning.json"), tmp_path / "tuning.png")
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
def test_bad_specs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        replace(TuningSpec(), **changes)
