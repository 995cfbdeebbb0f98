"""Shares of tuples that caches answer: between what chance gives and what a perfect cache gives."""

import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.semantics import JoinSpec
from semistream.cost.clock import HDD
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import predict
from semistream.cost.models.aging_share import aging_share
from semistream.cost.models.inequality_share import SCAN, CachedKeys, InequalityCache
from semistream.cost.models.poisson import at_least, probabilities
from tests.cost.models.naive_aging import simulated_share

ZIPF = KeyDistribution.zipf(1_000_000, 1.0)


def test_poisson_numbers_by_their_formula() -> None:
    rows = probabilities(np.array([0.5, 3.0]), 4)
    assert rows[1, 2] == pytest.approx(math.exp(-3) * 9 / 2)
    assert rows.sum(axis=1) == pytest.approx([1, 1])
    assert at_least(np.array([3.0]), 1)[0] == pytest.approx(1 - math.exp(-3))
    assert at_least(np.array([0.2]), 0)[0] == 1


def test_many_tuples_are_as_likely_as_the_sum_says() -> None:
    # 101 and more are looked up on the normal curve.
    summed = probabilities(np.array([90.0, 100.0, 115.0]), 120)[:, 101:].sum(axis=1)
    assert at_least(np.array([90.0, 100.0, 115.0]), 101) == pytest.approx(summed, abs=0.01)


@pytest.mark.parametrize("capacity", [1000, 20_000, 200_000])
def test_aging_is_close_to_a_perfect_cache_and_below_it(capacity: int) -> None:
    perfect = ZIPF.share_of_top(capacity)
    assert 0.9 * perfect < aging_share(ZIPF, capacity, turn_misses=capacity * 10) < perfect


@pytest.mark.parametrize(
    ("exponent", "capacity", "turn_misses"),
    [(1.0, 1000, 1000), (1.0, 1000, 20_000), (0.7, 2000, 5000), (0.0, 5000, 1000), (0.0, 1000, 20_000)],
)
def test_aging_as_it_is_simulated(exponent: float, capacity: int, turn_misses: int) -> None:
    share = aging_share(KeyDistribution.zipf(50_000, exponent), capacity, turn_misses)
    assert share == pytest.approx(simulated_share(50_000, exponent, capacity, turn_misses, turns=40), abs=0.02)


def test_caches_of_nothing_and_of_everything() -> None:
    assert aging_share(ZIPF, 0, turn_misses=1000) == 0
    assert aging_share(ZIPF, 1_000_000, turn_misses=1000) == 1


def test_one_key_that_makes_up_nearly_all_tuples_is_cached() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for capacity in (1, 1000):
            for turn_misses in (10, 1_000_000):
                assert 0 <= aging_share(KeyDistribution.zipf(50_000, 50.0), capacity, turn_misses) < 1


def cached(*, rows_bytes: float, missing_share: float = 0.0, switching_factor: float = 1.0) -> CachedKeys:
    cache = InequalityCache(
        stream=ZIPF,
        tuple_bytes=80.0,
        rows_bytes=rows_bytes,
        key_bytes=30.0,
        missing_share=missing_share,
        switching_factor=switching_factor,
        most_counted=1e9,
        looks=SCAN,
    )
    found = cache.nothing()
    for _ in range(20):
        found = found.towards(cache.next(found, turn_tuples=200_000))
    return found


def test_keys_are_cached_where_that_takes_less_memory() -> None:
    found = cached(rows_bytes=10 * 80.0 - 30.0)  # as much as ten tuples
    rates = ZIPF.probability * 200_000
    assert found.parts[rates > 20] == pytest.approx(1, abs=0.02)
    assert found.parts[rates < 5].max() < 0.05
    assert found.share == pytest.approx(ZIPF.share_of_top(float(ZIPF.keys[rates > 10].sum())), abs=0.02)


def test_larger_rows_leave_more_on_disk() -> None:
    assert cached(rows_bytes=100.0).share > cached(rows_bytes=400.0).share


def test_with_a_larger_factor_fewer_keys_change_sides() -> None:
    often, seldom = cached(rows_bytes=400.0), cached(rows_bytes=400.0, switching_factor=2.0)
    assert seldom.taken_bytes < often.taken_bytes / 10


def test_keys_without_rows_are_cached_for_less() -> None:
    with_missing = cached(rows_bytes=2000.0, missing_share=0.5)
    assert with_missing.share > cached(rows_bytes=2000.0).share
    assert np.all(with_missing.empty_parts >= with_missing.parts)


@pytest.mark.parametrize("name", ["meshjoin", "cmeshjoin", "ssbj"])
@pytest.mark.parametrize("layout", ["heap", "clustered"])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_more_memory_is_never_slower(name: str, layout: str, exponent: float) -> None:
    table = TableShape(rows=1_000_000, pages=2000, num_bytes=120_000_000, layout=layout)  # type: ignore[arg-type]
    stream_schema = pa.schema([pa.field("id", pa.int64()), pa.field("value", pa.int32())])
    master_schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.binary(100))])
    spec = JoinSpec.resolve(stream_schema, master_schema, "id")
    case = JoinCase(table, StreamShape(keys=KeyDistribution.zipf(1_000_000, exponent)), spec)
    rates = [predict(name, case, int(memory), HDD, {"b": 4}).tuples_per_s for memory in np.geomspace(2e6, 4e7, 12)]
    assert rates == sorted(rates)
    assert rates[-1] > 2 * rates[0]
