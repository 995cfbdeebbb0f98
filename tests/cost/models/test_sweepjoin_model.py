"""The model of SWEEPJOIN beside the operator, and its sweeps by hand."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.clock import HDD
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model, predict
from semistream.cost.models.cache import counted_share
from semistream.storage import MasterTable, stage
from semistream.workloads import STREAM_SCHEMA
from tests.cost.models.scattered_joins import counts_per_tuple, make, scattered_case, scattered_table
from tests.operators.inside import inside

MEMORIES = (200_000, 600_000, 2_000_000)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return scattered_table(tmp_path_factory.mktemp("sweeps") / "table", 20_000)


@pytest.mark.parametrize("memory", MEMORIES)
def test_memory_is_what_the_operator_reports(table: MasterTable, memory: int) -> None:
    plan = model("sweepjoin").plan(scattered_case(table, 0.0), memory, {})
    with make("sweepjoin", table, memory) as op:
        assert plan.settings["w"] == inside(op).w
        capacity_bytes = inside(op).parts["cache"].capacity_bytes
        counts_per_tuple(op, 0.0, warm_up=1, tuples=1000)
        measured = op.memory().components
    assert plan.memory["hot rows"] == pytest.approx(capacity_bytes, rel=0.02)
    assert plan.memory.keys() == measured.keys()
    for component in plan.memory.keys() - {"stream buffer", "hot rows"}:
        assert plan.memory[component] == pytest.approx(measured[component], rel=0.02), component
    assert plan.memory_bytes <= memory


def test_columns_that_cannot_be_used_in_place_need_no_addresses(tmp_path: Path) -> None:
    keys = list(range(5000))
    master = pa.table({"key": keys, "list": [[key] for key in keys], "name": ["x" * 40] * len(keys)})
    table = stage(master, tmp_path / "lists", key="key", layout="clustered", page_bytes=2048)
    index_bytes = []
    for columns in (["list"], ["name"]):
        spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key", columns=columns)
        plan = model("sweepjoin").plan(scattered_case(table, 0.0)._replace(spec=spec), 600_000, {})
        with make("sweepjoin", table, 600_000, columns=columns) as op:
            assert plan.settings["w"] == inside(op).w
            assert plan.memory["index"] == op.memory().components["index"]
        index_bytes.append(plan.memory["index"])
    assert index_bytes[0] < index_bytes[1]


@pytest.mark.parametrize("exponent", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_reads_and_windows_are_those_of_the_operator(table: MasterTable, exponent: float) -> None:
    memory = 250_000
    loop = model("sweepjoin").plan(scattered_case(table, exponent), memory, {}).loop
    with make("sweepjoin", table, memory, io="drop_behind") as op:  # the table was just written
        counted = counts_per_tuple(op, exponent, warm_up=30_000, tuples=12_000)
        windows = op.metrics.tuples_answered / op.metrics.steps
    assert loop.tuples == pytest.approx(windows, rel=0.08)  # its first windows learn
    assert loop.cache_share == pytest.approx(counted.cache_share, abs=0.02)
    assert loop.pages / loop.tuples == pytest.approx(counted.pages, rel=0.06)
    assert loop.seeks / loop.tuples == pytest.approx(counted.seeks, rel=0.06)
    assert loop.reads / loop.tuples == pytest.approx(counted.reads, rel=0.1)


def test_one_tuple_reads_its_page_and_many_read_all_in_one_go(table: MasterTable) -> None:
    case = scattered_case(table, 0.0)
    one = model("sweepjoin").plan(case, 1_000_000, {"w": 1, "cache_share": 0.0}).loop
    assert one.tuples == 1
    assert one.pages == pytest.approx(1, rel=0.05)
    assert one.seeks == pytest.approx(1, rel=0.05)
    many = model("sweepjoin").plan(case, 200_000_000, {"cache_share": 0.0}).loop
    assert many.pages == pytest.approx(case.table.pages, rel=0.01)
    assert many.seeks < 0.01 * many.pages


def test_windows_shrink_when_their_rows_do_not_fit(table: MasterTable) -> None:
    plan = model("sweepjoin").plan(scattered_case(table, 0.0), 1_000_000, {})
    assert plan.settings["w"] / 8 < plan.loop.tuples < plan.settings["w"]
    skewed = model("sweepjoin").plan(scattered_case(table, 1.5), 1_000_000, {})
    assert skewed.loop.tuples == skewed.settings["w"]


def test_more_memory_is_never_slower(table: MasterTable) -> None:
    case = scattered_case(table, 1.0)
    rates = [predict("sweepjoin", case, memory, HDD).tuples_per_s for memory in (*MEMORIES, 4_000_000)]
    assert rates == sorted(rates)


def test_too_small_a_budget_names_the_least(table: MasterTable) -> None:
    case = scattered_case(table, 0.0)
    with pytest.raises(BudgetTooSmall, match="sweepjoin") as predicted:
        model("sweepjoin").plan(case, 20_000, {})
    with pytest.raises(BudgetTooSmall) as measured:
        make("sweepjoin", table, 20_000)
    assert predicted.value.least_bytes == pytest.approx(measured.value.least_bytes, rel=0.02)
    with pytest.raises(BudgetTooSmall):
        model("sweepjoin").settings_to_try(case, 20_000)
    with pytest.raises(InvalidArgument, match="cache_share=2"):
        model("sweepjoin").plan(case, 1_000_000, {"cache_share": 2})


def test_a_sweep_takes_as_long_as_its_tuples_take_to_arrive(table: MasterTable) -> None:
    case = scattered_case(table, 0.0)
    rate = predict("sweepjoin", case, 600_000, HDD).tuples_per_s
    at = {share: predict("sweepjoin", case, 600_000, HDD).at(share * rate) for share in (0.7, 0.95)}
    slow, fast = at[0.7].times, at[0.95].times
    assert slow is not None
    assert fast is not None
    assert slow.processing_s < fast.processing_s <= at[0.95].loop_s
    assert fast.waiting_s == pytest.approx(fast.processing_s / 2)


def test_counts_of_a_sample_by_hand() -> None:
    # Two kinds of keys, three tuples and one on average; there is room for those that were counted twice or more.
    keys = KeyDistribution(np.array([10.0, 30.0]), np.array([0.05, 1 / 60]))
    often, rarely = 1 - np.exp(-3) * 4, 1 - np.exp(-1) * 2
    capacity = 10 * often + 30 * rarely
    assert counted_share(keys, capacity, 60) == pytest.approx(0.5 * often + 0.5 * rarely)
    assert counted_share(keys, 0, 60) == 0
    assert counted_share(keys, 40, 60) == 1
    assert 0.2 < counted_share(keys, 10, 1e9) <= 0.5  # counters that are full tell nothing apart
