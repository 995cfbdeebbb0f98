"""The spec files: all of them load, and say what to measure at every scale."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semistream.bench.framework import spec as spec_module
from semistream.bench.framework.measurement import key_of
from semistream.bench.framework.runner import KINDS, measurements_of
from semistream.bench.framework.spec import Spec, figure_ids, load_spec, spec_ids
from semistream.bench.framework.targets import targets_of
from semistream.bench.measurements.joins.cell import rate_cell
from semistream.bench.measurements.joins.rate import RateMeasurement
from semistream.core.errors import InvalidArgument

IDS = figure_ids()


def test_every_spec_says_what_to_measure_at_every_scale() -> None:
    kinds = set()
    for spec_id in (*spec_ids(), *IDS):
        spec = load_spec(spec_id)
        kinds.add(spec.kind)
        assert spec.is_figure == (spec_id in IDS)
        assert spec.title, spec_id
        assert spec.about.endswith("."), spec_id
        assert list(spec.scales) == (["quick", "laptop", "paper"] if spec.is_figure else ["quick", "full"]), spec_id
        for scale in spec.scales:
            measurements = measurements_of(spec, scale)
            keys = [key_of(measurement) for measurement in measurements]
            assert keys, spec_id
            assert len(set(keys)) == len(keys), (spec_id, scale)
            assert all(measurement.weight > 0 for measurement in measurements), spec_id
            assert all(measurement.name for measurement in measurements), spec_id
    assert kinds == set(KINDS)


def test_every_spec_survives_its_result_file() -> None:
    for spec_id in (*spec_ids(), *IDS):
        spec = load_spec(spec_id)
        content = json.loads(json.dumps(spec.as_run("quick")))
        kept = Spec.from_run(content, "quick")
        assert kept == replace(spec, scales={"quick": spec.parameters("quick")}), spec_id


def test_every_benchmark_has_targets_that_can_be_read() -> None:
    for spec_id in spec_ids():
        assert all(target.text for target in targets_of(spec_id)), spec_id


def test_parameters_can_be_given_and_those_of_the_targets_are_known() -> None:
    spec = load_spec("operators")
    full = spec.parameters("full")
    assert spec.has_size_of_targets(full)
    assert spec.has_size_of_targets({**full, "rows": [2_000_000]})
    assert not spec.has_size_of_targets({**full, "rows": [3_000_000]})
    assert not spec.has_size_of_targets({**full, "page_bytes": 4096})
    assert not spec.has_size_of_targets(spec.parameters("quick"))
    assert spec.with_parameters("full", {"rows": [1]}).parameters("full") == {**full, "rows": [1]}
    with pytest.raises(InvalidArgument, match="parameter 'moons' is unknown to operators: use one of"):
        spec.with_parameters("full", {"moons": 1})


def test_figures_come_in_the_order_of_the_papers() -> None:
    assert IDS.index("S0-5a") < IDS.index("S0-5b") < IDS.index("S0-6a") < IDS.index("S2-5a") < IDS.index("S3-6b")


def test_a_figure_has_a_measurement_for_every_series_and_x() -> None:
    spec = load_spec("S2-5a")
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
        for found in measurements_of(load_spec("S0-5a"), "paper")
        if isinstance(found, RateMeasurement)
    }
    assert scans["MESHJOIN"] < scans["SSBJ"]


def test_a_disk_buffer_is_given_in_pages() -> None:
    found = measurements_of(load_spec("S1-6"), "quick")[1]
    assert isinstance(found, RateMeasurement)
    assert found.cell.options["b"] * found.cell.page_bytes == found.x * 1024


def _with_parameters(spec: Spec, **parameters: Any) -> Spec:
    return replace(spec, scales={"quick": {**spec.parameters("quick"), **parameters}})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda spec: load_spec("S9-1"), "'S9-1' is no benchmark: use "),
        (
            lambda spec: spec.parameters("huge"),
            "scale 'huge' is unknown to S0-5a: use one of 'quick', 'laptop', 'paper'",
        ),
        (lambda spec: measurements_of(replace(spec, kind="pie"), "quick"), "unknown kind 'pie': use one of rate"),
        (lambda spec: measurements_of(_with_parameters(spec, workload="sun"), "quick"), "workload 'sun' is unknown"),
        (lambda spec: measurements_of(_with_parameters(spec, moon=1), "quick"), "parameter 'moon' belongs neither"),
        (
            lambda spec: measurements_of(_with_parameters(spec, values={"": "joy"}), "quick"),
            "shows 'joy', which",
        ),
    ],
)
def test_what_is_unknown_is_said_in_one_line(wrong: Callable[[Spec], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as raised:
        wrong(load_spec("S0-5a"))
    assert "\n" not in str(raised.value)


def test_an_option_belongs_to_an_algorithm_that_has_it() -> None:
    parameters = {**load_spec("S0-5a").parameters("quick"), "layout": "heap", "memory_share": 0.4}
    assert rate_cell({**parameters, "algorithm": "ssbj", "switching_factor": 2.0}).options == {"switching_factor": 2.0}
    with pytest.raises(InvalidArgument, match="'switching_factor' belongs neither to meshjoin nor"):
        rate_cell({**parameters, "algorithm": "meshjoin", "switching_factor": 2.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id = "X-1"\nkind = "rate"', "not complete"),
        ('x = {label = "x"}\ny = {label = "y"}\nid = "X-2"', "not complete"),
        (
            'x = {label = "x"}\ny = {label = "y"}\nid = "X-2"\ntitle = ""\nkind = ""\nabout = ""\nscale = {}',
            "says that it is 'X-2'",
        ),
    ],
)
def test_a_spec_that_is_not_complete_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "bench" / "specs" / "papers").mkdir(parents=True)
    (tmp_path / "bench" / "specs" / "X-1.toml").write_text(text)
    monkeypatch.setattr(spec_module, "files", lambda package: tmp_path / "bench")
    with pytest.raises(InvalidArgument, match=f"spec file of X-1.*{message}"):
        load_spec("X-1")
