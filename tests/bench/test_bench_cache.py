"""The benchmark of the cache policies: hits of a cache that is known, the optimum, and one small run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.bench.framework.measurement import VALUE, key_of
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.result_file import read_result
from semistream.bench.framework.runner import Run, measurements_of, run_spec
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.store import staged_workload
from semistream.bench.framework.targets import judge_targets
from semistream.bench.measurements.joins.cache_hits import (
    HitRatios,
    Hits,
    interval_optimum,
    measure_hits,
    static_optimum,
)
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.operators.driver import StepOperator
from semistream.operators.join import Join, JoinInputs, Part
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA, synthetic

SPEC = load_spec("cache")
RESULTS = Path(__file__).parents[2] / "docs" / "results"


class _FrontStage:
    capacity_keys = 200


class _Waiting(Part):
    """Up to 500 keys."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    @property
    def pending(self) -> int:
        return len(self.keys)

    @property
    def buffered(self) -> int:
        return len(self.keys)

    def accept(self, batch: pa.RecordBatch) -> int:
        taken = min(batch.num_rows, 500 - self.pending)
        self.keys += batch.column("key").to_pylist()[:taken]
        return taken


class _FakeJoin(Join):
    """Answers tuples of cached keys at once and the rest at once too, but by the disk."""

    def __init__(self, inputs: JoinInputs, policy: str) -> None:
        self.front_stage = _FrontStage()
        self._metrics = inputs.metrics
        self._policy = policy
        self.stream = self._waiting = _Waiting()
        self.parts = {"stream": self._waiting}

    def step(self) -> Iterator[pa.RecordBatch]:
        cached = {"all": lambda key: True, "even": lambda key: key % 2 == 0, "best": lambda key: key < 200}[
            self._policy
        ]
        hits, pending = sum(map(cached, self._waiting.keys)), self._waiting.pending
        self._metrics.tuples_answered += pending
        self._metrics.tuples_through_cache += hits
        self._metrics.tuples_through_disk += pending - hits
        self._waiting.keys = []
        yield from ()


def _fake_join(table: MasterTable, policy: str) -> StepOperator:
    spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key")
    return StepOperator("fakejoin", table, spec, 1000, lambda inputs: _FakeJoin(inputs, policy))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return staged_workload(
        tmp_path_factory.mktemp("cache"), synthetic(2000, zipf_exponent=0.0), layout="clustered", page_bytes=4096
    )


def _measurement(workload: str) -> HitRatios:
    small = {"rows": 2000, "warm_up_tuples": 20_000, "measured_tuples": 20_000}
    spec = SPEC.with_parameters("quick", {**small, "workloads": [workload], "algorithms": ["chybridjoin"]})
    (found,) = measurements_of(spec, "quick")
    assert isinstance(found, HitRatios)
    return found


def _hits(table: MasterTable, policy: str, measurement: HitRatios) -> Hits:
    with _fake_join(table, policy) as op:
        return measure_hits(op, measurement.stream(0), measurement.warm_up_tuples, measurement.interval_tuples)


@pytest.mark.parametrize("workload", SPEC.x.ticks)
def test_hits_are_counted_over_the_measured_part(table: MasterTable, workload: str) -> None:
    measurement = _measurement(workload)
    found = {policy: _hits(table, policy, measurement) for policy in ("all", "even", "best")}
    for hits in found.values():
        assert abs(hits.tuples - measurement.measured_tuples) <= 500
        assert hits.capacity_keys == 200
    assert found["all"].hits == found["all"].tuples
    assert 0 < found["even"].hits < found["even"].tuples
    if workload == "zipf 0.5":
        assert found["even"].hits / found["even"].tuples == pytest.approx(0.5, abs=0.05)


def test_the_stream_that_changes_has_a_higher_optimum_by_interval(table: MasterTable) -> None:
    hits = _hits(table, "even", _measurement("locality"))
    assert hits.interval_optimum is not None
    assert hits.interval_optimum > hits.optimum
    assert _hits(table, "even", _measurement("polluted")).interval_optimum is None


@pytest.mark.parametrize("warm_up_tuples", [0, 50])
def test_a_stream_that_fits_the_stream_buffer_is_too_short(table: MasterTable, warm_up_tuples: int) -> None:
    measurement = replace(_measurement("zipf 1.0"), warm_up_tuples=warm_up_tuples, measured_tuples=100)
    with pytest.raises(InvalidArgument, match="all fit the stream buffer: raise measured_tuples"):
        _hits(table, "all", measurement)


def test_the_optimum_is_that_of_the_largest_cache() -> None:
    points = _measurement("locality").points({"small": Hits(5, 100, 20, 0.3, 0.4), "large": Hits(6, 80, 20, 0.35, 0.4)})
    assert [(point.series, point.x, point.y[VALUE], point.group) for point in points] == [
        ("small", 4, 0.2, "chybridjoin"),
        ("large", 4, 0.25, "chybridjoin"),
        ("offline optimum", 4, 0.35, "chybridjoin"),
    ]
    assert points[0].details["interval_optimum"] == 0.4


def test_a_cache_that_holds_the_most_frequent_keys_is_the_optimum() -> None:
    keys = np.repeat(np.arange(400), np.arange(400, 0, -1))
    assert static_optimum(keys, 200) == np.isin(keys, np.arange(200)).mean()
    assert static_optimum(keys, 1000) == 1.0


def test_intervals_are_those_of_the_stream() -> None:
    # The interval of the first tuple ends after the second: 1 1 | 2 2 3 3 3 | 4.
    keys = np.array([1, 1, 2, 2, 3, 3, 3, 4])
    assert interval_optimum(keys, 1, first_tuple=3, interval_tuples=5) == (2 + 3 + 1) / 8
    assert static_optimum(keys, 1) == 3 / 8


def test_a_small_run_is_measured_and_drawn(tmp_path: Path) -> None:
    small = {"workloads": ["zipf 1.2", "locality"], "policies": ["aging", "tinylfu"], "algorithms": ["chybridjoin"]}
    sizes = {"rows": 4000, "warm_up_tuples": 2000, "measured_tuples": 4000}
    result = run_spec(SPEC.with_parameters("quick", {**small, **sizes}), "quick", Run(tmp_path))
    assert [done.name for done in result.finished] == ["chybridjoin, zipf 1.2", "chybridjoin, locality"]
    assert [point.series for point in result.points] == 2 * ["aging", "tinylfu", "offline optimum"]
    assert all(0 < point.y[VALUE] < 1 for point in result.points)
    assert judge_targets(result) == []
    pytest.importorskip("matplotlib")
    plot_result(result, tmp_path / "cache.png")
    assert (tmp_path / "cache.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workloads": ["magic"]}, "'magic' is no workload: use one of zipf 0.5"),
        ({"algorithms": ["meshjoin"]}, "'meshjoin' is no algorithm with a cache policy: use one of .*chybridjoin"),
        ({"rows": 1}, "rows=1 must be at least 1000"),
        ({"memory_share": 0.0}, "memory_share=0.0 must be above 0"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        measurements_of(SPEC.with_parameters("quick", changes), "quick")


def test_measurements_have_names_and_keys_of_their_own() -> None:
    measurements = measurements_of(SPEC, "full")
    assert len({each.name for each in measurements}) == len({key_of(each) for each in measurements}) == 12


def test_the_measured_result_has_every_policy_below_its_optimum() -> None:
    result = read_result(RESULTS / "cache.json")
    assert len(result.points) == 2 * 6 * 5
    for point in result.points:
        if point.series != "offline optimum" and SPEC.x.text(point.x) != "locality":
            assert point.y[VALUE] == point.details["hits"] / point.details["tuples"] <= point.details["optimum"]
    assert judge_targets(result) == []
