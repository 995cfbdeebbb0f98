"""Estimates of self-similarity, on series whose Hurst exponent is known."""

from collections.abc import Callable

import numpy as np
import pytest

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Floats
from tests.workloads.draws.self_similarity import hurst_by_rescaled_range, hurst_by_variance, share_of_busiest

ESTIMATES = [hurst_by_variance, hurst_by_rescaled_range]


def fractional_noise(size: int, hurst: float, seed: int) -> Floats:
    """Return fractional Gaussian noise, exact by circulant embedding (Davies and Harte 1987)."""
    lags = np.arange(size + 1, dtype=np.float64)
    covariance = ((lags + 1) ** (2 * hurst) - 2 * lags ** (2 * hurst) + np.abs(lags - 1) ** (2 * hurst)) / 2
    circle = np.concatenate([covariance, covariance[-2:0:-1]])
    eigenvalues = np.maximum(np.fft.fft(circle).real, 0)
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=circle.size) + 1j * rng.normal(size=circle.size)
    return np.asarray(np.fft.fft(np.sqrt(eigenvalues / circle.size) * noise).real[:size])


@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("hurst", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_a_known_exponent_is_found_again(estimate: Callable[[Floats], float], hurst: float) -> None:
    estimates = [estimate(fractional_noise(1 << 15, hurst, seed)) for seed in range(8)]
    assert np.mean(estimates) == pytest.approx(hurst, abs=0.06)


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_white_noise_and_poisson_counts_are_not_self_similar(estimate: Callable[..., float]) -> None:
    rng = np.random.default_rng(1)
    for series in (rng.normal(size=1 << 16), rng.poisson(3, size=1 << 16)):
        assert estimate(series) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_unit_and_zero_point_do_not_matter(estimate: Callable[[Floats], float]) -> None:
    series = fractional_noise(4096, 0.7, 1)
    assert estimate(1000 * series + 5) == pytest.approx(estimate(series))


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_only_scales_up_to_the_largest_count(estimate: Callable[..., float]) -> None:
    """A series repeated is as self-similar as before within a repetition, and constant beyond."""
    series = fractional_noise(1000, 0.8, 2)
    again_and_again = np.tile(series, 100)
    assert estimate(again_and_again) < estimate(again_and_again, 100) - 0.1
    assert estimate(again_and_again, 100) == pytest.approx(estimate(series, 100), abs=0.05)


def test_share_of_the_busiest_fifth() -> None:
    assert share_of_busiest(np.array([80, 5, 5, 5, 5])) == pytest.approx(0.8)
    assert share_of_busiest(np.full(1000, 3)) == pytest.approx(0.2)
    assert share_of_busiest(np.array([0, 0, 4, 0]), 0.5) == 1


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_series_without_an_exponent_are_refused(estimate: Callable[..., float]) -> None:
    with pytest.raises(InvalidArgument, match="255 counts is too short"):
        estimate(np.arange(255))
    with pytest.raises(InvalidArgument, match="all equal"):
        estimate(np.full(300, 7))
    with pytest.raises(InvalidArgument, match="largest_scale=2"):
        estimate(np.arange(300), 2)


def test_a_share_needs_arrivals() -> None:
    with pytest.raises(InvalidArgument, match="all 0"):
        share_of_busiest(np.zeros(10))
    with pytest.raises(InvalidArgument, match="share=0"):
        share_of_busiest(np.ones(10), 0)
