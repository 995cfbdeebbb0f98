"""Shares of tuples that caches answer: between what chance gives and what a perfect cache gives."""

import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.semantics import JoinSpec
from semistream.cost.clock import HDD
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution, poisson_at_least
from semistream.cost.model import model, predict
from semistream.cost.models.cache import aging_share, cheaper_cached, counted_share
from tests.cost.models.naive_aging import simulated_share

ZIPF = KeyDistribution.zipf(1_000_000, 1.0)


def test_poisson_numbers_by_their_formula() -> None:
    chances = poisson_at_least(np.array([0.5, 3.0]), [0, 1, 2, 3])
    assert chances[1, 2] - chances[1, 3] == pytest.approx(math.exp(-3) * 9 / 2)
    assert chances[1, 1] == pytest.approx(1 - math.exp(-3))
    assert chances[0, 0] == 1


def test_many_tuples_are_as_likely_as_the_sum_says() -> None:
    # 17 and more are looked up on the normal curve.
    means = np.array([10.0, 17.0, 25.0])
    below = [sum(math.exp(-mean) * mean**count / math.factorial(count) for count in range(17)) for mean in means]
    assert poisson_at_least(means, [17])[:, 0] == pytest.approx([1 - chance for chance in below], abs=0.002)


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


def test_a_cache_with_room_for_more_keys_than_were_counted_goes_by_recency() -> None:
    # With two tuples of a sample of 1000, few keys would be cached: the sample grows until 20,000 are.
    share = counted_share(ZIPF, 20_000, sample_tuples=1000, least_tuples=2)
    assert share == pytest.approx(counted_share(ZIPF, 20_000, sample_tuples=2000, least_tuples=2), abs=1e-6)
    assert 0.9 * ZIPF.share_of_top(20_000) < share < ZIPF.share_of_top(20_000)


def test_a_cache_learns_more_from_more_tuples() -> None:
    shares = [counted_share(ZIPF, 1000, sample_tuples) for sample_tuples in (1e4, 1e5, 1e6, 1e7)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(ZIPF.share_of_top(1000), abs=0.01)


def test_keys_are_cached_where_that_takes_less_memory() -> None:
    per_turn = np.array([2.0, 5.0, 10.0, 20.0, 50.0])
    parts = cheaper_cached(per_turn, waiting_tuples=10.0)
    assert parts[per_turn >= 20] == pytest.approx(1, abs=0.02)
    assert parts[per_turn <= 5].max() < 0.05
    assert parts[2] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_larger_rows_leave_more_on_disk(layout: str) -> None:
    narrow, wide = (cached_share(row_bytes=row_bytes, layout=layout) for row_bytes in (60, 400))
    assert 0 < wide < narrow - 0.02


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_keys_without_rows_are_cached_for_less(layout: str) -> None:
    assert cached_share(row_bytes=400, layout=layout, missing=0.5) > cached_share(row_bytes=400, layout=layout) + 0.02


def cached_share(*, row_bytes: int, layout: str, missing: float = 0.0) -> float:
    """Return the share of tuples that SSBJ's cache answers with 4 MB."""
    table = TableShape(rows=100_000, pages=1000, num_bytes=100_000 * row_bytes, layout=layout)  # type: ignore[arg-type]
    master_schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.binary(row_bytes - 20))])
    spec = JoinSpec.resolve(pa.schema([pa.field("id", pa.int64())]), master_schema, "id")
    stream = StreamShape(keys=KeyDistribution.zipf(100_000, 1.0), missing_share=missing)
    return model("ssbj").plan(JoinCase(table, stream, spec), 4_000_000, {}).loop.cache_share


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
