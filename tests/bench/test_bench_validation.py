"""The mechanics of the validation of cost models at a tiny scale; no test asserts a time."""

from dataclasses import replace
from pathlib import Path

import pytest

from semistream.bench.operators import OperatorsSpec
from semistream.bench.operators.cells import Cell, CellResult, DiskClock, Layout
from semistream.bench.plot import plot_result
from semistream.bench.result_file import BenchResult, Entry, read_result, write_result
from semistream.bench.validation import DEFAULT, run_validation
from semistream.bench.validation import run as validation_run
from semistream.bench.validation.cells import Figures, ValidatedCell, measured_figures
from semistream.bench.validation.spec import grid_of, is_judged
from semistream.bench.validation.verdicts import entries_of
from semistream.core.errors import InvalidArgument
from semistream.cost import trial_run
from semistream.cost.cost_factors import MACHINE
from semistream.cost.disk_profile import HDD

SPEC = OperatorsSpec(
    rows=(20_000,),
    skews=(0.0,),
    memory_shares=(0.4,),
    algorithms=("meshjoin", "hybridjoin"),
    page_bytes=4096,
    measured_rows=20_000,
    most_warm_up_scans=3,
    least_measured_s=0.1,
)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BenchResult:
    kept: list[BenchResult] = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_WARM_UP_S", 0.0), ("_MOST_WARM_UP_S", 0.01), ("_SLICE_S", 0.0), ("_SLICES", 3)):
            patch.setattr(trial_run, name, value)
        result = run_validation(SPEC, tmp_path_factory.mktemp("bench-data"), keep=kept.append)
    assert [len(part.cells) for part in kept] == [1, 2, 4]
    return result


def entry(entries: list[Entry] | tuple[Entry, ...], name: str) -> Entry:
    return next(entry for entry in entries if entry.name == name)


def test_every_cell_is_measured_and_predicted_on_both_clocks(result: BenchResult) -> None:
    cells = [ValidatedCell.from_dict(content) for content in result.cells]
    assert [cell.cell for cell in cells if cell.advised_on is None] == grid_of(SPEC)
    assert [cell.advised_on for cell in cells[2:]] == [HDD.name, MACHINE]
    assert all(cell.settings["b"] >= 1 for cell in cells[2:])
    for cell in cells:
        for clock in (HDD.name, MACHINE):
            assert cell.predicted[clock].tuples_per_s > 0
            assert cell.measured[clock].loop_s > 0
        assert cell.measured_cell.times is None


def test_counts_of_meshjoin_are_predicted_to_a_few_percent(result: BenchResult) -> None:
    errors = ValidatedCell.from_dict(result.cells[0]).errors(HDD.name)
    assert errors is not None
    assert max(errors.values()) < 0.05


def test_a_small_grid_is_not_judged(result: BenchResult) -> None:
    assert not is_judged(SPEC)
    assert {entry.met for entry in result.entries} == {None}
    assert is_judged(DEFAULT)
    assert not is_judged(replace(DEFAULT, skews=(0.0,)))
    assert not is_judged(replace(DEFAULT, lookup_tuples=7))


def test_result_file_and_picture(result: BenchResult, tmp_path: Path) -> None:
    write_result(result, tmp_path / "r.json")
    again = read_result(tmp_path / "r.json")
    assert [ValidatedCell.from_dict(cell).as_dict() for cell in again.cells] == list(result.cells)
    plot_result(again, tmp_path / "r.png")
    assert (tmp_path / "r.png").stat().st_size > 10_000


def test_resuming_measures_nothing_again(result: BenchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(validation_run, "measure_cell", refuse)
    monkeypatch.setattr(validation_run, "calibrate", refuse)
    assert run_validation(SPEC, tmp_path, resumed=result).cells == result.cells
    with pytest.raises(InvalidArgument, match="lookup_tuples"):
        run_validation(replace(SPEC, lookup_tuples=7), tmp_path, resumed=result)
    with pytest.raises(InvalidArgument, match="'other'"):
        run_validation(SPEC, tmp_path, resumed=replace(result, benchmark="other"))


def test_a_calibration_without_all_algorithms_is_made_again(result: BenchResult, tmp_path: Path) -> None:
    provenance = result.provenance
    assert validation_run._kept(result, SPEC, provenance).keys() == {20_000}
    assert validation_run._kept(result, replace(SPEC, algorithms=("meshjoin", "ssbj")), provenance) == {}
    assert validation_run._kept(result, SPEC, replace(provenance, cores=99)) == {}


def test_cells_at_which_factors_are_measured_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"skew 1\.2 with memory 0\.12"):
        run_validation(replace(SPEC, skews=(0.0, 1.2), memory_shares=(0.4, 0.12)), tmp_path)


# --- verdicts, from cells that are made up ----------------------------------------------------------------------


def made_up(
    name: str,
    predicted: float,
    measured: float,
    skew: float = 0.0,
    layout: Layout = "heap",
    advised_on: str | None = None,
) -> ValidatedCell:
    found = CellResult(Cell(1000, skew, 0.1, name, layout), None, 1000)
    return ValidatedCell(
        found,
        advised_on=advised_on,
        predicted={HDD.name: Figures(predicted, 2.0)},
        measured={HDD.name: Figures(measured, 4.0)},
    )


def test_errors_are_relative_to_what_was_measured() -> None:
    cells = [made_up("a", 110, 100), made_up("a", 50, 100), made_up("b", 120, 100)]
    entries = entries_of(SPEC, cells)
    median = entry(entries, f"median error of rate, {HDD.name}")
    assert median.value == pytest.approx(0.2)
    assert entry(entries, f"worst error of rate, {HDD.name}").value == pytest.approx(0.5)
    assert entry(entries, f"worst error of loop cost, {HDD.name}").value == pytest.approx(0.5)
    assert median.details["by_operator"]["b on heap"] == pytest.approx({"median": 0.2, "worst": 0.2})
    assert not any(MACHINE in entry.name for entry in entries)


def test_a_choice_is_near_the_best_when_its_measured_rate_is() -> None:
    cells = [
        made_up("a", 200, 70),  # what is predicted to be the best with its own settings
        made_up("b", 100, 100),
        made_up("a", 220, 90, advised_on=HDD.name),  # near the best
        made_up("b", 250, 10, advised_on=MACHINE),  # advised for another clock
        made_up("a", 200, 80, skew=1.0),
        made_up("b", 100, 100, skew=1.0),
        made_up("a", 220, 84, skew=1.0, advised_on=HDD.name),  # not near
    ]
    choices = entry(entries_of(SPEC, cells), f"choices near the best, {HDD.name}")
    assert choices.value == 0.5
    listed = choices.details["choices"]
    assert [choice["rate_of_best"] for choice in listed] == pytest.approx([0.9, 0.84])
    assert [choice["rate_of_best_with_own_settings"] for choice in listed] == pytest.approx([0.7, 0.8])


def test_advice_that_does_not_work_is_a_bad_choice() -> None:
    refused = replace(made_up("a", 220, 1, advised_on=HDD.name), measured={})
    grid = [made_up("a", 200, 70), made_up("b", 100, 100)]
    choices = entry(entries_of(SPEC, [*grid, refused]), f"choices near the best, {HDD.name}")
    assert choices.value == 0.0
    # Nobody was asked yet.
    assert not any("choices" in found.name for found in entries_of(SPEC, grid))


def test_what_is_advised_is_best_when_nothing_was_faster() -> None:
    cells = [made_up("a", 200, 100), made_up("b", 100, 50), made_up("b", 300, 120, advised_on=HDD.name)]
    (choice,) = entry(entries_of(SPEC, cells), f"choices near the best, {HDD.name}").details["choices"]
    assert (choice["best"], choice["rate_of_best"]) == ("b on heap", 1.0)


def test_errors_are_those_of_the_grid_and_not_of_what_is_advised() -> None:
    cells = [made_up("a", 110, 100), made_up("a", 500, 100, advised_on=HDD.name)]
    assert entry(entries_of(SPEC, cells), f"worst error of rate, {HDD.name}").value == pytest.approx(0.1)


def test_an_algorithm_without_a_prediction_can_still_be_the_best() -> None:
    unknown = replace(made_up("c", 1, 200), predicted={}, not_predicted="no model")
    advised = made_up("a", 210, 105, advised_on=HDD.name)
    entries = entries_of(SPEC, [made_up("a", 200, 100), made_up("b", 100, 50), unknown, advised])
    assert entry(entries, f"choices near the best, {HDD.name}").value == 0.0
    median = entry(entries, f"median error of rate, {HDD.name}")
    assert list(median.details["not_predicted"].values()) == ["no model"]


def test_loop_cost_is_time_by_steps() -> None:
    disks = {HDD.name: DiskClock(io_s=8.0, tuples_per_s=10.0, tuples_per_s_with_cpu=5.0)}
    cell = Cell(1000, 0.0, 0.1, "a", "heap")
    found = CellResult(
        cell,
        None,
        1,
        tuples=80,
        elapsed_s=2.0,
        steps=4,
        pages_read=12,
        cache_share=0.25,
        tuples_per_s=40.0,
        disks=disks,
    )
    slower, _ = measured_figures(replace(found, yardstick_s=3.0), rows_per_page=100.0, usual_yardstick_s=1.5)
    assert slower[MACHINE] == Figures(80.0, 0.25)  # a machine that is twice as fast
    assert slower[HDD.name] == Figures(10.0, 2.0)
    figures, loop = measured_figures(found, rows_per_page=100.0)
    assert figures == {HDD.name: Figures(10.0, 2.0), MACHINE: Figures(40.0, 0.5)}
    assert (loop.cached_tuples, loop.disk_tuples, loop.pages, loop.master_rows) == (5.0, 15.0, 3.0, 300.0)
