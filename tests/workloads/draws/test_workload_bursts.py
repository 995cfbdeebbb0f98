"""Bursty, self-similar arrivals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import InvalidArgument
from semistream.workloads.draws.bursts import Bursts
from tests.workloads.draws.self_similarity import hurst_by_rescaled_range, hurst_by_variance, share_of_busiest

TICKS_PER_PERIOD = 1024
EIGHTY_TWENTY = 0.6


def counts(bursts: Bursts, periods: int) -> npt.NDArray[np.int64]:
    return np.diff(bursts.arrived_before(np.arange(periods * TICKS_PER_PERIOD + 1)))


@pytest.mark.parametrize("burstiness", [0.0, 0.3, EIGHTY_TWENTY, 0.95])
@pytest.mark.parametrize("rate", [1.0, 777.7, 1e6])
def test_the_mean_rate_holds_over_every_period(rate: float, burstiness: float) -> None:
    per_period = counts(Bursts(rate, burstiness=burstiness, period_s=10), 20).reshape(20, -1).sum(axis=1)
    assert np.all(np.abs(per_period - rate * 10) <= 1)


@pytest.mark.parametrize("hurst_exponent", [hurst_by_variance, hurst_by_rescaled_range])
@pytest.mark.parametrize(("burstiness", "predicted"), [(0.3, 0.94), (EIGHTY_TWENTY, 0.78), (0.8, 0.64)])
def test_arrivals_are_self_similar(
    burstiness: float, predicted: float, hurst_exponent: Callable[[npt.NDArray[np.int64], int], float]
) -> None:
    series = counts(Bursts(20_000, burstiness=burstiness, period_s=60, seed=5), 64)
    estimated = hurst_exponent(series, TICKS_PER_PERIOD // 8)
    assert 0.5 < estimated < 1
    # Beyond a period there are no bursts, which takes a little off the estimate.
    assert predicted - 0.15 < estimated < predicted + 0.05
    shuffled = np.random.default_rng(1).permutation(series)
    assert hurst_exponent(shuffled, TICKS_PER_PERIOD // 8) < min(0.6, estimated - 0.03)


@pytest.mark.parametrize("scale", [1, 2, 8, 64, 512])
def test_of_two_neighbouring_intervals_one_has_80_percent_at_every_scale(scale: int) -> None:
    pairs = counts(Bursts(1e9, burstiness=EIGHTY_TWENTY, period_s=60), 4).reshape(-1, 2, scale).sum(axis=2)
    assert np.allclose(pairs.max(axis=1) / pairs.sum(axis=1), 0.8, atol=0.01)
    first_is_busier = float(np.mean(pairs[:, 0] > pairs[:, 1]))
    assert 0 < first_is_busier < 1


def test_most_tuples_come_in_a_fifth_of_the_time() -> None:
    bursty = counts(Bursts(1000, burstiness=EIGHTY_TWENTY, period_s=60), 16)
    assert 0.8 < share_of_busiest(bursty) < 0.95
    assert share_of_busiest(counts(Bursts(1000, burstiness=0, period_s=60), 16)) == pytest.approx(0.2, abs=0.01)


def test_without_bursts_the_rate_is_constant() -> None:
    series = counts(Bursts(1000, burstiness=0, period_s=60), 4)
    assert series.min() >= 58
    assert series.max() <= 59
    assert Bursts(10, burstiness=0, period_s=102.4).times_s(20, 3).tolist() == [2.0, 2.1, 2.2]


def test_arrivals_depend_on_the_seed_and_on_nothing_that_was_asked_before() -> None:
    bursts = Bursts(5000, period_s=30, seed=3)
    far = bursts.arrived_before(np.array([10**9]))
    assert np.array_equal(Bursts(5000, period_s=30, seed=3).arrived_before(np.array([10**9])), far)
    assert not np.array_equal(counts(bursts, 1), counts(Bursts(5000, period_s=30, seed=4), 1))
    of_periods = counts(bursts, 2).reshape(2, -1)
    assert not np.array_equal(of_periods[0], of_periods[1])


@given(
    rate=st.floats(0.5, 1e6),
    burstiness=st.floats(0, 0.99),
    start=st.integers(0, 10**9),
    count=st.integers(0, 300),
    seed=st.integers(0, 1000),
)
def test_tuples_and_ticks_tell_the_same(rate: float, burstiness: float, start: int, count: int, seed: int) -> None:
    bursts = Bursts(rate, burstiness=burstiness, period_s=7, seed=seed)
    ticks, first, after = bursts.ticks_of(start, count)
    assert np.array_equal(bursts.arrived_before(ticks), first)
    assert np.array_equal(bursts.arrived_before(ticks + 1), after)
    shown = np.minimum(after, start + count) - np.maximum(first, start)
    assert int(shown.sum()) == count
    assert np.all(shown >= 1)
    times_s = bursts.times_s(start, count)
    assert np.all(np.diff(times_s) >= 0)
    if count > 1:
        assert np.array_equal(times_s[1:], bursts.times_s(start + 1, count - 1))


def test_a_tuple_has_arrived_once_its_tick_is_over() -> None:
    bursts = Bursts(200, period_s=10, seed=2)
    for position in (0, 1, 1999, 2000, 123_456):
        time_s = float(bursts.times_s(position, 1)[0])
        assert bursts.arrived(time_s + bursts.tick_s) > position
        assert bursts.arrived(max(0.0, time_s - bursts.tick_s)) <= position


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": 0.0},
        {"rate": float("nan")},
        {"rate": 0.001},
        {"burstiness": -0.1},
        {"burstiness": 1.0},
        {"period_s": 0.0},
        {"period_s": 1e300},
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        Bursts(**{"rate": 10.0, **arguments})


def test_positions_and_times_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="start=-1"):
        Bursts(10).ticks_of(-1, 5)
    with pytest.raises(InvalidArgument, match="elapsed_s=-1"):
        Bursts(10).arrived(-1)
