"""Random numbers by position, and ranks drawn from them."""

import numpy as np
import pytest

from semistream.workloads.draws.splitmix import SplitMix
from semistream.workloads.draws.zipf import Zipf


def test_the_numbers_are_those_of_the_published_generator() -> None:
    generator = SplitMix(0, "x")
    generator._first = np.array([1234567 + 0x9E3779B97F4A7C15], dtype=np.uint64)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert generator.words(np.arange(4)).tolist() == published


def test_numbers_are_uniform_and_differ_by_seed_and_purpose() -> None:
    positions = np.arange(200_000)
    numbers = SplitMix(3, "price").uniform(positions)
    counts = np.bincount((numbers * 100).astype(np.int64), minlength=100)
    assert abs(float(((counts - 2000) ** 2 / 2000).sum()) - 99) < 5 * np.sqrt(2 * 99)
    for other in (SplitMix(4, "price"), SplitMix(3, "weight")):
        assert abs(np.corrcoef(numbers, other.uniform(positions))[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.02


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.5])
def test_a_rank_depends_on_its_position_only(exponent: float) -> None:
    zipf = Zipf(5000, exponent)
    ranks = zipf.at(np.arange(10_000), seed=9)
    cut = [zipf.at(np.arange(start, min(start + 77, 10_000)), seed=9) for start in range(0, 10_000, 77)]
    assert np.array_equal(np.concatenate(cut), ranks)
    assert np.array_equal(zipf.at(np.arange(9999, -1, -1), seed=9)[::-1], ranks)
    assert not np.array_equal(zipf.at(np.arange(10_000), seed=10), ranks)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.5])
def test_ranks_by_position_have_the_same_distribution(exponent: float) -> None:
    weights = np.arange(1, 51, dtype=np.float64) ** -exponent
    expected = weights / weights.sum() * 200_000
    observed = np.bincount(Zipf(50, exponent).at(np.arange(200_000), seed=2), minlength=51)[1:]
    usual = expected > 5
    chi_squared = float(((observed - expected)[usual] ** 2 / expected[usual]).sum())
    degrees = int(usual.sum()) - 1
    assert abs(chi_squared - degrees) < 5 * np.sqrt(2 * degrees)
