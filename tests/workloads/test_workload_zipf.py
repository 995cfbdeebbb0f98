"""The Zipf sampler against the distribution it is named for."""

import numpy as np
import numpy.typing as npt
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads.zipf import Zipf

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


@pytest.mark.parametrize("domain", [1, 2, 10**6, 2**53])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5, 30.0])
def test_ranks_stay_inside_any_domain(domain: int, exponent: float) -> None:
    ranks = Zipf(domain, exponent).sample(10_000, np.random.default_rng(3))
    assert 1 <= ranks.min() <= ranks.max() <= domain


@pytest.mark.parametrize(("domain", "exponent"), [(0, 1.0), (2**53 + 1, 1.0), (10, -0.1), (10, float("nan"))])
def test_arguments_are_checked(domain: int, exponent: float) -> None:
    with pytest.raises(InvalidArgument):
        Zipf(domain, exponent)
