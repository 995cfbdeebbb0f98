"""The Zipf sampler against the distribution it is named for."""

import tracemalloc
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads.draws.zipf import Zipf

EXPONENTS = [0.0, 0.3, 0.8, 1.0, 1.0 + 1e-12, 1.2, 2.5]


def probabilities(domain: int, exponent: float) -> npt.NDArray[np.float64]:
    weights = np.arange(1, domain + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def most_likely_exponent(ranks: npt.NDArray[np.int64], domain: int) -> float:
    """Return the exponent on a fine grid under which the ranks are most likely."""
    log_ranks = np.log(np.arange(1, domain + 1))
    mean_log = float(np.log(ranks).mean())
    grid = np.linspace(0, 4, 801)
    likelihood = [-s * mean_log - np.log(np.exp(-s * log_ranks).sum()) for s in grid]
    return float(grid[int(np.argmax(likelihood))])


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_exponent_is_found_again(exponent: float) -> None:
    ranks = Zipf(1000, exponent).sample(200_000, np.random.default_rng(1))
    assert most_likely_exponent(ranks, 1000) == pytest.approx(exponent, abs=0.02)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_frequencies_fit_chi_squared(exponent: float) -> None:
    expected = probabilities(50, exponent) * 200_000
    observed = np.bincount(Zipf(50, exponent).sample(200_000, np.random.default_rng(2)), minlength=51)[1:]
    usual = expected > 5
    chi_squared = float(((observed - expected)[usual] ** 2 / expected[usual]).sum())
    degrees = int(usual.sum()) - 1
    assert abs(chi_squared - degrees) < 5 * np.sqrt(2 * degrees)


def mass(first: int, last: int, exponent: float) -> float:
    """Return the sum of ``r ** -exponent`` over these ranks: the first ones added up, the rest by Euler-Maclaurin."""
    added = min(last, first + 1000)
    total = float((np.arange(first, added + 1, dtype=np.float64) ** -exponent).sum())
    if added == last:
        return total
    a, b = float(added + 1), float(last)
    integral = np.log(b / a) if exponent == 1 else (b ** (1 - exponent) - a ** (1 - exponent)) / (1 - exponent)
    ends = (a**-exponent + b**-exponent) / 2
    slopes = exponent * (a ** (-exponent - 1) - b ** (-exponent - 1)) / 12
    return total + float(integral + ends + slopes)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5])
def test_mass_is_the_sum(exponent: float) -> None:
    ranks = np.arange(7, 300_001, dtype=np.float64)
    assert mass(7, 300_000, exponent) == pytest.approx(float((ranks**-exponent).sum()), rel=1e-12)


@pytest.mark.parametrize("by_position", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5])
def test_head_and_tail_of_100_million_ranks_fit_chi_squared(exponent: float, by_position: bool) -> None:
    """Single ranks at the head, then ten ranges for each factor of ten, down to the last 20 million ranks."""
    domain, count = 100_000_000, 1_000_000
    zipf = Zipf(domain, exponent)
    ranks = zipf.at(np.arange(count), seed=4) if by_position else zipf.sample(count, np.random.default_rng(4))
    edges = np.unique(np.concatenate([np.arange(1, 21), np.geomspace(20, domain + 1, 68).round().astype(np.int64)]))
    masses = np.array([mass(int(a), int(b) - 1, exponent) for a, b in pairwise(edges)])
    expected = masses / masses.sum() * count
    observed = np.histogram(ranks, edges)[0]
    assert observed.sum() == count
    usual = expected > 5
    chi_squared = float(((observed - expected)[usual] ** 2 / expected[usual]).sum())
    degrees = int(usual.sum()) - 1
    assert degrees > 15
    assert abs(chi_squared - degrees) < 5 * np.sqrt(2 * degrees)
    assert abs(observed[~usual].sum() - expected[~usual].sum()) < 5 * np.sqrt(expected[~usual].sum() + 1)


def test_memory_does_not_grow_with_the_domain() -> None:
    tracemalloc.start()
    try:
        Zipf(100_000_000, 1.0).sample(1000, np.random.default_rng(1))
        Zipf(100_000_000, 1.0).at(np.arange(1000), seed=1)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("domain", [1, 2, 10**6, 2**53])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5, 30.0])
def test_ranks_stay_inside_any_domain(domain: int, exponent: float) -> None:
    ranks = Zipf(domain, exponent).sample(10_000, np.random.default_rng(3))
    assert 1 <= ranks.min() <= ranks.max() <= domain


@pytest.mark.parametrize(("domain", "exponent"), [(0, 1.0), (2**53 + 1, 1.0), (10, -0.1), (10, float("nan"))])
def test_arguments_are_checked(domain: int, exponent: float) -> None:
    with pytest.raises(InvalidArgument):
        Zipf(domain, exponent)
