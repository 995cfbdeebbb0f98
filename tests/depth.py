"""How deep a test digs: `make test` runs a covering sample, `make test-all` everything."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["covering", "examples", "slow_unless"]


def examples(factor: float) -> settings:
    """Return settings with ``factor`` times the examples of the profile, but at least three."""
    return settings(max_examples=max(3, round(settings().max_examples * factor)))


def slow_unless(quick: bool, *values: Any) -> Any:
    """Return parameters of a test, marked slow if they are not quick."""
    return pytest.param(*values, marks=() if quick else pytest.mark.slow)


def covering(*axes: Sequence[Any], times: int = 1) -> list[Any]:
    """Return all combinations of the axes; all but a sample, in which each value is ``times`` times, are slow.

    Of the combinations that bring a value in, the sample takes the one with the most new pairs of values, then the one
    of the rarest values. A tuple on an axis stands for several parameters.
    """
    everything = list(product(*(range(len(axis)) for axis in axes)))
    sample: set[tuple[int, ...]] = set()
    seen: Counter[tuple[int, int]] = Counter()
    pairs: set[Any] = set()

    def gain(chosen: tuple[int, ...]) -> tuple[int, int, int]:
        values = list(enumerate(chosen))
        missing = sum(seen[value] < times for value in values) if chosen not in sample else 0
        new_pairs = sum(pair not in pairs for pair in combinations(values, 2))
        return missing, new_pairs, -sum(seen[value] for value in values)

    while gain(best := max(everything, key=gain))[0]:
        sample.add(best)
        seen.update(enumerate(best))
        pairs.update(combinations(enumerate(best), 2))
    found = []
    for chosen in everything:
        parts = [axis[at] for axis, at in zip(axes, chosen, strict=True)]
        values = [value for part in parts for value in (part if isinstance(part, tuple) else (part,))]
        found.append(slow_unless(chosen in sample, *values))
    return found
