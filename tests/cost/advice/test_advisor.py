"""The advisor: what it ranks first, what it leaves out and why, and what it says of targets that cannot be had."""

import json
import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import (
    BudgetTooSmall,
    EmptyTable,
    InvalidArgument,
    NotCalibrated,
    TargetOutOfReach,
    UnknownColumn,
    UnsupportedType,
)
from semistream.core.semantics import JoinSpec
from semistream.cost import model
from semistream.cost.advice import advisor, auto_choice
from semistream.cost.advice.advice import Advice
from semistream.cost.advice.alternatives import why_unusable
from semistream.cost.calibration.calibration_file import clock_named
from semistream.cost.clock import HDD, AlgorithmFactors, CostFactors, by_partition
from semistream.cost.loop import Loop
from semistream.operators import algorithm_names
from semistream.storage import MasterTable
from semistream.workloads.generated.master_table import master_table
from semistream.workloads.generated.streams import stream
from tests.cost.advice.fake_models import FakeLookup, FakeScan
from tests.depth import slow_unless

ROWS = 100_000
MEMORY_BYTES = 2 << 20


@pytest.fixture(scope="module", params=["heap", "clustered"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return ss.stage(master_table(ROWS), tmp_path_factory.mktemp("table") / "r", key="key", layout=request.param)


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return ss.stage(master_table(ROWS), tmp_path_factory.mktemp("clustered") / "r", key="key", layout="clustered")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_MODELS", {"meshjoin": FakeScan(), "inlj": FakeLookup()})


def checked(advice: Advice) -> Advice:
    """Return advice whose JSON can be read back, and in which nothing but an unlimited rate is left open."""
    content = json.loads(json.dumps(advice.as_dict(), allow_nan=False))
    assert content["recommended"].items() >= content["alternatives"][0].items()
    for each, given in zip(content["alternatives"], advice.alternatives, strict=True):
        assert each["tuples_per_s"] is not None or math.isinf(given.tuples_per_s)
        assert sum(each["memory"].values()) <= each["budget_bytes"]
        assert 0 <= each["cache_share"] <= 1
    return advice


@pytest.mark.usefixtures("fakes")
def test_with_a_memory_the_highest_rate_goes_first(table: MasterTable) -> None:
    advice = checked(ss.advise(table, memory=MEMORY_BYTES, clock="hdd"))
    rates = [each.tuples_per_s for each in advice.alternatives]
    assert advice.recommended.tuples_per_s >= 0.95 * max(rates)
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert advice.recommended.prediction.budget_bytes == MEMORY_BYTES
    assert {each.meets_rate for each in advice.alternatives} == {None}
    assert {each.algorithm for each in advice.alternatives} == {"meshjoin", "inlj"}
    assert {each.page_bytes for each in advice.alternatives} == {8192, 16384, 65536, 262144}
    assert any("exponent 1" in assumed for assumed in advice.assumptions)


@pytest.mark.usefixtures("fakes")
def test_with_a_rate_the_least_memory_goes_first(table: MasterTable) -> None:
    advice = checked(ss.advise(table, rate=300.0, clock=HDD))
    needed = [each.least_memory_bytes for each in advice.alternatives]
    assert all(size is not None for size in needed)
    assert needed[0] <= 1.05 * min(needed)  # type: ignore[operator, type-var]
    assert needed[1:] == sorted(needed[1:])  # type: ignore[type-var]
    for each in advice.alternatives:
        assert each.meets_rate
        assert each.tuples_per_s >= 300
        assert each.prediction.times is not None


@pytest.mark.usefixtures("fakes")
def test_with_both_what_meets_the_rate_goes_by_memory_then_the_rest_by_rate(table: MasterTable) -> None:
    advice = checked(ss.advise(table, rate=1_000.0, memory=MEMORY_BYTES, clock="hdd"))
    meets = [bool(each.meets_rate) for each in advice.alternatives]
    assert meets == sorted(meets, reverse=True)
    assert True in meets
    assert False in meets
    for each in advice.alternatives:
        assert each.meets_rate == (each.tuples_per_s >= 1_000)
        assert (each.least_memory_bytes is not None) == each.meets_rate
        assert (each.prediction.times is not None) == each.meets_rate
    rest = [each.tuples_per_s for each in advice.alternatives if not each.meets_rate]
    assert rest == sorted(rest, reverse=True)


@pytest.mark.usefixtures("fakes")
def test_the_table_as_it_is_goes_before_what_is_hardly_better(table: MasterTable) -> None:
    advice = ss.advise(table, memory=MEMORY_BYTES, clock="hdd")
    as_it_is = [each for each in advice.alternatives if not each.stage_again]
    assert {(each.layout, each.page_bytes) for each in as_it_is} == {(table.layout, table.page_bytes)}
    assert not advice.recommended.stage_again  # pages of another size change the fake scan by less than 5%


@pytest.mark.usefixtures("fakes")
def test_a_memory_below_every_minimum_names_the_least(table: MasterTable) -> None:
    with pytest.raises(
        BudgetTooSmall, match=r"memory=100 bytes is too small for every algorithm .*: give at least"
    ) as e:
        ss.advise(table, memory=100, clock="hdd")
    assert e.value.least_bytes is not None
    assert ss.advise(table, memory=e.value.least_bytes, clock="hdd").alternatives


@pytest.mark.usefixtures("fakes")
def test_a_rate_that_no_memory_reaches_names_the_highest(table: MasterTable) -> None:
    for arguments in ({}, {"memory": MEMORY_BYTES}):
        with pytest.raises(TargetOutOfReach, match=r"rate=1e\+12 tuples/s is out of reach") as raised:
            ss.advise(table, rate=1e12, clock=_SlowClock(), **arguments)  # type: ignore[arg-type]
        assert raised.value.highest_tuples_per_s
        assert f"{raised.value.highest_tuples_per_s:,.0f}" in str(raised.value)
        assert "\n" not in str(raised.value)


class _SlowClock:
    """Charges tuples too, so that nothing is without limit."""

    name = "slow clock"

    def loop_s(self, algorithm: str, loop: Loop) -> float:
        return HDD.loop_s(algorithm, loop) + 1e-6 * loop.tuples


@pytest.mark.usefixtures("fakes")
def test_a_rate_that_more_memory_would_reach_says_so(table: MasterTable) -> None:
    reached = ss.advise(table, memory=MEMORY_BYTES, clock="hdd").recommended.tuples_per_s
    advice = ss.advise(table, memory=MEMORY_BYTES, rate=reached * 3, clock="hdd")
    assert advice.recommended.meets_rate is False
    assert advice.why.startswith("No alternative keeps up with")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidArgument, "give rate=, memory= or both"),
        ({"rate": 0.0}, InvalidArgument, "rate=0.0 must be above 0"),
        ({"rate": math.nan}, InvalidArgument, "rate=nan must be above 0"),
        ({"memory": "much"}, InvalidArgument, "memory='much' is not a size"),
        ({"memory": "1MB", "clock": "sundial"}, InvalidArgument, "clock='sundial' is unknown: use one of machine, hdd"),
        ({"memory": "1MB", "on": "nothing"}, UnknownColumn, "the master table has no column 'nothing'"),
        ({"memory": "1MB", "how": "outer"}, InvalidArgument, "how='outer'"),
        ({"memory": "1MB", "columns": ["nothing"]}, UnknownColumn, "'nothing'"),
        ({"memory": "1MB", "skew": -1.0}, InvalidArgument, "skew=-1.0 must be from 0 to 10: give"),
        ({"memory": "1MB", "skew": 50.0}, InvalidArgument, "skew=50.0 must be from 0 to 10: give"),
        ({"memory": "1MB", "skew": math.nan}, InvalidArgument, "skew=nan must be from 0 to 10: give"),
        ({"memory": "1MB", "missing_share": 2.0}, InvalidArgument, "missing_share=2.0 must be from 0 to 1: give"),
        ({"memory": "1MB", "missing_share": math.nan}, InvalidArgument, "missing_share=nan must be from 0 to 1: give"),
        ({"memory": "1MB", "cores": 0}, InvalidArgument, "cores=0 must be at least 1"),
        ({"memory": "1MB", "sample": []}, InvalidArgument, "the sample of the stream has no tuples"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_one_clear_line(
    clustered: MasterTable, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        ss.advise(clustered, **{"clock": "hdd", **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_a_table_without_rows_needs_no_advice(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"key": [1]}), tmp_path / "r", key="key", buckets=4)
    empty = next(part for part in map(table.bucket, range(4)) if part.num_rows == 0)
    with pytest.raises(EmptyTable, match="has no rows"):
        ss.advise(empty, memory="1MB", clock="hdd")


def test_an_uncalibrated_machine_is_told_what_to_do(
    clustered: MasterTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMISTREAM_HOME", str(tmp_path))
    with pytest.raises(NotCalibrated, match=r"this machine is not calibrated.*--calibrate.*--clock hdd"):
        clock_named("machine")
    with pytest.raises(NotCalibrated):
        ss.advise(clustered, memory="1MB")


@pytest.mark.usefixtures("fakes")
def test_algorithms_without_factors_are_left_out_with_the_reason(clustered: MasterTable) -> None:
    clock = CostFactors({"meshjoin": AlgorithmFactors(loop_s=1e-4, row_s=1e-8, disk_tuple_s=1e-6)})
    advice = ss.advise(clustered, memory=MEMORY_BYTES, clock=clock)
    assert {each.algorithm for each in advice.alternatives} == {"meshjoin"}
    assert "not calibrated" in advice.left_out["inlj"]
    with pytest.raises(NotCalibrated, match="no algorithm can be predicted"):
        ss.advise(clustered, memory=MEMORY_BYTES, clock=CostFactors({}))


@pytest.mark.usefixtures("fakes")
def test_a_sample_is_used_and_what_is_given_overrides_it(clustered: MasterTable) -> None:
    tuples = stream(20_000, key_domain=ROWS, zipf_exponent=1.0, missing_share=0.2, seed=3)
    advice = ss.advise(clustered, memory=MEMORY_BYTES, clock="hdd", sample=tuples)
    assert advice.stream is not None
    assert advice.stream.exponent == pytest.approx(1.0, abs=0.1)
    assert advice.recommended.case.stream.missing_share == pytest.approx(0.2, abs=0.03)
    assert all("reading" in assumed for assumed in advice.assumptions)  # nothing is assumed of the stream
    assert advice.recommended.case.spec.stream_schema.names == ["key", "sale", "quantity"]
    again = stream(20_000, key_domain=ROWS, zipf_exponent=1.0, seed=3).read_all()
    given = ss.advise(clustered, memory=MEMORY_BYTES, clock="hdd", sample=again, skew=0.0, missing_share=0.5)
    shape = given.recommended.case.stream
    assert shape.missing_share == 0.5
    assert float(shape.keys.probability.max()) == pytest.approx(float(shape.keys.probability.min()))


@pytest.mark.usefixtures("fakes")
def test_buckets_are_at_least_the_cores(clustered: MasterTable) -> None:
    assert ss.advise(clustered, memory=MEMORY_BYTES, clock="hdd", cores=5).buckets == 5
    assert ss.advise(clustered, memory=MEMORY_BYTES, clock="hdd", cores=10**6).buckets <= clustered.num_pages


@pytest.mark.parametrize("table", [slow_unless(False, "heap"), "clustered"], indirect=True)
def test_the_recommended_settings_can_be_given_to_an_operator(table: MasterTable) -> None:
    """With the real models: what they plan for the table as it is, the operators take."""
    schema = stream(1, key_domain=ROWS).schema
    advice = checked(ss.advise(table, memory=MEMORY_BYTES, clock="hdd", stream_schema=schema))
    tried = set()
    for each in advice.alternatives:
        if not each.stage_again:
            options: dict[str, Any] = dict(each.settings)
            op = ss.operator(each.algorithm, table, schema, on="key", memory=MEMORY_BYTES, **options)
            assert op.memory().total_bytes <= MEMORY_BYTES
            op.close()
            tried.add(each.algorithm)
    expected = set(algorithm_names()) if table.layout == "clustered" else {"meshjoin", "cmeshjoin", "ssbj"}
    assert tried == expected
    assert set(algorithm_names()) == {each.algorithm for each in advice.alternatives}


@pytest.mark.parametrize("nested_stream", [False, True])
@pytest.mark.parametrize("columns", [["name"], ["tags"]])
@pytest.mark.parametrize("name", algorithm_names())
def test_what_is_said_to_be_unusable_is_what_an_operator_refuses(
    tmp_path: Path, name: str, columns: list[str], nested_stream: bool
) -> None:
    rows = pa.table({"id": [1], "name": ["x"], "tags": [["a"]]})
    table = ss.stage(rows, tmp_path / "r", key="id")
    schema = pa.schema([("id", pa.int64()), *([("items", pa.list_(pa.int64()))] if nested_stream else [])])
    why = why_unusable(name, JoinSpec.resolve(schema, rows.schema, "id", columns=columns), "clustered", on_key=True)
    try:
        ss.operator(name, table, schema, on="id", columns=columns, memory="8MB").close()
    except UnsupportedType:
        assert why is not None
    else:
        assert why is None or name == "sweepjoin"  # whose cache and window are not known to carry them


def test_joins_on_other_columns_and_conditions_have_fewer_choices(clustered: MasterTable) -> None:
    schema = pa.schema({"a": pa.int64()})
    other = JoinSpec.resolve(schema, pa.schema({"b": pa.int64()}), {"a": "b"})
    assert why_unusable("hybridjoin", other, "clustered", on_key=False) is not None
    assert why_unusable("ssbj", other, "clustered", on_key=False) is None
    no_index = why_unusable("inlj", other, "heap", on_key=True)
    assert no_index == "it looks keys up, which a table with layout 'heap' has no index for"
    assert why_unusable("meshjoin", other, "heap", on_key=True) is None
    condition = JoinSpec.resolve(schema, pa.schema({"b": pa.int64()}), None, condition=ss.compare("a", "<", "b"))
    usable = [name for name in algorithm_names() if why_unusable(name, condition, "heap", on_key=True) is None]
    assert usable == ["meshjoin"]


class _Calibrated:
    """A machine on which one algorithm is faster than all others."""

    def __init__(self, fast: str) -> None:
        slow = AlgorithmFactors(loop_s=1.0, tuple_s=1.0)
        factors = {name: slow for name in [*algorithm_names(), by_partition("ssbj")]}
        self.factors = CostFactors({**factors, fast: _FAST, by_partition(fast): _FAST})


_FAST = AlgorithmFactors(loop_s=1e-9, tuple_s=1e-9)


@pytest.mark.parametrize("fast", ["meshjoin", "ssbj", "chybridjoin", "inlj"])
def test_auto_is_the_fastest_on_a_calibrated_machine(
    clustered: MasterTable, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    monkeypatch.setattr(auto_choice, "load_calibration", lambda: _Calibrated(fast))
    op = ss.operator("auto", clustered, pa.schema({"key": pa.int64()}), on="key", memory="8MB")
    assert op.name == fast
    op.close()


def test_auto_is_a_rule_of_thumb_elsewhere(table: MasterTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMISTREAM_HOME", str(tmp_path))
    schema = pa.schema({"key": pa.int64()})
    batch = pa.record_batch({"key": np.array([5, 7, ROWS + 1])})
    op = ss.operator("auto", table, schema, on="key", how="semi", memory="8MB")
    assert op.name == ("sweepjoin" if table.layout == "clustered" else "ssbj")
    assert sorted(row["key"] for out in ss.run(op, [batch]) for row in out.to_pylist()) == [5, 7]
    with_b = ss.operator("auto", table, schema, on="key", memory="8MB", b=2)
    assert with_b.name == "ssbj"
    with_b.close()
    with pytest.raises(InvalidArgument, match="no algorithm for this join has the options 'colour'"):
        ss.operator("auto", table, schema, on="key", memory="8MB", colour="red")


class _Failing:
    """A cost model that only raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def plan(self, *_: object) -> Any:
        raise self._error

    settings_to_try = plan


@pytest.mark.parametrize(
    "error", [BudgetTooSmall("too small"), InvalidArgument("no such setting"), UnsupportedType("no such type")]
)
def test_auto_passes_over_models_that_cannot_say(
    clustered: MasterTable, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(auto_choice, "load_calibration", lambda: _Calibrated("meshjoin"))
    monkeypatch.setitem(model._MODELS, "meshjoin", _Failing(error))
    with closing(ss.operator("auto", clustered, pa.schema({"key": pa.int64()}), on="key", memory="8MB")) as op:
        assert op.name != "meshjoin"
    monkeypatch.setattr(model, "_MODELS", dict.fromkeys(algorithm_names(), _Failing(error)))
    with closing(ss.operator("auto", clustered, pa.schema({"key": pa.int64()}), on="key", memory="8MB")) as op:
        assert op.name == "sweepjoin"  # by the rule of thumb


def test_auto_does_not_hide_a_defect_of_a_model(clustered: MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_choice, "load_calibration", lambda: _Calibrated("meshjoin"))
    monkeypatch.setitem(model._MODELS, "meshjoin", _Failing(ZeroDivisionError("a defect")))
    with pytest.raises(ZeroDivisionError, match="a defect"):
        ss.operator("auto", clustered, pa.schema({"key": pa.int64()}), on="key", memory="8MB")


def test_auto_works_beside_columns_of_lists_on_a_calibrated_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_choice, "load_calibration", lambda: _Calibrated("ssbj"))
    rows = pa.table({"key": ["a", "b"], "tags": [["x"], ["y"]], "name": ["p", "q"]})
    table = ss.stage(rows, tmp_path / "r", key="key")
    with closing(
        ss.operator("auto", table, pa.schema({"key": pa.utf8()}), on="key", columns=["name"], memory="8MB")
    ) as op:
        assert op.name == "ssbj"


def test_auto_works_for_an_empty_bucket_on_a_calibrated_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_choice, "load_calibration", lambda: _Calibrated("meshjoin"))
    table = ss.stage(pa.table({"key": [1]}), tmp_path / "one", key="key", buckets=2)
    empty = next(table.bucket(number) for number in (0, 1) if table.bucket(number).num_rows == 0)
    op = ss.operator("auto", empty, pa.schema({"key": pa.int64()}), on="key", memory="8MB")
    assert list(ss.run(op, [pa.record_batch({"key": [1, 2]})])) == []


@pytest.mark.parametrize("name", [slow_unless(False, "cmeshjoin"), "chybridjoin"])
def test_with_little_memory_a_cache_may_be_small(
    clustered: MasterTable, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The least memory for a low rate has room for a small cache, not for the largest that is tried."""
    monkeypatch.setattr(model, "_MODELS", {name: model.model(name)})
    advice = checked(ss.advise(clustered, rate=1.0, clock="hdd"))
    assert {each.algorithm for each in advice.alternatives} == {name}
    least = advice.recommended.least_memory_bytes
    assert least is not None
    assert ss.advise(clustered, memory=least, clock="hdd").recommended.prediction.budget_bytes == least


@pytest.mark.usefixtures("fakes")
def test_the_clock_of_a_disk_is_told_to_count_reading_alone(clustered: MasterTable) -> None:
    assert any("only reading" in each for each in ss.advise(clustered, memory=MEMORY_BYTES, clock="hdd").assumptions)
    assert not any("reading" in each for each in ss.advise(clustered, rate=1.0, clock=_SlowClock()).assumptions)


@pytest.mark.usefixtures("fakes")
def test_an_alternative_that_is_passed_over_although_better_says_why(clustered: MasterTable) -> None:
    best = ss.advise(clustered, memory=MEMORY_BYTES, clock="hdd").recommended
    other = replace(best, prediction=replace(best.prediction, tuples_per_s=1.04 * best.tuples_per_s))
    assert advisor._beside(best, other) == (
        "is predicted to reach 104% of its rate, but the table would have to be staged again"
    )
    without_limit = replace(best, prediction=replace(best.prediction, tuples_per_s=math.inf))
    assert advisor._beside(without_limit, best) == f"is predicted to reach {best.tuples_per_s:,.0f} tuples/s"
