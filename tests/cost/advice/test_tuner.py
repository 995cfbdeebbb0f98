"""The tuner: its answers against those that a full search gives, on a model that can be worked out by hand."""

import math

import pyarrow as pa
import pytest

from semistream.core.errors import BudgetTooSmall, InvalidArgument, TargetOutOfReach
from semistream.core.semantics import JoinSpec
from semistream.cost import model
from semistream.cost.advice.tuner import SettingRange, SettingSearch, highest_rate, least_budget, least_memory
from semistream.cost.clock import HDD
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import predict
from tests.cost.advice.fake_models import TUPLE_BYTES, FakeLookup, FakeScan

PAGES = 400
PAGE_BYTES = 65_536
MEMORY_BYTES = 4 << 20


@pytest.fixture(autouse=True)
def fake_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_MODELS", {"scan": FakeScan(), "lookup": FakeLookup()})


@pytest.fixture
def case() -> JoinCase:
    schema = pa.schema({"key": pa.int64()})
    return JoinCase(
        table=TableShape(rows=PAGES * 500, pages=PAGES, num_bytes=PAGES * PAGE_BYTES),
        stream=StreamShape(keys=KeyDistribution.zipf(PAGES * 500, 1.0)),
        spec=JoinSpec.resolve(schema, schema, "key"),
    )


def rate(b: float, memory_bytes: float) -> float:
    """The fake scan's rate in closed form: w / c_loop (S3 Eq. 3)."""
    w = (memory_bytes - b * PAGE_BYTES) / TUPLE_BYTES / (PAGES / b)
    return w / (HDD.seek_s + b * PAGE_BYTES / HDD.bytes_per_s)


def memory_for(b: float, tuples_per_s: float) -> float:
    """S3 Eq. 6 put into Eq. 1: the memory at which the fake scan has exactly this rate."""
    w = tuples_per_s * (HDD.seek_s + b * PAGE_BYTES / HDD.bytes_per_s)
    return b * PAGE_BYTES + w * PAGES / b * TUPLE_BYTES


FITTING = range(1, MEMORY_BYTES // PAGE_BYTES)


def good_range(name: str, case: JoinCase, within: float = 0.05) -> dict[str, SettingRange]:
    """Return the settings whose rate is at most so much below the best."""
    search = SettingSearch(name, case, MEMORY_BYTES, HDD)
    return search.good_range((1 - within) * search.best().tuples_per_s)


def test_the_highest_rate_is_that_of_the_best_setting(case: JoinCase) -> None:
    best = highest_rate("scan", case, MEMORY_BYTES, HDD)
    expected = max(FITTING, key=lambda b: rate(b, MEMORY_BYTES))
    assert best.plan.settings == {"b": expected}
    assert best.tuples_per_s == pytest.approx(rate(expected, MEMORY_BYTES))
    assert best.budget_bytes == MEMORY_BYTES
    assert 1 < expected < FITTING[-1]  # S3 figure 5b: a maximum inside
    assert best.times is None


def test_times_are_told_for_a_rate_that_is_kept_up_with(case: JoinCase) -> None:
    highest = highest_rate("scan", case, MEMORY_BYTES, HDD).tuples_per_s
    assert highest_rate("scan", case, MEMORY_BYTES, HDD).at(highest / 2).times is not None
    assert highest_rate("scan", case, MEMORY_BYTES, HDD).at(highest * 2).times is None


@pytest.mark.parametrize("tuples_per_s", [10, 300, 1_000, 5_000])
def test_the_least_memory_is_that_of_a_full_search(case: JoinCase, tuples_per_s: float) -> None:
    found = least_memory("scan", case, tuples_per_s, HDD)
    # A b whose tuple of a loop would be a fraction of one needs more, and is no solution.
    solutions = [max(memory_for(b, tuples_per_s), b * PAGE_BYTES + PAGES / b * TUPLE_BYTES) for b in range(1, PAGES)]
    assert found.tuples_per_s >= tuples_per_s
    assert min(solutions) - 1 <= found.budget_bytes <= min(solutions) * 1.011
    assert found.times is not None


def test_a_memory_may_be_the_least_that_works_at_all(case: JoinCase) -> None:
    least = least_budget("lookup", case)
    assert least == PAGE_BYTES
    assert least_memory("lookup", case, 1.0, HDD).budget_bytes == least


def test_a_rate_out_of_reach_is_told_with_the_one_that_can_be_had(case: JoinCase) -> None:
    highest = max(rate(b, case.table.num_bytes) for b in range(1, PAGES))
    with pytest.raises(TargetOutOfReach, match=rf"rate=1e\+09 tuples/s .* 25.0MB: it reaches {highest:,.0f}") as raised:
        least_memory("scan", case, 1e9, HDD)
    assert raised.value.highest_tuples_per_s == pytest.approx(highest)
    assert "\n" not in str(raised.value)


def test_the_most_memory_limits_the_search(case: JoinCase) -> None:
    needed = least_memory("scan", case, 1_000, HDD).budget_bytes
    assert least_memory("scan", case, 1_000, HDD, most_bytes=needed).budget_bytes <= needed
    with pytest.raises(TargetOutOfReach):
        least_memory("scan", case, 1_000, HDD, most_bytes=needed // 2)
    with pytest.raises(BudgetTooSmall, match="memory=1000 bytes is too small for scan: give at least"):
        least_memory("scan", case, 1_000, HDD, most_bytes=1000)


@pytest.mark.parametrize("tuples_per_s", [0, -1, math.inf, math.nan])
def test_a_rate_is_a_number_above_zero(case: JoinCase, tuples_per_s: float) -> None:
    with pytest.raises(InvalidArgument, match="must be above 0, and finite"):
        least_memory("scan", case, tuples_per_s, HDD)


def test_a_memory_too_small_for_every_setting(case: JoinCase) -> None:
    with pytest.raises(BudgetTooSmall, match="give at least"):
        highest_rate("scan", case, 1000, HDD)


def test_the_good_range_is_what_is_close_to_the_best(case: JoinCase) -> None:
    best = max(rate(b, MEMORY_BYTES) for b in FITTING)
    good = [b for b in FITTING if rate(b, MEMORY_BYTES) >= 0.95 * best]
    found = good_range("scan", case)
    assert found == {"b": (good[0], good[-1])}
    assert good[0] < good[-1]
    wider = good_range("scan", case, within=0.3)
    assert wider["b"].low < good[0]
    assert wider["b"].high > good[-1]


def test_the_good_range_for_a_rate_is_what_needs_little_more_memory(case: JoinCase) -> None:
    # A quarter: the least memory itself is known to a hundredth.
    memory_bytes = int(least_memory("scan", case, 1_000, HDD).budget_bytes * 1.25)
    found = SettingSearch("scan", case, memory_bytes, HDD).good_range(1_000)["b"]
    least = min(memory_for(b, 1_000) for b in range(1, PAGES))
    for b in range(1, PAGES):
        if memory_for(b, 1_000) <= least * 1.24:
            assert found.low <= b <= found.high
        if memory_for(b, 1_000) > least * 1.27:
            assert not found.low <= b <= found.high


def test_other_settings_are_tuned_the_same_way(case: JoinCase) -> None:
    best = highest_rate("lookup", case, MEMORY_BYTES, HDD)
    assert best.plan.settings == {"cache_share": 0.9}
    assert best.tuples_per_s > predict("lookup", case, MEMORY_BYTES, HDD, {"cache_share": 0.1}).tuples_per_s
    assert good_range("lookup", case, within=0.9) == {"cache_share": (0.1, 0.9)}
