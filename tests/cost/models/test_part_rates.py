"""How often parts of R are asked for: groups stand for all of them, however many there are."""

import numpy as np
import pytest

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models import part_rates
from semistream.cost.models.part_rates import PartRates, pool_misses
from semistream.cost.models.partitions import PartitionLoads

ROWS_PER_PART = 500


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("parts", [1, 7, 5000, 50_000, 3_000_000])
def test_rates_of_parts_add_up_to_one(exponent: float, parts: int, in_order: bool) -> None:
    rates = PartRates.of(KeyDistribution.zipf(100_000, exponent, in_order=in_order), parts)
    assert rates.num_parts == pytest.approx(parts)
    assert rates.total(rates.rate) == pytest.approx(1)
    assert rates.rate.min() >= 0
    assert rates.rate.size <= 4096


def test_the_most_frequent_key_makes_its_part_the_most_frequent() -> None:
    keys = KeyDistribution.zipf(100_000, 1.0)
    for parts in (1000, 100_000, 2_000_000):
        highest = PartRates.of(keys, parts).rate.max()
        assert keys.probability[0] <= highest < keys.probability[0] + 0.05


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_groups_say_what_single_parts_do(exponent: float, in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = KeyDistribution.zipf(20_000 * ROWS_PER_PART, exponent, in_order=in_order)
    grouped = PartRates.of(keys, 20_000)
    monkeypatch.setattr(part_rates, "_GROUPS", 1 << 30)
    single = PartRates.of(keys, 20_000)
    assert single.rate.size == 20_000
    for window in (1000, 100_000):
        wanted = PartitionLoads.of_window(single, window).per_tuple
        assert PartitionLoads.of_window(grouped, window).per_tuple == pytest.approx(wanted, rel=1e-3)
    assert pool_misses(grouped, 500) == pytest.approx(pool_misses(single, 500), rel=1e-3)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_a_few_parts_stand_for_many(exponent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = 200_000
    keys = KeyDistribution.zipf(parts * ROWS_PER_PART, exponent)
    drawn = PartRates.of(keys, parts)
    monkeypatch.setattr(part_rates, "_MOST_PARTS_DRAWN", 1 << 14)
    monkeypatch.setattr(part_rates, "_MOST_HOT_KEYS", 1 << 12)
    some = PartRates.of(keys, parts)
    assert some.num_parts == pytest.approx(parts)
    for window in (10_000, 1_000_000):
        wanted = PartitionLoads.of_window(drawn, window).per_tuple
        assert PartitionLoads.of_window(some, window).per_tuple == pytest.approx(wanted, rel=0.03)
    assert pool_misses(some, 5000) == pytest.approx(pool_misses(drawn, 5000), rel=0.03)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 10.0])
@pytest.mark.parametrize("cached", [0.1, 0.5, 0.9])
def test_rates_add_up_when_a_cache_holds_part_of_a_group(exponent: float, cached: float) -> None:
    rates = PartRates.of(KeyDistribution.zipf(100_000, exponent).missed(cached), 100)
    assert rates.total(rates.rate) == pytest.approx(1)


def test_fewer_keys_than_parts_ask_for_as_many_parts() -> None:
    equal = PartRates.of(KeyDistribution.zipf(10, 0.0), 2000)
    nearly = PartRates.of(KeyDistribution.zipf(10, 1e-6), 2000)
    assert equal.num_parts == nearly.num_parts == 2000
    assert pool_misses(equal, 20) == pool_misses(nearly, 20) == 0
    for rates in (equal, nearly):
        assert 1 / PartitionLoads.of_window(rates, 1000).per_tuple > 100


def test_equal_parts_are_one_group() -> None:
    rates = PartRates.of(KeyDistribution.zipf(10**12, 0.0), 10**10)
    assert np.allclose(rates.rate, [1e-10])
    assert rates.num_parts == 1e10
