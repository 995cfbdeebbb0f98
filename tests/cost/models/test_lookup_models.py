"""Models of INLJ and CINLJ beside the operators, and the buffer pool by hand."""

import numpy as np
import pytest

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.clock import HDD
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import searches_of
from semistream.cost.model import model, predict
from semistream.cost.models.cache import aging_share
from semistream.cost.models.lookups import times_of_lookups
from semistream.cost.models.part_rates import PartRates, pool_misses
from semistream.storage import MasterTable
from tests.cost.models.scattered_joins import counts_per_tuple, make, scattered_case, scattered_table

NAMES = ("inlj", "cinlj")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return scattered_table(tmp_path_factory.mktemp("lookups") / "table", 10_000, page_bytes=2048)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("memory", [150_000, 300_000, 900_000])
def test_memory_is_what_the_operator_reports(table: MasterTable, name: str, memory: int) -> None:
    plan = model(name).plan(scattered_case(table, 0.0), memory, {})
    with make(name, table, memory) as op:
        counts_per_tuple(op, 0.0, warm_up=1, tuples=1500)
        measured = op.memory().components
    assert plan.memory.keys() == measured.keys()
    for component in plan.memory.keys() - {"stream buffer"}:
        assert plan.memory[component] == pytest.approx(measured[component], rel=0.02), component
    assert plan.memory_bytes <= memory


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("memory", [pytest.param(150_000, marks=pytest.mark.slow), 400_000])
def test_reads_of_inlj(table: MasterTable, exponent: float, memory: int) -> None:
    loop = model("inlj").plan(scattered_case(table, exponent), memory, {}).loop
    with make("inlj", table, memory) as op:
        counted = counts_per_tuple(op, exponent, warm_up=3000, tuples=6000)
    assert loop.pages / loop.tuples == pytest.approx(counted.pages, rel=0.04)
    assert loop.seeks / loop.tuples == pytest.approx(counted.seeks, rel=0.04)


def test_reads_of_cinlj(table: MasterTable) -> None:
    memory = 150_000
    loop = model("cinlj").plan(scattered_case(table, 1.0), memory, {}).loop
    with make("cinlj", table, memory) as op:
        counted = counts_per_tuple(op, 1.0, warm_up=6000, tuples=4000)
    assert loop.cache_share == pytest.approx(counted.cache_share, abs=0.03)
    assert loop.pages / loop.tuples == pytest.approx(counted.pages, rel=0.1)
    assert loop.seeks / loop.tuples == pytest.approx(counted.seeks, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_more_memory_is_never_slower(table: MasterTable, name: str) -> None:
    case = scattered_case(table, 1.0)
    rates = [predict(name, case, memory, HDD).tuples_per_s for memory in (150_000, 200_000, 400_000, 800_000)]
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


def test_a_pool_for_the_whole_table_reads_nothing(table: MasterTable) -> None:
    loop = model("inlj").plan(scattered_case(table, 0.0), 40_000_000, {}).loop
    assert (loop.seeks, loop.pages) == (0, 0)
    assert predict("inlj", scattered_case(table, 0.0), 40_000_000, HDD).at(100.0).times == (0.0, 0.0)


def test_a_cache_that_leaves_no_room_for_pages_is_refused(table: MasterTable) -> None:
    with pytest.raises(InvalidArgument, match=r"cache_share=0\.95"):
        model("cinlj").plan(scattered_case(table, 0.0), 1_000_000, {"cache_share": 0.95})


def test_a_pool_of_the_last_used_pages_that_is_followed() -> None:
    rates = np.arange(1, 201, dtype=np.float64) ** -0.8
    rates /= rates.sum()
    pool: dict[int, None] = {}
    misses = 0
    asked = np.random.default_rng(4).choice(rates.size, size=100_000, p=rates).tolist()
    for number, page in enumerate(asked):
        if page in pool:
            del pool[page]
        else:
            misses += number >= 20_000
            if len(pool) == 40:
                del pool[next(iter(pool))]
        pool[page] = None
    assert pool_misses(PartRates.each(rates), 40) == pytest.approx(misses / 80_000, rel=0.02)


def test_pools_of_nothing_and_of_everything() -> None:
    rates = np.array([0.5, 0.5, 0.0])
    assert pool_misses(PartRates.each(rates), 0) == 1
    assert pool_misses(PartRates.each(rates), 2) == 0
    equal = PartRates(np.array([0.01]), np.array([100.0]))  # those in the pool are as good as any
    assert pool_misses(equal, 30) == pytest.approx(0.7)


def test_pages_are_searched_as_many_at_once_as_fit() -> None:
    assert searches_of(100, 65_536, 300_000) == 25


def test_a_cache_for_all_keys_or_none() -> None:
    keys = KeyDistribution.zipf(1000, 1.0)
    assert aging_share(keys, 1000, 500) == 1
    assert aging_share(keys, 0, 500) == 0
    shares = [aging_share(keys, capacity, capacity) for capacity in (10, 50, 200, 800)]
    assert shares == sorted(shares)
    assert all(share < keys.share_of_top(capacity) for share, capacity in zip(shares, (10, 50, 200, 800), strict=True))


def test_tuples_that_come_faster_than_one_is_looked_up_wait_for_each_other() -> None:
    # Two tuples come while one is looked up, but nine of ten are hits.
    calm = times_of_lookups(0.1, 0.01, 1000, arrivals_per_s=50)
    busy = times_of_lookups(0.1, 0.01, 1000, arrivals_per_s=200)
    busier = times_of_lookups(0.1, 0.01, 1000, arrivals_per_s=800)
    assert calm.waiting_s == pytest.approx(0, abs=1e-9)
    assert calm.processing_s == pytest.approx(0.001, rel=0.1)
    assert 0 < busy.waiting_s < busier.waiting_s
    assert calm.processing_s < busy.processing_s < busier.processing_s
