"""The join as a dictionary of Python rows: slow and obvious. Every operator is compared with it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from semistream.core.conditions import Between, Condition

__all__ = ["Row", "join", "multiset", "rows_of"]

Row = tuple[Any, ...]


def _rank(value: Any) -> tuple[bool, Any]:
    """Return what compares as values do in Spark: NaN is larger than every number and equal to itself."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def _key(row: dict[str, Any], names: Iterable[str]) -> Row | None:
    """Return the key of a row; None if a part is NULL, which equals nothing."""
    values = tuple(row[name] for name in names)
    return None if None in values else tuple(map(_rank, values))


def _less(left: Any, right: Any, or_equal: bool) -> bool:
    return _rank(left) <= _rank(right) if or_equal else _rank(left) < _rank(right)


def _holds(condition: Condition | None, stream: dict[str, Any], master: dict[str, Any]) -> bool:
    if condition is None:
        return True
    value = stream[condition.stream_column]
    if value is None:
        return False
    if isinstance(condition, Between):
        low, high = master[condition.low_column], master[condition.high_column]
        if not condition.null_is_open and (low is None or high is None):
            return False
        above = low is None or _less(low, value, or_equal=condition.closed in ("both", "low"))
        below = high is None or _less(value, high, or_equal=condition.closed in ("both", "high"))
        return above and below
    bound = master[condition.master_column]
    if bound is None:
        return False
    if condition.operator in ("<", "<="):
        return _less(value, bound, or_equal=condition.operator == "<=")
    return _less(bound, value, or_equal=condition.operator == ">=")


def join(
    stream: Iterable[pa.RecordBatch],
    master: pa.Table,
    keys: Sequence[tuple[str, str]],
    how: str = "inner",
    condition: Condition | None = None,
    master_columns: Sequence[str] = (),
) -> list[Row]:
    """Return the joined rows in stream order: stream columns, then ``master_columns``."""
    rows_of_key: dict[Row | None, list[dict[str, Any]]] = {}
    for row in master.to_pylist():
        rows_of_key.setdefault(_key(row, (name for _, name in keys)), []).append(row)
    rows_of_key[None] = []
    joined: list[Row] = []
    for batch in stream:
        for tuple_ in batch.to_pylist():
            candidates = rows_of_key.get(_key(tuple_, (name for name, _ in keys)), [])
            matches = [row for row in candidates if _holds(condition, tuple_, row)]
            values = tuple(tuple_.values())
            if how == "inner" or (how == "left" and matches):
                joined += [values + tuple(row[name] for name in master_columns) for row in matches]
            elif how == "left":
                joined.append(values + (None,) * len(master_columns))
            elif (how == "semi") == bool(matches):
                joined.append(values)
    return joined


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, list):
        return tuple(_comparable(item) for item in value)
    return value


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Return the rows of output batches as tuples."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def multiset(rows: Iterable[Row]) -> "Counter[Row]":
    """Return rows as a multiset in which NaN equals NaN and -0.0 differs from 0.0."""
    return Counter(tuple(_comparable(value) for value in row) for row in rows)
