"""Settings of cost models: those that are given, checked, and those among which a tuner looks for the best."""

from collections.abc import Callable
from functools import partial

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.model import Settings

__all__ = ["b_and_cache_share_to_try", "b_to_try", "known_settings", "whole"]

_CACHE_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_B_RATIO = 1.19  # four steps to twice as many pages


def known_settings(name: str, settings: Settings, known: tuple[str, ...]) -> dict[str, float]:
    """Return the settings; raise `InvalidArgument` when one is not among those that the model of ``name`` knows."""
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise InvalidArgument(f"the cost model of {name} has no setting {unknown[0]!r}: use {', '.join(known)}")
    return dict(settings)


def whole(settings: Settings, name: str) -> int | None:
    """Return a setting that counts something, or None when it is not given."""
    value = settings.get(name)
    if value is None:
        return None
    if value != int(value) or value < 1:
        raise InvalidArgument(f"{name}={value} is not a whole number: give one, at least 1")
    return int(value)


def b_to_try(pages: int, fits: Callable[[int], object]) -> list[int]:
    """Return numbers of pages, from 1 on in even ratios, up to all or to the last with which ``fits`` does not raise.

    It raises `BudgetTooSmall` when not even one page fits.
    """
    found: list[int] = []
    b = 1
    while True:
        try:
            fits(b)
        except BudgetTooSmall:
            if not found:
                raise
            return found
        found.append(b)
        if b == pages:
            return found
        b = min(pages, max(b + 1, round(b * _B_RATIO)))


def b_and_cache_share_to_try(pages: int, fits: Callable[..., object]) -> list[dict[str, float]]:
    """Return the b to try with each share of the cache, from the smallest on; those that leave too little are left out.

    It raises `BudgetTooSmall` when not even the smallest fits, with one page.
    """
    found: list[dict[str, float]] = []
    for cache_share in _CACHE_SHARES:
        try:
            fitting = b_to_try(pages, partial(fits, cache_share=cache_share))
        except BudgetTooSmall:
            if not found:
                raise
            break
        found += [{"b": b, "cache_share": cache_share} for b in fitting]
    return found
