"""The mechanics of the benchmark of the cache policies, on an operator whose cache is known."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from semistream.bench.cache import CacheSpec, run_cache
from semistream.bench.cache import run as cache_run
from semistream.bench.cache.optimum import interval_optimum, static_optimum
from semistream.bench.plot import plot_result
from semistream.bench.result_file import BenchResult, read_result, write_result
from semistream.cli.app import app
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.operators.step_operator import StepOperator
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA

SPEC = CacheSpec(
    rows=2000, warm_up_tuples=20_000, measured_tuples=20_000, algorithms=("fakejoin",), policies=("all", "even", "best")
)


class _FrontStage:
    capacity_keys = 200


class _FakeJoin(StepOperator):
    """Takes up to 500 tuples, answers those of cached keys at once and the rest at once too, but by the disk."""

    name = "fakejoin"

    def __init__(self, table: MasterTable, policy: str) -> None:
        super().__init__(table, JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key"), 1000)
        self.front_stage = _FrontStage()
        self._policy = policy

    def _open(self) -> None:
        self._waiting: list[int] = []

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def buffered(self) -> int:
        return len(self._waiting)

    def _accept(self, batch: pa.RecordBatch) -> int:
        taken = min(batch.num_rows, 500 - self.pending)
        self._waiting += batch.column("key").to_pylist()[:taken]
        return taken

    def _step(self) -> Iterator[pa.RecordBatch]:
        cached = {"all": lambda key: True, "even": lambda key: key % 2 == 0, "best": lambda key: key < 200}[
            self._policy
        ]
        hits = sum(map(cached, self._waiting))
        self.metrics.tuples_answered += self.pending
        self.metrics.tuples_through_cache += hits
        self.metrics.tuples_through_disk += self.pending - hits
        self._waiting = []
        yield from ()

    def _components(self) -> dict[str, int]:
        return {}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {}, {}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None: ...

    def _release(self) -> None: ...

    def _check(self) -> None: ...


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchResult:
    monkeypatch.setattr(cache_run, "_takes_policies", lambda name: name == "fakejoin")
    monkeypatch.setattr(cache_run, "_make", lambda spec, table, name, policy: _FakeJoin(table, policy))
    return run_cache(SPEC, tmp_path)


def test_hits_are_counted_over_the_measured_part(result: BenchResult, tmp_path: Path) -> None:
    assert len(result.cells) == 6 * 3
    for cell in result.cells:
        assert abs(cell["tuples"] - SPEC.measured_tuples) <= 500
        assert cell["hit_ratio"] == cell["hits"] / cell["tuples"]
        assert (cell["interval_optimum"] is None) == (cell["workload"] != "locality")
        if cell["policy"] == "all":
            assert cell["hits"] == cell["tuples"]
        if cell["policy"] == "even" and cell["workload"] == "zipf 0.5":
            assert cell["hit_ratio"] == pytest.approx(0.5, abs=0.05)
    write_result(result, tmp_path / "cache.json")
    plot_result(read_result(tmp_path / "cache.json"), tmp_path / "cache.png")
    assert (tmp_path / "cache.png").stat().st_size > 10_000


def test_a_stream_that_fits_the_stream_buffer_is_too_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_run, "_takes_policies", lambda name: True)
    monkeypatch.setattr(cache_run, "_make", lambda spec, table, name, policy: _FakeJoin(table, policy))
    for warm_up in (0, 50):
        with pytest.raises(InvalidArgument, match="measured_tuples=100 all fit the stream buffer"):
            run_cache(replace(SPEC, warm_up_tuples=warm_up, measured_tuples=100), tmp_path)


def test_a_cache_that_holds_the_most_frequent_keys_is_the_optimum() -> None:
    keys = np.repeat(np.arange(400), np.arange(400, 0, -1))
    assert static_optimum(keys, 200) == np.isin(keys, np.arange(200)).mean()
    assert static_optimum(keys, 1000) == 1.0


def test_intervals_are_those_of_the_stream() -> None:
    # The interval of the first tuple ends after the second: 1 1 | 2 2 3 3 3 | 4.
    keys = np.array([1, 1, 2, 2, 3, 3, 3, 4])
    assert interval_optimum(keys, 1, first_tuple=3, interval_tuples=5) == (2 + 3 + 1) / 8
    assert static_optimum(keys, 1) == 3 / 8


def test_the_stream_that_changes_has_a_higher_optimum_by_interval(result: BenchResult) -> None:
    for cell in result.cells:
        if cell["workload"] == "locality":
            assert cell["interval_optimum"] >= cell["optimum"]


def test_without_a_cache_to_measure_there_is_one_clear_line(tmp_path: Path) -> None:
    arguments = ["bench", "cache", "--algorithm", "meshjoin", "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert result.stderr == "semistream: none of meshjoin takes cache_policy=: there is no cache to measure\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [({"workloads": ("magic",)}, "'magic'"), ({"rows": 1}, "rows"), ({"memory_share": 0.0}, "memory_share")],
)
def test_the_spec_is_checked(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        CacheSpec(**arguments)


def test_the_command_prints_a_table(result: BenchResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semistream.cli.bench_cache.run_cache", lambda *_: result)
    done = CliRunner().invoke(app, ["bench", "cache"])
    assert done.exit_code == 0, done.output
    assert "polluted" in done.stdout
    assert "100.0%" in done.stdout
