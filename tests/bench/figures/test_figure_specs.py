"""The spec files: all of them load, and say what to measure at every scale."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semistream.bench.figures import spec as spec_module
from semistream.bench.figures.kinds import KINDS, measurements_of
from semistream.bench.figures.rate import RateMeasurement, rate_cell
from semistream.bench.figures.spec import SCALES, FigureSpec, figure_ids, load_figure
from semistream.core.errors import InvalidArgument

IDS = figure_ids()


@pytest.mark.parametrize("figure_id", IDS)
def test_a_spec_says_what_to_measure_at_every_scale(figure_id: str) -> None:
    spec = load_figure(figure_id)
    assert spec.id.startswith(f"{spec.paper}-")
    assert spec.claim.endswith(".")
    assert spec.title
    for scale in SCALES:
        measurements = measurements_of(spec, scale)
        keys = [measurement.key for measurement in measurements]
        assert keys
        assert len(set(keys)) == len(keys)
        assert all(measurement.weight > 0 for measurement in measurements)


@pytest.mark.parametrize("figure_id", IDS)
def test_a_spec_survives_its_result_file(figure_id: str) -> None:
    spec = load_figure(figure_id)
    kept = FigureSpec.from_run(spec.as_run("ci"), "ci")
    assert (kept.x, kept.y, kept.parameters("ci")) == (spec.x, spec.y, spec.parameters("ci"))


def test_figures_come_in_the_order_of_the_papers() -> None:
    assert IDS.index("S0-5a") < IDS.index("S0-5b") < IDS.index("S0-6a") < IDS.index("S2-5a") < IDS.index("S3-6b")


def test_a_figure_has_a_measurement_for_every_series_and_x() -> None:
    spec = load_figure("S2-5a")
    measurements = [found for found in measurements_of(spec, "paper") if isinstance(found, RateMeasurement)]
    shares = spec.parameters("paper")["x"]
    assert [(found.series, found.cell.memory_share) for found in measurements] == [
        (series, share) for share in shares for series in spec.series
    ]
    assert {found.x for found in measurements} == {100 * share for share in shares}
    assert {found.cell.workload.arguments["rows"] for found in measurements} == {100_000_000}
    assert {found.cell.layout for found in measurements} == {"clustered"}


def test_warm_up_may_differ_between_algorithms() -> None:
    scans = {
        found.series: found.cell.effort.most_warm_up_scans
        for found in measurements_of(load_figure("S0-5a"), "paper")
        if isinstance(found, RateMeasurement)
    }
    assert scans["MESHJOIN"] < scans["SSBJ"]


def test_a_disk_buffer_is_given_in_pages() -> None:
    found = measurements_of(load_figure("S1-6"), "ci")[1]
    assert isinstance(found, RateMeasurement)
    assert found.cell.options["b"] * found.cell.page_bytes == found.x * 1024


def _with_parameters(spec: FigureSpec, **parameters: Any) -> FigureSpec:
    return replace(spec, scales={"ci": {**spec.parameters("ci"), **parameters}})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda spec: load_figure("S9-1"), "figure 'S9-1' is unknown: use one of S0-"),
        (lambda spec: spec.parameters("huge"), "scale 'huge' is unknown: use one of 'ci', 'laptop', 'paper'"),
        (lambda spec: measurements_of(replace(spec, kind="pie"), "ci"), "unknown kind 'pie': use one of rate"),
        (lambda spec: measurements_of(_with_parameters(spec, workload="sun"), "ci"), "workload 'sun' is unknown"),
        (lambda spec: measurements_of(_with_parameters(spec, moon=1), "ci"), "parameter 'moon' belongs neither"),
        (
            lambda spec: measurements_of(_with_parameters(spec, values={"": "joy"}), "ci"),
            "shows 'joy', which",
        ),
    ],
)
def test_what_is_unknown_is_said_in_one_line(wrong: Callable[[FigureSpec], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as raised:
        wrong(load_figure("S0-5a"))
    assert "\n" not in str(raised.value)


def test_an_option_belongs_to_an_algorithm_that_has_it() -> None:
    parameters = {**load_figure("S0-5a").parameters("ci"), "layout": "heap", "memory_share": 0.4}
    assert rate_cell({**parameters, "algorithm": "ssbj", "switching_factor": 2.0}).options == {"switching_factor": 2.0}
    with pytest.raises(InvalidArgument, match="'switching_factor' belongs neither to meshjoin nor"):
        rate_cell({**parameters, "algorithm": "meshjoin", "switching_factor": 2.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id = "X-1"\nkind = "rate"', "not complete"),
        ('x = {label = "x"}\ny = {label = "y"}\nid = "X-2"', "not complete"),
    ],
)
def test_a_spec_that_is_not_complete_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "X-1.toml").write_text(text)
    (tmp_path / "defaults.toml").write_text("")
    monkeypatch.setattr(spec_module, "_folder", lambda: tmp_path)
    with pytest.raises(InvalidArgument, match="spec file of figure X-1 is not complete"):
        load_figure("X-1")


def test_every_kind_is_used() -> None:
    assert {load_figure(figure_id).kind for figure_id in IDS} == set(KINDS)
