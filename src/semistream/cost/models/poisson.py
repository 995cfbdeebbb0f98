"""Poisson numbers: how many tuples of a key come in a stretch of the stream."""

import numpy as np
import numpy.typing as npt

__all__ = ["at_least", "probabilities"]

_SUMMED = 100

_Floats = npt.NDArray[np.float64]


def probabilities(means: _Floats, most: int) -> _Floats:
    """Return a row for each mean: how likely the numbers 0 to ``most`` are, what is above counted with the last.

    Examples
    --------
    >>> probabilities(np.array([1.0]), 2).round(3).tolist()
    [[0.368, 0.368, 0.264]]
    """
    rows = np.zeros((means.size, most + 1))
    rows[:, -1] = 1.0
    some = means < 2 * most + 50  # the others are above, as good as surely
    mean = np.maximum(means[some], 1e-300)[:, None]
    numbers = np.arange(most)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most)))])[:most]
    below = np.exp(numbers * np.log(mean) - mean - log_factorial)
    rows[some, :-1] = below
    rows[some, -1] = np.maximum(0.0, 1 - below.sum(axis=1))
    return rows


def at_least(means: _Floats, number: int) -> _Floats:
    """Return for each mean how likely ``number`` or more are.

    Examples
    --------
    >>> at_least(np.array([0.0, 1.0, 1000.0]), 2).round(3).tolist()
    [0.0, 0.264, 1.0]
    """
    if number <= 0:
        return np.ones(means.size)
    if number > _SUMMED:
        # As likely as for the normal distribution, whose integral is close to this one.
        distance = (means - number + 0.5) / np.sqrt(np.maximum(means, 1e-300))
        curve = np.sqrt(2 / np.pi) * (distance + 0.044715 * np.clip(distance, -50, 50) ** 3)
        return np.asarray((1 + np.tanh(curve)) / 2)
    chance = np.ones(means.size)
    some = means < 2 * number + 50
    chance[some] = probabilities(means[some], number)[:, -1]
    return chance
