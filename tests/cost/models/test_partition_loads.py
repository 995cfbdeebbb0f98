"""Reads of partitions, by hand and by a queue that is followed tuple by tuple."""

from collections import deque

import numpy as np
import pytest

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models.part_rates import PartRates, increasing_root
from semistream.cost.models.partitions import PartitionLoads, times_between_loads


def loads_followed(rates: np.ndarray, window: int, tuples: int) -> float:
    """Return reads per tuple: HYBRIDJOIN with nothing but a queue of partitions."""
    arrivals = np.random.default_rng(3).choice(rates.size, size=tuples, p=rates)
    order: deque[int] = deque()  # arrivals by number, oldest first, some of them gone
    waiting = [0] * rates.size
    read_at = [-1] * rates.size
    inside = loads = counted = 0
    for number, partition in enumerate(arrivals.tolist()):
        order.append(number)
        waiting[partition] += 1
        inside += 1
        if inside < window:
            continue
        while order[0] <= read_at[arrivals[order[0]]]:
            order.popleft()
        oldest = int(arrivals[order[0]])
        read_at[oldest] = number
        inside -= waiting[oldest]
        waiting[oldest] = 0
        if number > tuples // 4:
            loads += 1
    counted = tuples - tuples // 4
    return loads / counted


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("window", [30, 500, 4000])
def test_reads_are_those_of_a_queue_that_is_followed(exponent: float, window: int) -> None:
    rates = np.arange(1, 101, dtype=np.float64) ** -exponent
    rates /= rates.sum()
    followed = loads_followed(rates, window, tuples=400_000)
    assert PartitionLoads.of_window(PartRates.each(rates), window).per_tuple == pytest.approx(followed, rel=0.06)


def test_two_partitions_by_hand() -> None:
    # λ = 3/4 and 1/4, T = 4: (3/4) / 4 + (1/4) / 2 reads; 3 (1 + 3/2) / 4 + 1 (1 + 1/2) / 2 waiting.
    loads = PartitionLoads(PartRates.each(np.array([0.75, 0.25])), 4.0)
    assert loads.per_tuple == pytest.approx(0.3125)
    assert loads.waiting == pytest.approx(2.625)


def test_four_partitions_by_hand() -> None:
    # 40 gather for the one that is read; 30, 20 and 10 wait for the others then.
    assert round(1 / PartitionLoads.of_window(PartRates.each(np.full(4, 0.25)), 100).per_tuple) == 40


def test_one_partition_is_read_when_the_window_is_full() -> None:
    assert 1 / PartitionLoads.of_window(PartRates.each(np.ones(1)), 1000).per_tuple == pytest.approx(1000, rel=0.01)


def test_a_window_for_one_tuple_has_a_read_for_each() -> None:
    assert PartitionLoads.of_window(PartRates.each(np.full(50, 0.02)), 1).per_tuple == pytest.approx(1, abs=0.05)


def test_at_the_speed_of_a_full_window_the_same_reads_follow() -> None:
    rates = PartRates.of(KeyDistribution.zipf(10_000, 1.0), 100)
    full = PartitionLoads.of_window(rates, 5000)
    assert PartitionLoads.of_speed(rates, full.per_tuple).oldest_tuples == pytest.approx(full.oldest_tuples)
    assert PartitionLoads.of_speed(rates, 2.0).oldest_tuples == 0


def test_a_larger_window_never_reads_more() -> None:
    rates = PartRates.of(KeyDistribution.zipf(10_000, 0.7), 64)
    reads = [PartitionLoads.of_window(rates, window).per_tuple for window in (1, 2, 10, 100, 1000, 10_000)]
    assert reads == sorted(reads, reverse=True)


def test_missed_keys_are_what_the_cache_leaves() -> None:
    keys = KeyDistribution.zipf(1000, 1.0)
    left = keys.missed(keys.share_of_top(10))
    assert left.num_keys == pytest.approx(990)
    assert float(np.dot(left.keys, left.probability)) == pytest.approx(1)
    assert left.probability[0] == pytest.approx(keys.probability[10] / (1 - keys.share_of_top(10)))
    assert keys.missed(0.0) is keys
    assert keys.missed(1.0).num_keys > 0


def test_tuples_that_come_rarely_have_a_read_each() -> None:
    times = times_between_loads(PartRates.each(np.full(10, 0.1)), loop_s=0.01, arrivals_per_s=1)
    assert times.processing_s == pytest.approx(0.01)
    assert times.waiting_s < 0.001


def test_times_follow_littles_law() -> None:
    # Ten tuples for each read: 1 + T / 100 = 10.
    times = times_between_loads(PartRates.each(np.full(100, 0.01)), loop_s=0.01, arrivals_per_s=1000)
    waiting = PartitionLoads(PartRates.each(np.full(100, 0.01)), 900.0).waiting
    assert times.processing_s == pytest.approx(waiting / 1000 + 0.005)
    half = times_between_loads(PartRates.each(np.full(100, 0.01)), loop_s=0.01, arrivals_per_s=2000, cached_share=0.5)
    assert half.processing_s == pytest.approx((times.processing_s + 0.01) / 2)
    assert times.waiting_s == half.waiting_s == pytest.approx(0.005)


def test_root_of_an_increasing_function() -> None:
    assert increasing_root(lambda x: x - 1e6, high=1.0) == pytest.approx(1e6)
