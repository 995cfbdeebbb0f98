"""Measuring in turns, so that other work on the machine slows all sides of a comparison alike."""

from collections.abc import Callable, Mapping
from typing import TypeVar

__all__ = ["in_turns"]

T = TypeVar("T")


def in_turns(
    sides: Mapping[str, Callable[[], T]], repeats: int, report: Callable[[str], None] = lambda message: None
) -> dict[str, list[T]]:
    """Return what each side gave in each of ``repeats`` rounds; a round runs every side once.

    Examples
    --------
    >>> in_turns({"ours": lambda: 1, "theirs": lambda: 2}, repeats=2)
    {'ours': [1, 1], 'theirs': [2, 2]}
    """
    found: dict[str, list[T]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name, measure in sides.items():
            report(f"{name}: run {repeat + 1} of {repeats}")
            found[name].append(measure())
    return found
