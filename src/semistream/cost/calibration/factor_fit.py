"""Fits cost factors to counted work and its time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semistream.cost.clock import COUNT_OF_FACTOR, AlgorithmFactors
from semistream.cost.loop import Loop
from semistream.kernels.arrays import Bools, Floats

__all__ = ["CountedWork", "fit_factors", "least_squares_from_zero"]


_USUAL_ERROR = 0.05
_ROUNDS = 10


class CountedWork(NamedTuple):
    """The work of an operator in a while, and its time."""

    loops: float
    loop: Loop  # one of them, on average
    elapsed_s: float
    yardstick_s: float = 1.0  # of a step of the `Yardstick` at the time

    def at(self, yardstick_s: float) -> "CountedWork":
        """Return the work on a machine as fast as with this yardstick."""
        return self._replace(elapsed_s=self.elapsed_s * yardstick_s / self.yardstick_s, yardstick_s=yardstick_s)


def fit_factors(works: Sequence[CountedWork]) -> AlgorithmFactors:
    """Return the factors, none of them negative, with the least relative errors over ``works``.

    Usual errors count by their squares; larger ones come from disturbances, and count for less.
    """
    names = ["loop_s", *COUNT_OF_FACTOR]
    rows = [[1.0, *(getattr(work.loop, count) for count in COUNT_OF_FACTOR.values())] for work in works]
    loop_s = np.array([work.elapsed_s / work.loops for work in works])
    shares = np.array(rows, dtype=np.float64) / loop_s[:, None]
    weights = np.ones(len(works))
    for _ in range(_ROUNDS):
        seconds = least_squares_from_zero(shares * weights[:, None], weights)
        weights = np.sqrt(np.minimum(1.0, _USUAL_ERROR / np.maximum(np.abs(shares @ seconds - 1), 1e-12)))
    return AlgorithmFactors(**dict(zip(names, seconds.tolist(), strict=True)))


def least_squares_from_zero(matrix: Floats, wanted: Floats) -> Floats:
    """Return the x >= 0 that brings ``matrix @ x`` closest to ``wanted``.

    The active-set method of C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.
    """
    # Columns of one length: counts of bytes and of seeks differ by orders of magnitude.
    length = np.linalg.norm(matrix, axis=0)
    scale = np.where(length > 0, length, 1.0)
    scaled = matrix / scale
    tolerance = 1e-10 * max(1.0, float(np.abs(scaled.T @ wanted).max(initial=0.0)))
    x = np.zeros(matrix.shape[1])
    free = np.zeros(x.size, dtype=np.bool_)
    for _ in range(10 * x.size):
        gradient = scaled.T @ (wanted - scaled @ x)
        gradient[free | (length == 0)] = -np.inf
        if gradient.max(initial=-np.inf) <= tolerance:
            break
        free[int(np.argmax(gradient))] = True
        x = _inside(scaled, wanted, x, free)
    return x / scale


def _inside(matrix: Floats, wanted: Floats, x: Floats, free: Bools) -> Floats:
    """Go from ``x`` towards the best values of the free variables, and fix those that would become negative."""
    while True:
        best = np.zeros_like(x)
        best[free] = np.linalg.lstsq(matrix[:, free], wanted, rcond=None)[0]
        below = free & (best <= 0)
        if not below.any():
            return best
        step = float(np.min(x[below] / np.maximum(x[below] - best[below], 1e-300)))
        x = x + step * (best - x)
        free &= x > 1e-14
        x[~free] = 0.0
