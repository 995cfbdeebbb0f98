"""Rows of a DataFrame that are punctuations."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)
from pyspark.sql.types import BooleanType

from semistream.core.casts import casts_without_loss
from semistream.core.errors import InvalidArgument, KeyTypeMismatch, UnknownColumn
from semistream.runtime.spark.columns import arrow_schema, quoted
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, Side

__all__ = ["PunctuatedRows", "rows_by_side"]

_SIDES = {"left": LEFT, "right": RIGHT}


@dataclass(frozen=True)
class PunctuatedRows:
    """Rows that make a promise instead of being tuples.

    Columns given by name, other than the key, are for the punctuations alone and do not leave the join. Expressions
    leave all columns as they are.

    Parameters
    ----------
    when
        A boolean column or expression: where it is true, the row is a punctuation.
    low, high
        The smallest and the largest key that come no more. NULL, or leaving one out, is an open end. With neither, the
        row's own key comes no more.

    Examples
    --------
    >>> PunctuatedRows("is_end").when
    'is_end'
    """

    when: "str | Column"
    low: "str | Column | None" = None
    high: "str | Column | None" = None

    def __post_init__(self) -> None:
        for what in ("when", "low", "high"):
            given = getattr(self, what)
            if not isinstance(given, str | Column) and not (given is None and what != "when"):
                raise InvalidArgument(f"{what}={given!r} of punctuations must be a column's name or a Column")

    @property
    def is_range(self) -> bool:
        """Whether they exclude more than their own key."""
        return self.low is not None or self.high is not None

    def own_columns(self, key: str) -> set[str]:
        return {given for given in (self.when, self.low, self.high) if isinstance(given, str)} - {key}

    def require_columns(self, data: DataFrame, key: str, side: str) -> None:
        """Raise an error for a named column that is missing or of a wrong type."""
        for given in (self.when, self.low, self.high):
            if isinstance(given, str) and given not in data.columns:
                raise UnknownColumn(f"the {side} stream has no column {given!r}: it has {', '.join(data.columns)}")
        if not isinstance(data.select(_column(data, self.when)).schema[0].dataType, BooleanType):
            raise InvalidArgument(
                f"punctuations={{{side!r}: {self.when!r}}} must be a boolean column: give one that is true where a row "
                "is a punctuation"
            )
        key_type = _arrow_type(data, key)
        for what, given in (("low", self.low), ("high", self.high)):
            if given is not None:
                found = _arrow_type(data, given)
                if not casts_without_loss(found, key_type):
                    raise KeyTypeMismatch(
                        f"{what} of the punctuations of the {side} stream has type {found}, its key {key_type}: cast "
                        "it to that type, rounded so that no key is excluded that may come"
                    )

    def columns(self, data: DataFrame, key: str) -> list[Column]:
        """Return whether a row is a punctuation, and the ends of what it excludes."""
        key_type = data.schema[key].dataType
        own_end = F.lit(None) if self.is_range else _column(data, key)
        ends = [own_end if given is None else _column(data, given) for given in (self.low, self.high)]
        return [F.coalesce(_column(data, self.when), F.lit(False)), *(end.cast(key_type) for end in ends)]


def _column(data: DataFrame, given: "str | Column") -> Column:
    return data[quoted(given)] if isinstance(given, str) else given


def _arrow_type(data: DataFrame, given: "str | Column") -> pa.DataType:
    return arrow_schema(data.select(_column(data, given)).schema).field(0).type


def rows_by_side(punctuations: object) -> dict[Side, PunctuatedRows]:
    if punctuations is None:
        return {}
    if not isinstance(punctuations, Mapping) or set(punctuations) - set(_SIDES):
        raise InvalidArgument(
            f"punctuations={punctuations!r} must say which rows of 'left', 'right' or both are punctuations, as "
            "{'right': 'is_end'} with a boolean column"
        )
    return {
        _SIDES[side]: given if isinstance(given, PunctuatedRows) else PunctuatedRows(given)
        for side, given in punctuations.items()
    }
