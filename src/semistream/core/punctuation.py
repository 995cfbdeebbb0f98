"""Punctuations: what a stream promises not to send any more.

L. Ding, E. A. Rundensteiner, G. T. Heineman: "MJoin: A Metadata-Aware Stream Join Operator" (S4), section 3.2, after
P. A. Tucker, D. Maier, T. Sheard, L. Fegaras: "Exploiting Punctuation Semantics in Continuous Data Streams". A
punctuation has a pattern for each attribute: no later tuple of its stream matches all patterns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from semistream.core.errors import InvalidArgument

__all__ = ["Constant", "Interval", "Listing", "Pattern", "Punctuation", "Wildcard", "interval", "punctuation"]

Value: TypeAlias = int | float | str | bytes | bool | date | datetime | time | timedelta | Decimal


@dataclass(frozen=True)
class Wildcard:
    """Any value, NULL included."""

    def matches(self, value: Any) -> bool:
        return True


@dataclass(frozen=True)
class Constant:
    """One value."""

    value: Value

    def matches(self, value: Any) -> bool:
        return bool(value is not None and value == self.value)


@dataclass(frozen=True)
class Listing:
    """Any of some values."""

    values: tuple[Value, ...]

    def matches(self, value: Any) -> bool:
        return value is not None and value in self.values


@dataclass(frozen=True)
class Interval:
    """All values from ``low`` to ``high``, both included; None is an open end."""

    low: Value | None
    high: Value | None

    def matches(self, value: Any) -> bool:
        if value is None:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


Pattern: TypeAlias = Wildcard | Constant | Listing | Interval


@dataclass(frozen=True)
class Punctuation:
    """A pattern for each attribute; other attributes have a wildcard."""

    patterns: Mapping[str, Pattern] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {name: pattern for name, pattern in self.patterns.items() if not isinstance(pattern, Wildcard)}
        object.__setattr__(self, "patterns", named)

    def __hash__(self) -> int:
        return hash(frozenset(self.patterns.items()))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes whose values it restricts."""
        return tuple(self.patterns)

    def pattern(self, attribute: str) -> Pattern:
        """Return the pattern for an attribute."""
        return self.patterns.get(attribute, Wildcard())

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Return whether the punctuation excludes such a tuple."""
        return all(pattern.matches(row[name]) for name, pattern in self.patterns.items())

    def __str__(self) -> str:
        told = ", ".join(f"{name}: {_text(pattern)}" for name, pattern in self.patterns.items())
        return f"no more tuples with {told}" if told else "no more tuples"


def _text(pattern: Pattern) -> str:
    if isinstance(pattern, Constant):
        return repr(pattern.value)
    if isinstance(pattern, Listing):
        return f"one of {list(pattern.values)!r}"
    assert isinstance(pattern, Interval)
    low = "" if pattern.low is None else repr(pattern.low)
    high = "" if pattern.high is None else repr(pattern.high)
    return f"{low}..{high}"


def interval(low: Value | None = None, high: Value | None = None) -> Interval:
    """Return the pattern of all values from ``low`` to ``high``, both included; an end left out is open.

    Examples
    --------
    >>> interval(3, 5).matches(5), interval(high=2).matches(3)
    (True, False)
    """
    if low is None and high is None:
        raise InvalidArgument("interval() needs low, high or both: leave the attribute out for any value")
    if low is not None and high is not None and not _in_order(low, high):
        raise InvalidArgument(f"interval({low!r}, {high!r}) has no value in it: give low <= high, of one type")
    return Interval(low, high)


def _in_order(low: Value, high: Value) -> bool:
    try:
        return bool(low <= high)  # type: ignore[operator]
    except TypeError:
        return False


def punctuation(**patterns: Any) -> Punctuation:
    """Return a punctuation: a value, a list of values or an `interval` for each restricted attribute.

    Examples
    --------
    >>> str(punctuation(sno=3))
    'no more tuples with sno: 3'
    >>> punctuation(sno=[3, 4], region=interval(10, 20)).matches({"sno": 4, "region": 15})
    True
    """
    return Punctuation({name: _pattern(name, given) for name, given in patterns.items()})


def _pattern(name: str, given: Any) -> Pattern:
    if isinstance(given, Wildcard | Constant | Listing | Interval):
        return given
    if isinstance(given, list | tuple | set | frozenset | range):
        values = tuple(given)
        if not values or not all(isinstance(value, Value) for value in values):
            raise InvalidArgument(f"{name}={given!r} must be a list of values, none of them NULL")
        return Listing(values)
    if hasattr(given, "item") and hasattr(given, "dtype"):
        given = given.item()  # a number of numpy's
    if not isinstance(given, Value):
        raise InvalidArgument(f"{name}={given!r} is no pattern: give a value, a list of values, or interval(low, high)")
    return Constant(given)
