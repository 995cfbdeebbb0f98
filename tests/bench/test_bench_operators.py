"""The mechanics of the benchmark of the operators at a tiny scale; no test asserts a time."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semistream.bench.operators import QUICK, OperatorsSpec, run_operators, shedding
from semistream.bench.operators import run as operators_run
from semistream.bench.operators.cells import Cell, CellResult, DiskClock, Layout, WarmUp, cells_of
from semistream.bench.operators.measure import measure_cell
from semistream.bench.operators.verdicts import entries_of
from semistream.bench.plot import plot_result
from semistream.bench.result_file import BenchResult, Entry, read_result, write_result
from semistream.bench.staged import staged_table
from semistream.core.errors import InvalidArgument
from semistream.cost.disk_profile import HDD, PROFILES
from semistream.operators import algorithm, algorithm_names

SPEC = OperatorsSpec(
    rows=(20_000,),
    skews=(0.0, 1.0),
    memory_shares=(0.4,),
    page_bytes=4096,
    measured_rows=20_000,
    lookup_tuples=200,
    lookup_backlog_tuples=1024,
    most_warm_up_scans=3,
    most_warm_up_tuples=700,
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


@pytest.fixture(scope="module")
def kept() -> list[BenchResult]:
    return []


@pytest.fixture(scope="module")
def result(data_dir: Path, kept: list[BenchResult]) -> BenchResult:
    said: list[str] = []
    result = run_operators(SPEC, data_dir, said.append, kept.append)
    assert any("left: meshjoin on heap, 20,000 rows, skew 0, memory 40% of R" in line for line in said)
    return result


@pytest.fixture(scope="module")
def cells(result: BenchResult) -> list[CellResult]:
    return [CellResult.from_dict(content) for content in result.cells]


def test_every_algorithm_is_measured_at_every_point_and_ssbj_with_both_disk_phases(cells: list[CellResult]) -> None:
    variants = {(name, algorithm(name).layouts[0]) for name in algorithm_names()} | {("ssbj", "clustered")}
    for skew in SPEC.skews:
        found = [cell.cell for cell in cells if cell.cell.skew == skew]
        assert {(cell.algorithm, cell.layout) for cell in found} == variants
        assert len(found) == len(variants)


def test_figures_fit_together(cells: list[CellResult]) -> None:
    for found in cells:
        assert found.skipped is None
        assert found.tuples > 0
        worked_s = max(found.elapsed_s - found.waited_s, found.cpu_s / (os.cpu_count() or 1))
        assert found.tuples_per_s == pytest.approx(found.tuples / worked_s)
        assert found.pages_per_1000_tuples == pytest.approx(1000 * found.pages_read / found.tuples)
        assert found.cpu_us_per_tuple == pytest.approx(1e6 * found.cpu_s / found.tuples)
        assert 0 <= found.cache_share <= 1
        assert found.peak_components is not None
        assert sum(found.peak_components.values()) == found.peak_bytes <= found.budget_bytes
        assert 0 < found.seeks <= found.pages_read
        clock = found.disk(HDD.name)
        assert clock.io_s == pytest.approx(found.seeks * HDD.seek_s + found.bytes_read / HDD.bytes_per_s)
        assert clock.tuples_per_s == pytest.approx(found.tuples / clock.io_s)
        assert clock.tuples_per_s_with_cpu < clock.tuples_per_s
        assert set(found.disks or ()) == {profile.name for profile in PROFILES}


def test_times_per_tuple_are_waiting_and_processing(cells: list[CellResult]) -> None:
    for found in cells:
        times = found.times
        assert times is not None
        assert times.arrivals_per_s == pytest.approx(0.8 * found.disk(HDD.name).tuples_per_s)
        assert times.in_system_s > 0
        if times.waiting_s is not None and times.processing_s is not None:
            assert times.waiting_s + times.processing_s == pytest.approx(times.in_system_s)


def test_meshjoin_scans_whole_tables_and_seeks_only_to_their_start(cells: list[CellResult]) -> None:
    for found in cells:
        if found.cell.algorithm == "meshjoin":
            assert found.scans == pytest.approx(1, abs=0.2)
            assert found.seeks <= 2
            assert found.times is not None
            assert found.times.processing_s is not None
            # A tuple stays for one scan, whatever the arrival rate.
            scan_s = HDD.io_s(1, round(found.bytes_read / found.scans))
            assert found.times.processing_s == pytest.approx(scan_s, rel=0.25)


def test_a_lookup_seeks_for_nearly_every_page(cells: list[CellResult]) -> None:
    found = next(found for found in cells if found.cell.algorithm == "inlj")
    assert found.seeks > 0.8 * found.pages_read


def test_the_result_is_kept_after_every_cell(result: BenchResult, kept: list[BenchResult]) -> None:
    assert [len(partial.cells) for partial in kept] == list(range(1, len(result.cells) + 1))
    assert kept[-1].cells == result.cells


def test_finished_cells_are_not_measured_again(
    result: BenchResult, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = replace(result, cells=result.cells[:-1])
    write_result(unfinished, tmp_path / "unfinished.json")
    measured: list[Cell] = []

    def counting(spec: OperatorsSpec, cell: Cell, *rest: Any) -> CellResult:
        measured.append(cell)
        return measure_cell(spec, cell, *rest)

    monkeypatch.setattr(operators_run, "measure_cell", counting)
    resumed = run_operators(SPEC, data_dir, resumed=read_result(tmp_path / "unfinished.json"))
    assert [CellResult.from_dict(result.cells[-1]).cell] == measured
    assert resumed.cells[:-1] == result.cells[:-1]


def test_cells_of_another_commit_are_measured_again_and_other_settings_refused(
    result: BenchResult, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tuple({**cell, "commit": "0" * 40} for cell in result.cells)
    calls: list[Cell] = []

    def fake(spec: OperatorsSpec, cell: Cell, *_: object) -> CellResult:
        calls.append(cell)
        return CellResult(cell, None, 0, skipped="fake")

    monkeypatch.setattr(operators_run, "measure_cell", fake)
    run_operators(SPEC, data_dir, resumed=replace(result, cells=old))
    assert len(calls) == len(old)
    with pytest.raises(InvalidArgument, match=r"other lookup_tuples, seed: start a new one"):
        run_operators(replace(SPEC, seed=5, lookup_tuples=201), data_dir, resumed=result)
    with pytest.raises(InvalidArgument, match="'micro'"):
        run_operators(SPEC, data_dir, resumed=replace(result, benchmark="micro"))


def test_a_budget_that_is_too_small_is_a_cell_without_figures(data_dir: Path, tmp_path: Path) -> None:
    spec = replace(SPEC, memory_shares=(0.001, 0.4), skews=(1.0,), algorithms=("meshjoin",))
    result = run_operators(spec, data_dir)
    skipped = [cell["skipped"] for cell in result.cells]
    assert "too small" in skipped[0]
    assert skipped[-1] is None
    plot_result(result, tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("name", "layout", "windows"),
    [("cmeshjoin", "heap", 6), ("ssbj", "heap", 2), ("chybridjoin", "clustered", 6), ("cinlj", "clustered", 3)],
)
def test_warm_up_ends_after_counted_work_whatever_the_time(
    data_dir: Path, name: str, layout: Layout, windows: int
) -> None:
    table = staged_table(data_dir, rows=20_000, layout=layout, page_bytes=4096, seed=0, progress=lambda _: None)
    cell = Cell(20_000, 1.0, 0.4, name, layout)
    # Never steady: work alone ends it. Look-ups go on for 100, 200 and 400 tuples.
    spec = replace(SPEC, share_tolerance=0.0, io_tolerance=0.0, most_warm_up_scans=6, most_warm_up_tuples=700)
    warm_up = measure_cell(spec, cell, table, None).warm_up
    assert warm_up is not None
    assert not warm_up.is_steady
    assert len(warm_up.cache_shares) == windows


def test_a_cell_that_time_cut_short_is_not_steady(data_dir: Path) -> None:
    table = staged_table(data_dir, rows=20_000, layout="heap", page_bytes=4096, seed=0, progress=lambda _: None)
    spec = replace(SPEC, share_tolerance=1.0, io_tolerance=1e9, most_warm_up_s=0.0)
    warm_up = measure_cell(spec, Cell(20_000, 0.0, 0.4, "meshjoin", "heap"), table, None).warm_up
    assert warm_up is not None
    assert not warm_up.is_steady


def test_cells_survive_their_file_and_are_drawn(result: BenchResult, tmp_path: Path) -> None:
    write_result(result, tmp_path / "result.json")
    stored = read_result(tmp_path / "result.json")
    assert [CellResult.from_dict(cell) for cell in stored.cells] == [CellResult.from_dict(c) for c in result.cells]
    plot_result(stored, tmp_path / "rates.svg")
    picture = (tmp_path / "rates.svg").read_text()
    assert picture.count("axes_") >= 4 + bool(result.entries)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"rows": (10,)}, "rows"),
        ({"algorithms": ("magic",)}, "'magic'"),
        ({"skews": ()}, "skews is empty"),
        ({"skews": (-1.0,)}, "skews"),
        ({"memory_shares": (1.5,)}, "memory_shares"),
        ({"arrival_share": 1.0}, "arrival_share"),
        ({"lookup_tuples": 0}, "lookup_tuples"),
        ({"most_warm_up_scans": 0}, "most_warm_up_scans"),
    ],
)
def test_the_spec_is_checked(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        OperatorsSpec(**arguments)


def test_only_the_default_conditions_have_the_size_of_the_targets() -> None:
    assert OperatorsSpec(seed=3, skews=(1.0,)).is_target_size(2_000_000)
    assert not OperatorsSpec().is_target_size(3_000_000)
    assert not QUICK.is_target_size(2_000_000)


def _cell(name: str, layout: Layout = "heap", share: float = 0.05, skew: float = 1.0) -> Cell:
    return Cell(2_000_000, skew, share, name, layout)


def _found(cell: Cell, rate: float, cpu_us: float = 1.0) -> CellResult:
    clock = {HDD.name: DiskClock(1.0, rate, rate / 2)}
    warm_up = WarmUp(1, 1.0, True, [0.0])
    return CellResult(cell, None, 1000, tuples_per_s=1.0, cpu_us_per_tuple=cpu_us, disks=clock, warm_up=warm_up)


def _entries(*results: CellResult) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries_of(OperatorsSpec(), results)}


def test_rates_are_compared_on_the_same_table_at_the_points_of_the_targets() -> None:
    entries = _entries(
        _found(_cell("meshjoin"), 100),
        _found(_cell("cmeshjoin"), 290),
        _found(_cell("ssbj"), 400),
        _found(_cell("hybridjoin", "clustered"), 50),
        _found(_cell("chybridjoin", "clustered"), 110),
        _found(_cell("cmeshjoin", share=0.1), 1000),
    )
    rates = {name: entry for name, entry in entries.items() if "skew 1, memory 5%" in name}
    assert {name: (round(entry.value, 2), entry.met) for name, entry in rates.items()} == {
        "cmeshjoin / meshjoin, skew 1, memory 5%, heap, 2,000,000 rows": (2.9, False),
        "ssbj / meshjoin, skew 1, memory 5%, heap, 2,000,000 rows": (4.0, True),
        "chybridjoin / hybridjoin, skew 1, memory 5%, clustered, 2,000,000 rows": (2.2, True),
    }


def test_without_skew_the_worst_budget_counts() -> None:
    entries = _entries(
        *(_found(_cell("meshjoin", share=share, skew=0.0), 100) for share in (0.01, 0.05)),
        _found(_cell("cmeshjoin", share=0.01, skew=0.0), 80),
        _found(_cell("cmeshjoin", share=0.05, skew=0.0), 95),
    )
    entry = entries["cmeshjoin / meshjoin, skew 0, heap, 2,000,000 rows"]
    assert (entry.value, entry.met) == (0.8, False)


def test_cpu_counts_at_its_worst_and_against_meshjoin_on_a_heap() -> None:
    entries = _entries(
        _found(_cell("meshjoin"), 100, cpu_us=1.0),
        _found(_cell("meshjoin", share=0.1), 100, cpu_us=2.0),
        _found(_cell("ssbj"), 100, cpu_us=2.5),
        _found(_cell("ssbj", share=0.1), 100, cpu_us=7.0),
        _found(_cell("inlj", "clustered"), 100, cpu_us=50.0),
    )
    entry = entries["CPU of ssbj / meshjoin, heap, 2,000,000 rows"]
    assert (entry.value, entry.met) == (3.5, False)
    assert entries["CPU of inlj / meshjoin, clustered, 2,000,000 rows"].value == 50


@pytest.mark.parametrize(
    ("rates", "value", "met", "reached"),
    [
        ({0.05: 300, 0.025: 150, 0.0125: 99}, 0.5, True, True),
        ({0.05: 300, 0.025: 150, 0.0125: 101}, 0.25, True, True),
        ({0.05: 300, 0.025: 99}, 1.0, False, True),
        ({0.05: 90, 0.025: 50}, 1.0, False, False),
    ],
)
def test_the_least_memory_at_meshjoins_rate(rates: dict[float, float], value: float, met: bool, reached: bool) -> None:
    entries = _entries(
        _found(_cell("meshjoin"), 100), *(_found(_cell("ssbj", share=share), rate) for share, rate in rates.items())
    )
    entry = entries["ssbj's memory at meshjoin's rate, skew 1, heap, 2,000,000 rows"]
    assert (entry.value, entry.met, entry.details["reached"]) == (value, met, reached)


def test_cells_at_other_sizes_are_not_judged() -> None:
    results = [_found(replace(_cell(name), rows=1000), 100) for name in ("meshjoin", "cmeshjoin")]
    assert {entry.met for entry in entries_of(OperatorsSpec(), results)} == {None}


def test_strategies_of_shedding_are_compared_at_the_same_arrivals(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without shedding both strategies are the same operator, so their counted work is the same."""
    spec = replace(SPEC, algorithms=("hybridjoin",), skews=(1.0,), page_bytes=1024, memory_shares=(0.05, 0.4))
    monkeypatch.setattr(shedding, "TARGET_MEMORY_SHARE", 0.4)
    monkeypatch.setattr(shedding, "shedding_options", lambda name, strategy: {})
    [entry] = [entry for entry in run_operators(spec, data_dir).entries if "shedding" in entry.name]
    assert entry.value == 1.0
    assert entry.details["tuples_per_s_keep"] > 0
    assert entry.met is None


def test_the_grid_takes_turns_and_has_no_cell_twice() -> None:
    cells = cells_of(OperatorsSpec())
    assert len(set(cells)) == len(cells)
    assert {cell.algorithm for cell in cells[:5]} > {"meshjoin"}
    assert np.all(np.diff([cell.rows for cell in cells if cell.algorithm == "meshjoin"]) >= 0)
