"""Data sources of generated rows: options, checked; partitions, each a range of row numbers; and their readers."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from semistream.core.errors import InvalidArgument

__all__ = ["ARROW_BATCH_ROWS", "GeneratedRows", "GeneratedSource", "RowRange", "SourceOptions", "row_ranges"]

ARROW_BATCH_ROWS = 16_384
_LARGEST_COUNT = 2**53
_T = TypeVar("_T")


class GeneratedRows(Protocol):
    """The checked options of a source: how many rows in how many partitions, and the rows of a range."""

    @property
    def rows(self) -> int | None: ...
    @property
    def partitions(self) -> int: ...
    def batches(self, part: range) -> Iterator[pa.RecordBatch]: ...


@dataclass
class RowRange(InputPartition):
    """Rows ``start`` to ``stop - 1``."""

    start: int
    stop: int


def row_ranges(start: int, stop: int, partitions: int) -> list[RowRange]:
    """Cut rows ``start`` to ``stop - 1`` into at most ``partitions`` ranges of almost equal length, none empty."""
    bounds = [start + (stop - start) * number // partitions for number in range(partitions + 1)]
    return [RowRange(low, high) for low, high in pairwise(bounds) if low < high]


class GeneratedSource(DataSource):
    """A source with columns of its own; wrong options and other columns are errors when it is loaded."""

    format: ClassVar[str]
    arrow_schema: ClassVar[pa.Schema]

    @abstractmethod
    def checked_options(self) -> GeneratedRows: ...

    @classmethod
    def name(cls) -> str:
        return cls.format

    @property
    def _columns(self) -> StructType:
        return from_arrow_schema(self.arrow_schema)

    def schema(self) -> StructType:
        self.checked_options()
        return self._columns

    def reader(self, schema: StructType) -> "GeneratedReader":
        self.require_own(schema)
        return GeneratedReader(self.format, self.checked_options())

    def require_own(self, schema: StructType) -> None:
        """Raise unless the schema, which the user may have given, is the source's own."""
        if schema.simpleString() != self._columns.simpleString():
            raise InvalidArgument(
                f"{self.format} has the columns {', '.join(self.arrow_schema.names)} with types of its own: leave out "
                ".schema(...)"
            )


class GeneratedReader(DataSourceReader):
    """Reads the rows of a batch query, each task a range of them."""

    def __init__(self, source: str, options: GeneratedRows) -> None:
        if options.rows is None:
            raise InvalidArgument(f"{source} needs the option rows in a batch query: say how many rows to read")
        self._rows = options.rows
        self._options = options

    def partitions(self) -> list[RowRange]:
        return row_ranges(0, self._rows, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        return self._options.batches(range(partition.start, partition.stop))


class SourceOptions:
    """The options of one source; an error is one line with the option's name and value.

    >>> options = SourceOptions("rows-source", {"rows": "10"}, "rows, seed")
    >>> options.count("rows", 1), options.count("seed", 0, least=0)
    (10, 0)
    >>> SourceOptions("rows-source", {"rows": "ten"}, "rows, seed").count("rows", 1)
    Traceback (most recent call last):
    semistream.core.errors.InvalidArgument: option rows='ten' of rows-source is not a whole number: give one, at least 1
    """

    def __init__(self, source: str, given: Mapping[str, str], known: str) -> None:
        self._source = source
        # Spark passes the names in lower case.
        self._given = {name.lower(): text for name, text in given.items()}
        unknown = sorted(self._given.keys() - set(known.lower().split(", ")))
        if unknown:
            raise InvalidArgument(f"{source} has no option {unknown[0]!r}: use some of {known}")

    def count(self, name: str, default: int, *, least: int = 1, most: int = _LARGEST_COUNT) -> int:
        """Return a whole number."""
        found = self.optional_count(name, least=least, most=most)
        return default if found is None else found

    def optional_count(self, name: str, *, least: int = 1, most: int = _LARGEST_COUNT) -> int | None:
        """Return a whole number, or None if the option is absent."""
        value = self._parsed(name, int, f"is not a whole number: give one, at least {least}")
        if value is not None and not least <= value <= most:
            raise self.wrong(name, f"must be at least {least} and at most {most}")
        return value

    def number(self, name: str, default: float) -> float:
        """Return a finite number, at least 0."""
        value = self._parsed(name, float, "is not a number: give one")
        if value is not None and not 0 <= value < math.inf:
            raise self.wrong(name, "must be at least 0, and finite")
        return default if value is None else value

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
        return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)

    def _parsed(self, name: str, parse: Callable[[str], _T], complaint: str) -> _T | None:
        text = self._given.get(name.lower())
        try:
            return None if text is None else parse(text)
        except ValueError:
            raise self.wrong(name, complaint) from None

    def wrong(self, name: str, complaint: str) -> InvalidArgument:
        """Return the error that names the option and its value."""
        value = self._given.get(name.lower())
        shown = name if value is None else f"{name}={value!r}"
        return InvalidArgument(f"option {shown} of {self._source} {complaint}")
