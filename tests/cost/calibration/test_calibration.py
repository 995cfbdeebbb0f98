"""Calibration: factors are found from counted work, kept in a file, and belong to one machine."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import EmptyTable, InvalidArgument, NotCalibrated, SchemaMismatch, UnknownColumn
from semistream.cost.calibration import calibrate as calibration
from semistream.cost.calibration import yardstick
from semistream.cost.calibration.calibrate import calibrate
from semistream.cost.calibration.calibration_file import (
    Calibration,
    calibration_path,
    core_count,
    cpu_model,
    load_calibration,
    save_calibration,
)
from semistream.cost.calibration.factor_fit import CountedWork, fit_factors, least_squares_from_zero
from semistream.cost.calibration.trial_join import TrialStream, absent_keys, keys_of, trial_schema
from semistream.cost.clock import AlgorithmFactors, CostFactors
from semistream.cost.loop import Loop
from semistream.operators import algorithm_names
from semistream.storage import MasterTable, stage

LOOP = Loop(cached_tuples=5, disk_tuples=20, master_rows=500, results=24, reads=1, seeks=1, pages=2, bytes_read=65_536)


@pytest.fixture
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_WARM_UP_S", 0.0), ("_MOST_WARM_UP_S", 0.01), ("_SLICE_S", 0.0), ("_SLICES", 3)):
        monkeypatch.setattr(calibration, name, value)
    for name in ("_WARM_UP_S", "_MEASURED_S"):
        monkeypatch.setattr(yardstick, name, 0.001)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEMISTREAM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def small_table(path: Path, layout: str = "clustered") -> MasterTable:
    rows = 20_000
    content = {"id": np.arange(rows), "name": [f"name {number}" for number in range(rows)], "size": np.ones(rows)}
    return stage(pa.table(content), path, key="id", layout=layout, page_bytes=16 << 10)


def some_calibration() -> Calibration:
    provenance = {"cpu": cpu_model(), "cores": core_count(), "seed": 0}
    factors = CostFactors({"meshjoin": AlgorithmFactors(loop_s=0.5, row_s=0.25)})
    return Calibration(factors=factors, left_out={"inlj": "heap"}, fit_error={"meshjoin": 0.1}, provenance=provenance)


# --- factors ------------------------------------------------------------


def test_cost_of_a_loop_is_the_sum_of_its_counts_times_their_factors() -> None:
    factors = AlgorithmFactors(loop_s=1, seek_s=10, page_s=100, row_s=1000, disk_tuple_s=1e5, tuple_s=1e6, result_s=1e7)
    assert CostFactors({"x": factors}).loop_s("x", LOOP) == pytest.approx(1 + 10 + 200 + 500_000 + 20e5 + 25e6 + 24e7)


def test_algorithm_without_factors_is_an_error_that_names_those_with() -> None:
    with pytest.raises(NotCalibrated, match=r"'ssbj'.*meshjoin.*--calibrate"):
        some_calibration().factors.loop_s("ssbj", LOOP)


def test_fit_finds_the_factors_that_made_the_times() -> None:
    rng = np.random.default_rng(3)
    true = AlgorithmFactors(
        loop_s=4e-4,
        seek_s=1e-4,
        page_s=3e-5,
        row_s=2e-8,
        disk_tuple_s=5e-7,
        tuple_s=3e-7,
        answer_s=2e-4,
        result_s=1e-7,
    )
    works = []
    for _ in range(40):
        loop = Loop(**{name: float(rng.integers(1, 10_000)) for name in Loop.__dataclass_fields__})
        loop = replace(loop, cached_tuples=float(rng.choice([0.0, 0.5, 3.0, 500.0])))
        loops = float(rng.integers(1, 1000))
        works.append(CountedWork(loops, loop, loops * true.seconds(loop)))
    assert fit_factors(works).as_dict() == pytest.approx(true.as_dict(), rel=1e-6)


def test_fitted_factors_are_never_negative() -> None:
    matrix = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert least_squares_from_zero(matrix, np.array([3.0, 2.0, 1.0])).tolist() == pytest.approx([2.0, 0.0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix, wanted = rng.normal(size=(12, 5)), rng.normal(size=12)
        x = least_squares_from_zero(matrix, wanted)
        gradient = matrix.T @ (wanted - matrix @ x)
        assert (x >= 0).all()
        assert (gradient <= 1e-6).all()  # nothing is gained by raising any of them,
        assert np.abs(gradient[x > 0]).max(initial=0.0) < 1e-6  # nor by changing one that is not zero


def test_work_on_a_slower_machine_is_the_same_work() -> None:
    usual = [CountedWork(3, LOOP.times(n), n * 1e-3 + 5e-3, yardstick_s=2e-4) for n in (1, 5, 20)]
    slow = [work._replace(elapsed_s=1.5 * work.elapsed_s, yardstick_s=3e-4) for work in usual]
    assert [work.at(2e-4) for work in slow] == [pytest.approx(work) for work in usual]
    assert fit_factors([work.at(2e-4) for work in slow]).loop_s == pytest.approx(fit_factors(usual).loop_s)


# --- trials ------------------------------------------------------------


def test_stream_asks_for_keys_of_the_table_as_often_as_its_skew_has_it(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    rng = np.random.default_rng(1)
    keys = keys_of(table, rng)
    assert sorted(keys["id"].to_pylist()) == list(range(20_000))
    block = next(iter(TrialStream(trial_schema(table), keys, 1.0, rng)))
    found, count = np.unique(block["id"].to_numpy(), return_counts=True)
    assert found[np.argmax(count)] == keys["id"][0].as_py()
    assert 0.07 < count.max() / block.num_rows < 0.12  # 1 / H_20000 = 0.095


def test_absent_keys_are_not_in_the_table_and_come_as_often_as_asked(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    rng = np.random.default_rng(1)
    keys = keys_of(table, rng)
    absent = absent_keys(keys)
    assert absent is not None
    assert not set(absent["id"].to_pylist()) & set(keys["id"].to_pylist())
    block = next(iter(TrialStream(trial_schema(table), keys, 0.0, rng, absent, 0.5)))
    assert 0.45 < (block["id"].to_numpy() >= 20_000).mean() < 0.55


@pytest.mark.usefixtures("short_trials")
def test_every_operator_gets_factors_on_a_clustered_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_ROUNDS", 1)
    said: list[str] = []
    found = calibrate(small_table(tmp_path / "t"), progress=said.append)
    assert sorted(found.factors.by_algorithm) == sorted([*algorithm_names(), "ssbj by partition"])
    assert found.left_out == {}
    for name in algorithm_names():
        assert found.factors.loop_s(name, LOOP) > 0
        assert any(name in line for line in said)
    assert found.provenance["table"]["rows"] == 20_000


@pytest.mark.usefixtures("short_trials")
def test_a_heap_is_sampled_for_operators_that_need_a_clustered_table(tmp_path: Path) -> None:
    found = calibrate(small_table(tmp_path / "t", "heap"), memory_bytes=400_000, algorithms=["hybridjoin", "ssbj"])
    assert sorted(found.factors.by_algorithm) == ["hybridjoin", "ssbj", "ssbj by partition"]
    assert found.provenance["memory_bytes"] == 400_000


@pytest.mark.usefixtures("short_trials")
def test_composite_and_text_keys(tmp_path: Path) -> None:
    content = {"day": np.arange(5000) // 50, "name": [f"n{number}" for number in range(5000)], "x": np.ones(5000)}
    table = stage(pa.table(content), tmp_path / "t", key=["day", "name"], page_bytes=16 << 10)
    found = calibrate(table, memory_bytes=400_000, algorithms=["cinlj", "meshjoin"])
    assert sorted(found.factors.by_algorithm) == ["cinlj", "meshjoin"]


@pytest.mark.usefixtures("short_trials")
def test_operators_that_cannot_carry_the_stream_are_named(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("tags", pa.list_(pa.int32()))])
    found = calibrate(table, memory_bytes=1_000_000, stream_schema=schema, algorithms=["inlj", "meshjoin"])
    for name in ("inlj", "meshjoin"):
        assert (name in found.left_out) != (name in found.factors.by_algorithm)
    assert found.left_out


def test_bad_arguments_of_calibrate(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    with pytest.raises(UnknownColumn, match="id"):
        calibrate(table, stream_schema=pa.schema({"other": pa.int64()}))
    with pytest.raises(SchemaMismatch, match="size"):
        calibrate(table, stream_schema=pa.schema({"id": pa.int64(), "size": pa.int64()}))
    with pytest.raises(InvalidArgument, match="memory_bytes=0"):
        calibrate(table, memory_bytes=0)
    buckets = stage(pa.table({"id": [1]}), tmp_path / "buckets", key="id", buckets=2)
    empty = next(buckets.bucket(bucket) for bucket in range(2) if buckets.bucket(bucket).num_pages == 0)
    with pytest.raises(EmptyTable):
        calibrate(empty)


# --- the file ------------------------------------------------------------


def test_what_is_saved_is_loaded(home: Path) -> None:
    save_calibration(some_calibration())
    assert calibration_path().parent == home
    assert load_calibration() == some_calibration()
    save_calibration(some_calibration())
    assert [path.name for path in home.iterdir()] == ["calibration.json"]


def test_where_the_file_is_without_a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEMISTREAM_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert calibration_path() == tmp_path / "settings" / "semistream" / "calibration.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert calibration_path() == tmp_path / ".config" / "semistream" / "calibration.json"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": 99}, "format 99"),
        ({"provenance": {"cpu": "abacus", "cores": 7}}, "another machine, 'abacus' with 7 cores"),
        ({"factors": {"meshjoin": {"unknown": 1}}}, "is not a calibration"),
        ({"factors": 3}, "is not a calibration"),
        ({"factors": {"meshjoin": {"row_s": []}}}, "is not a calibration"),
        ({"factors": {"meshjoin": {"row_s": -1}}}, "is not a calibration"),
        ({"factors": {"meshjoin": {"row_s": float("nan")}}}, "is not a calibration"),
    ],
)
def test_other_files_are_refused_in_one_line_with_the_remedy(changed: dict[str, object], said: str) -> None:
    path = save_calibration(some_calibration())
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(NotCalibrated, match=f"{said}.*semistream advise TABLE --calibrate") as raised:
        load_calibration()
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("home")
def test_no_file_and_no_json() -> None:
    with pytest.raises(NotCalibrated, match=r"not calibrated.*semistream advise TABLE --calibrate"):
        load_calibration()
    calibration_path().parent.mkdir(parents=True)
    calibration_path().write_text("{")
    with pytest.raises(NotCalibrated, match="is not a calibration"):
        load_calibration()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEMISTREAM_HOME", str(tmp_path / "file"))
    with pytest.raises(InvalidArgument, match="SEMISTREAM_HOME"):
        save_calibration(some_calibration())
