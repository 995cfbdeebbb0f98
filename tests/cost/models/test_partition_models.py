"""Models of HYBRIDJOIN and CHYBRIDJOIN beside the operators: memory, reads, and where they refuse."""

from dataclasses import replace
from pathlib import Path

import pytest

from semistream.bench.measurements.joins.saturated import PreparedStream, Saturated
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.clock import HDD
from semistream.cost.join_case import StreamShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model, predict
from semistream.cost.models.partitions import PartitionMemory, partitions_of
from semistream.storage import MasterTable
from semistream.workloads import master_table, synthetic
from tests.cost.models.scattered_joins import counts_per_tuple, make, scattered_case, scattered_table
from tests.operators.inside import inside

NAMES = ("hybridjoin", "chybridjoin")
ROWS = 50_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return scattered_table(tmp_path_factory.mktemp("partitions") / "table", ROWS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("memory", [300_000, 1_000_000, 4_000_000])
def test_memory_is_what_the_operator_reports(table: MasterTable, name: str, memory: int) -> None:
    plan = model(name).plan(scattered_case(table, 0.0), memory, {})
    with make(name, table, memory) as op:
        counts_per_tuple(op, 0.0, warm_up=1, tuples=1000)
        measured = op.memory().components
        assert plan.settings["b"] == inside(op).b
        assert plan.window_tuples == pytest.approx(inside(op).stream.capacity_tuples, rel=0.02)
        assert partitions_of(scattered_case(table, 0.0).table, inside(op).b) == len(inside(op).disk._partitions)
    assert plan.memory.keys() == measured.keys()
    for component in plan.memory.keys() - {"stream buffer"}:
        assert plan.memory[component] == pytest.approx(measured[component], rel=0.02), component
    assert plan.memory_bytes <= memory


@pytest.mark.parametrize(("name", "warm_up"), [("hybridjoin", 60_000), ("chybridjoin", 80_000)])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("memory", [pytest.param(400_000, marks=pytest.mark.slow), 1_000_000])
def test_reads_are_those_of_the_operator(
    table: MasterTable, name: str, warm_up: int, exponent: float, memory: int
) -> None:
    loop = model(name).plan(scattered_case(table, exponent), memory, {}).loop
    with make(name, table, memory) as op:
        counted = counts_per_tuple(op, exponent, warm_up=warm_up, tuples=50_000)
    assert loop.seeks / loop.tuples == pytest.approx(counted.seeks, rel=0.1)
    assert loop.reads / loop.tuples == pytest.approx(counted.reads, rel=0.1)
    assert loop.pages / loop.tuples == pytest.approx(counted.pages, rel=0.1)
    assert loop.bytes_read / loop.tuples == pytest.approx(counted.bytes_read, rel=0.1)
    assert loop.results / loop.tuples == pytest.approx(counted.results, rel=0.1)
    assert loop.cache_share == pytest.approx(counted.cache_share, abs=0.03)


def test_a_read_takes_in_the_page_beside_where_memory_allows(table: MasterTable) -> None:
    case = scattered_case(table, 0.0)
    for memory, reads in ((400_000, 2), (4_000_000, 1)):
        loop = model("hybridjoin").plan(case, memory, {"b": 8}).loop
        assert loop.reads == pytest.approx(reads, rel=0.1)
        assert loop.seeks == 1
        with make("hybridjoin", table, memory, b=8) as op:
            counted = counts_per_tuple(op, 0.0, warm_up=20_000, tuples=40_000)
        assert counted.reads / counted.seeks == pytest.approx(loop.reads, rel=0.1)


def test_a_table_that_is_sorted_by_demand_is_read_less_often(table: MasterTable) -> None:
    scattered = scattered_case(table, 1.0)
    in_order = scattered._replace(stream=StreamShape(keys=KeyDistribution.zipf(ROWS, 1.0, in_order=True)))
    loop, scattered_loop = (model("hybridjoin").plan(case, 400_000, {}).loop for case in (in_order, scattered))
    with make("hybridjoin", table, 400_000) as op:
        busy = Saturated(op, PreparedStream(synthetic(ROWS, zipf_exponent=1.0, scatter_hot_keys=False).stream(0)))
        busy.run(tuples=25_000)
        work = busy.run(tuples=35_000)
    assert loop.pages / loop.tuples == pytest.approx(work.counted.pages_read / work.tuples, rel=0.2)
    assert loop.pages / loop.tuples < 0.9 * scattered_loop.pages / scattered_loop.tuples


def test_an_appended_file_costs_a_seek_and_a_page_more(tmp_path: Path) -> None:
    one = scattered_table(tmp_path / "one", 10_000)
    two = one.append(master_table(one.num_rows, seed=5))
    memory = 400_000
    plan = model("hybridjoin").plan(scattered_case(two, 0.0), memory, {"b": 4})
    with make("hybridjoin", two, memory, b=4) as op:
        counted = counts_per_tuple(op, 0.0, warm_up=20_000, tuples=40_000)
        loads = inside(op).disk.partitions_read / op.metrics.tuples_answered
    assert plan.loop.seeks == plan.loop.reads == 2  # half of the pages of a partition are in each file
    assert counted.seeks / loads == pytest.approx(2, rel=0.1)
    assert counted.reads / loads == pytest.approx(2, rel=0.1)
    assert counted.pages / loads == pytest.approx(plan.loop.pages, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_more_memory_is_never_slower(table: MasterTable, name: str) -> None:
    case = scattered_case(table, 1.0)
    rates = [predict(name, case, memory, HDD).tuples_per_s for memory in (300_000, 600_000, 1_200_000, 2_400_000)]
    assert rates == sorted(rates)


@pytest.mark.parametrize("name", NAMES)
def test_too_small_a_budget_names_the_least(table: MasterTable, name: str) -> None:
    case = scattered_case(table, 0.0)
    with pytest.raises(BudgetTooSmall, match=name) as predicted:
        model(name).plan(case, 20_000, {})
    with pytest.raises(BudgetTooSmall) as measured:
        make(name, table, 20_000)
    assert predicted.value.least_bytes == pytest.approx(measured.value.least_bytes, rel=0.02)
    with pytest.raises(BudgetTooSmall):
        model(name).settings_to_try(case, 20_000)


@pytest.mark.parametrize("name", [*NAMES, "inlj", "cinlj", "sweepjoin"])
def test_what_no_operator_would_do_is_refused(table: MasterTable, name: str) -> None:
    case = scattered_case(table, 0.0)
    with pytest.raises(InvalidArgument, match="layout 'heap'"):
        model(name).plan(case._replace(table=replace(case.table, layout="heap")), 1_000_000, {})
    with pytest.raises(InvalidArgument, match="no setting 'colour'"):
        model(name).plan(case, 1_000_000, {"colour": 1})


@pytest.mark.parametrize("name", [*NAMES, "inlj", "cinlj", "sweepjoin"])
def test_settings_to_try_can_all_be_planned(table: MasterTable, name: str) -> None:
    case = scattered_case(table, 1.0)
    settings = model(name).settings_to_try(case, 1_000_000)
    assert settings
    for chosen in settings[:: max(1, len(settings) // 8)]:
        plan = model(name).plan(case, 1_000_000, chosen)
        assert {key: plan.settings[key] for key in chosen} == chosen
        assert plan.memory_bytes <= 1_000_000


def test_without_a_cache_chybridjoin_is_hybridjoin(table: MasterTable) -> None:
    case = scattered_case(table, 1.0)
    cached = model("chybridjoin").plan(case, 1_000_000, {"cache_share": 0.0})
    assert cached.loop == model("hybridjoin").plan(case, 1_000_000, {}).loop


def test_k_of_eq_2_is_two_for_equal_partitions(table: MasterTable) -> None:
    case = scattered_case(table, 0.0)
    plan = model("hybridjoin").plan(case, 1_000_000, {"b": 4})
    k = plan.loop.disk_tuples / (plan.window_tuples * 4 / case.table.pages)
    assert plan.loop.seeks == 1
    assert k == pytest.approx(2, rel=0.05)


def test_a_window_for_all_tuples_of_a_partition_at_a_time(table: MasterTable) -> None:
    case = scattered_case(table, 0.0)
    memory = PartitionMemory.of("hybridjoin", case, 60_000_000, case.table.pages)
    plan = model("hybridjoin").plan(case, 60_000_000, {"b": case.table.pages})
    assert memory.partitions == 1
    assert plan.loop.pages == case.table.pages
    assert plan.loop.disk_tuples == pytest.approx(plan.window_tuples, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_times_at_most_of_the_rate(table: MasterTable, name: str) -> None:
    case = scattered_case(table, 1.0)
    rate = predict(name, case, 1_000_000, HDD).tuples_per_s
    slow, fast = (predict(name, case, 1_000_000, HDD).at(share * rate) for share in (0.5, 0.9))
    assert slow.times is not None
    assert fast.times is not None
    # A slow stream is not answered sooner: the disk reads on, and as long for fewer.
    assert fast.times.processing_s == pytest.approx(slow.times.processing_s, rel=0.1)
    assert fast.times.waiting_s == pytest.approx(fast.loop_s / 2)
    assert predict(name, case, 1_000_000, HDD).at(1.1 * rate).times is None
