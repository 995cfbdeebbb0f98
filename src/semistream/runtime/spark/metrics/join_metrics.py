"""Counters of a task, on their way from the worker to the query's progress, and metrics of joins, read there.

Counters travel as text in a column of their own, in one extra row per task: columns of numbers would widen every
joined row.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.metrics import Metrics
from semistream.stream_joins.parts.stream_metrics import StreamMetrics

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "COUNTERS",
    "METRICS_COLUMN",
    "STATE_COUNTERS",
    "JoinMetrics",
    "MemoryPeak",
    "StreamJoinMetrics",
    "TaskMetrics",
    "count_null_keys",
]

METRICS_COLUMN = "__semistream"  # NULL in joined rows
COUNTERS = (*Metrics().as_dict(), "null_keys", "pending")
STATE_COUNTERS = ("left_held", "right_held", "state_bytes")


@dataclass(frozen=True, kw_only=True)
class TaskMetrics:
    """Counters of one task, or of one bucket where rows wait.

    Attributes
    ----------
    partition, bucket
        The part of the stream; the bucket is None when the stream was not shuffled.
    version
        The version of the table; 0 when the task had nothing to do.
    counters
        As in `semistream.Metrics`, of this task alone; with ``null_keys``, the tuples whose key was NULL, and
        ``pending``, those left for a later micro-batch.
    budget_bytes, memory_bytes, memory
        The budget of its operator, the most that this held at once, and the most of each component.
    """

    partition: int
    bucket: int | None
    version: int
    counters: dict[str, int]
    budget_bytes: int
    memory_bytes: int
    memory: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> "TaskMetrics":
        return cls(**json.loads(text))


class MemoryPeak:
    """The most bytes held, in total and by component, as in `TaskMetrics`."""

    def __init__(self) -> None:
        self.memory_bytes = 0
        self.memory: dict[str, int] = {}

    def note(self, components: dict[str, int]) -> None:
        self.memory_bytes = max(self.memory_bytes, sum(components.values()))
        for name, size in components.items():
            self.memory[name] = max(self.memory.get(name, 0), size)


def count_null_keys(batch: pa.RecordBatch, keys: Sequence[str]) -> int:
    """Return how many rows have a NULL in any of the key columns.

    >>> count_null_keys(pa.record_batch({"a": [1, None, None], "b": [None, None, 2]}), ["a", "b"])
    3
    """
    columns = [column for column in map(batch.column, keys) if column.null_count]
    if len(columns) <= 1:
        return sum(column.null_count for column in columns)
    return int(
        np.count_nonzero(np.any([column.is_null().to_numpy(zero_copy_only=False) for column in columns], axis=0))
    )


# --- read from the progress -------------------------------------------------------------------------------------------


def _total(doc: str, *counters: str) -> "cached_property[int]":
    """Return a property with the sum of some counters."""

    def total(metrics: "_ObservedMetrics") -> int:
        return sum(metrics._totals[name] for name in counters)

    total.__doc__ = doc
    return cached_property(total)


@dataclass(frozen=True, kw_only=True)
class _ObservedMetrics:
    """Metrics of one kind of join, in one micro-batch."""

    name: str
    batch_id: int | None

    _parts_column: ClassVar[str]  # also the field that holds the metrics of the tasks or buckets
    _counter_names: ClassVar[tuple[str, ...]]

    @classmethod
    def from_progress(cls, progress: object, name: str | None = None) -> "Self | None":
        """Return the counters of a join in a micro-batch; None when the progress has none.

        Parameters
        ----------
        progress
            From ``query.lastProgress``, ``query.recentProgress`` or a listener's ``event.progress``.
        name
            The join's name, needed when the query has several.

        Raises
        ------
        InvalidArgument
            When the query has several joins and no name is given.
        """
        found = cls.all_from_progress(progress)
        if name is not None:
            return found.get(name)
        if len(found) > 1:
            raise InvalidArgument(f"the query has several joins: give name= as one of {', '.join(map(repr, found))}")
        return next(iter(found.values()), None)

    @classmethod
    def all_from_progress(cls, progress: object) -> "dict[str, Self]":
        """Return the metrics of all joins of this kind of a query in one micro-batch, by name."""
        field = progress.__getitem__ if isinstance(progress, Mapping) else partial(getattr, progress)
        observed = field("observedMetrics") or {}
        found = {name: cls.from_observed(name, row, field("batchId")) for name, row in observed.items()}
        return {name: metrics for name, metrics in found.items() if metrics is not None}

    @classmethod
    def from_observed(cls, name: str, fields: object, batch_id: int | None = None) -> "Self | None":
        """Return the metrics in a row that Spark observed; None when it belongs to no such join."""
        row = _row_by_name(fields)
        if row.keys() != {"totals", cls._parts_column}:
            return None
        parts = map(TaskMetrics.from_json, row[cls._parts_column])
        in_order = tuple(sorted(parts, key=lambda part: (part.bucket or 0, part.partition)))
        own: dict[str, Any] = {cls._parts_column: in_order}
        return cls(name=name, batch_id=batch_id, **own)

    @classmethod
    def latest(cls, query: object, name: str | None = None) -> "Self | None":
        """Return the counters of a query's last micro-batch with rows; None before the first.

        Parameters
        ----------
        query
            A streaming query.
        name
            The join's name, needed when the query has several.
        """
        progresses: Any = getattr(query, "recentProgress", None)
        if progresses is None:
            raise InvalidArgument(f"metrics of a {type(query).__name__}: give a streaming query")
        every = (cls.from_progress(progress, name) for progress in reversed(progresses))
        return next((found for found in every if found is not None and found._parts), None)

    @property
    def _parts(self) -> tuple[TaskMetrics, ...]:
        parts: tuple[TaskMetrics, ...] = getattr(self, self._parts_column)
        return parts

    @cached_property
    def _totals(self) -> dict[str, int]:
        return {name: sum(part.counters[name] for part in self._parts) for name in self._counter_names}

    @property
    def counters(self) -> dict[str, int]:
        """All counters, added up; for a join with a table the names are those of `semistream.Metrics`."""
        return dict(self._totals)

    @property
    def memory_bytes(self) -> int:
        """The most bytes that any task or bucket held in memory at once."""
        return max((part.memory_bytes for part in self._parts), default=0)

    @property
    def budget_bytes(self) -> int:
        """The budget of one operator, a share of a task's memory; 0 when no task had rows."""
        return max((part.budget_bytes for part in self._parts), default=0)


@dataclass(frozen=True, kw_only=True)
class JoinMetrics(_ObservedMetrics):
    """Counters of a join in one micro-batch, or in one action on a batch DataFrame.

    Attributes
    ----------
    name
        The ``name`` given to `join`, or ``semistream-`` and a short id, followed by ``-2``, ``-3`` and so on when the
        program makes the same join again. Give ``name=`` for one that stays the same.
    batch_id
        The number of the micro-batch; None for a batch DataFrame.
    tasks
        The counters of each partition that had rows, or of each bucket.
    """

    tasks: tuple[TaskMetrics, ...]

    _parts_column = "tasks"
    _counter_names = COUNTERS

    tuples_in = _total("Stream rows that came in.", "tuples_in")
    tuples_answered = _total("Stream rows whose results are all out.", "tuples_answered")
    rows_out = _total("Rows that left the join.", "rows_out")
    hits = _total(
        "Stream rows answered from memory: by a cache, or by pages that the system had there anyway.",
        "tuples_through_cache",
        "tuples_in_place",
    )
    misses = _total("Stream rows for which pages of the table were read.", "tuples_through_disk")
    without_match = _total("Stream rows without a match, also those with a NULL key.", "tuples_without_match")
    null_keys = _total("Stream rows whose key was NULL.", "null_keys")
    pending = _total("Stream rows left for a later micro-batch; none with ``completion='batch'``.", "pending")
    pages_read = _total("Pages of the table that were read.", "pages_read")
    bytes_read = _total("Bytes of those pages.", "bytes_read")

    @property
    def hit_ratio(self) -> float:
        """Hits among the rows that the cache or the disk answered; 0.0 when there were none."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    @property
    def pages_per_tuple(self) -> float:
        """Pages read for each row answered; 0.0 when there were none."""
        return self.pages_read / self.tuples_answered if self.tuples_answered else 0.0

    @property
    def memory(self) -> dict[str, int]:
        """The most bytes that any task held, by component."""
        names = sorted({name for task in self.tasks for name in task.memory})
        return {name: max(task.memory.get(name, 0) for task in self.tasks) for name in names}

    @property
    def version(self) -> int | None:
        """The newest version of the table that a task used; None when no task had rows."""
        return max((task.version for task in self.tasks if task.version), default=None)


@dataclass(frozen=True, kw_only=True)
class StreamJoinMetrics(_ObservedMetrics):
    """Counters of a join of two streams in one micro-batch.

    Attributes
    ----------
    name
        The ``name`` given to `punctuated_join`, or ``semistream-`` and a short id.
    batch_id
        The number of the micro-batch.
    buckets
        The counters of each bucket that had tuples or punctuations.
    """

    buckets: tuple[TaskMetrics, ...]

    _parts_column = "buckets"
    _counter_names = (*StreamMetrics().as_dict(), *STATE_COUNTERS)

    left_in = _total("Tuples of the left stream that came.", "left_in")
    right_in = _total("Tuples of the right stream that came.", "right_in")
    rows_out = _total("Rows that left the join.", "rows_out")
    punctuations_in = _total(
        "Punctuations that came; one for a range of keys counts in every bucket with such keys.", "punctuations_in"
    )
    dropped = _total("Tuples that never entered the state because nothing can match them any more.", "dropped")
    purged = _total("Tuples that left the state for the same reason.", "purged")
    contradicting = _total("Tuples that came although a punctuation had excluded them.", "contradicting")
    rows_held = _total("Tuples in the state of these buckets; they may still match.", "left_held", "right_held")
    state_bytes = _total("Bytes of these buckets in the state store.", "state_bytes")


def _row_by_name(row: Any) -> dict[str, Any]:
    """Return an observed row by column: a Row, a dict, or on Spark Connect a Row of values and their schema."""
    fields: dict[str, Any] = row.asDict() if hasattr(row, "asDict") else dict(row)
    if fields.keys() == {"values", "schema"}:
        return dict(zip((column["name"] for column in fields["schema"]["fields"]), fields["values"], strict=True))
    return fields
