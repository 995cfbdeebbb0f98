"""Options of a data source: a user's texts as checked values."""

import math
from collections.abc import Mapping
from datetime import datetime, timezone

from semistream.core.errors import InvalidArgument

__all__ = ["SourceOptions"]

_LARGEST_COUNT = 2**53


class SourceOptions:
    """The options of one source; an error is one line with the option's name and value.

    Parameters
    ----------
    source
        The name of the source.
    given
        The user's options. Spark passes their names in lower case.
    known
        All names of options.

    Examples
    --------
    >>> options = SourceOptions("rows-source", {"rows": "10"}, ("rows", "seed"))
    >>> options.count("rows"), options.count("seed", default=0, least=0)
    (10, 0)
    >>> SourceOptions("rows-source", {"rows": "ten"}, ("rows", "seed")).count("rows")
    Traceback (most recent call last):
    semistream.core.errors.InvalidArgument: option rows='ten' of rows-source is not a whole number: give one, at least 1
    """

    def __init__(self, source: str, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._source = source
        self._given = {name.lower(): text for name, text in given.items()}
        unknown = sorted(self._given.keys() - {name.lower() for name in known})
        if unknown:
            raise InvalidArgument(f"{source} has no option {unknown[0]!r}: use some of {', '.join(known)}")

    def count(self, name: str, default: int | None = None, *, least: int = 1, most: int = _LARGEST_COUNT) -> int:
        """Return a whole number; without a default the option is required."""
        found = self.optional_count(name, least=least, most=most)
        if found is not None:
            return found
        if default is None:
            raise InvalidArgument(f"{self._source} needs the option {name}: give a whole number, at least {least}")
        return default

    def optional_count(self, name: str, *, least: int = 1, most: int = _LARGEST_COUNT) -> int | None:
        """Return a whole number, or None if the option is absent."""
        text = self._given.get(name.lower())
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(name, f"is not a whole number: give one, at least {least}") from None
        if not least <= value <= most:
            raise self.wrong(name, f"must be at least {least} and at most {most}")
        return value

    def number(self, name: str, default: float, *, least: float = 0.0) -> float:
        """Return a finite number."""
        text = self._given.get(name.lower())
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(name, "is not a number: give one") from None
        if not least <= value < math.inf:
            raise self.wrong(name, f"must be at least {least:g}, and finite")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices; the first is the default."""
        text = self._given.get(name.lower(), choices[0])
        if text not in choices:
            raise self.wrong(name, f"is unknown: use {' or '.join(repr(choice) for choice in choices)}")
        return text

    def time_us(self, name: str, default: str) -> int:
        """Return a time in microseconds since 1970; one without a zone is in UTC."""
        text = self._given.get(name.lower(), default)
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            raise self.wrong(name, f"is not a time: write it like {default}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    def wrong(self, name: str, complaint: str) -> InvalidArgument:
        """Return the error that names the option and its value."""
        value = self._given.get(name.lower())
        shown = name if value is None else f"{name}={value!r}"
        return InvalidArgument(f"option {shown} of {self._source} {complaint}")
