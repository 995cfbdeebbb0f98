"""Metrics of joins as Python objects, read from a query's progress."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.metrics.task_metrics import COUNTERS, TaskMetrics
from semistream.stream_joins.parts.stream_metrics import StreamMetrics

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["STATE_COUNTERS", "JoinMetrics", "StreamJoinMetrics"]

STATE_COUNTERS = ("left_held", "right_held", "state_bytes")
_STREAM_COUNTERS = (*StreamMetrics().as_dict(), *STATE_COUNTERS)


class _ObservedMetrics:
    """Metrics of one kind of join, in one micro-batch."""

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
        batch_id, observed = _observed_in(progress)
        found = {name: cls.from_observed(name, row, batch_id) for name, row in observed.items()}
        return {name: metrics for name, metrics in found.items() if metrics is not None}

    @classmethod
    @abstractmethod
    def from_observed(cls, name: str, fields: object, batch_id: int | None = None) -> "Self | None":
        """Return the metrics in a row that Spark observed; None when it belongs to no such join."""


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

    name: str
    batch_id: int | None
    tasks: tuple[TaskMetrics, ...]

    @cached_property
    def _totals(self) -> dict[str, int]:
        return {name: sum(task.counters[name] for task in self.tasks) for name in COUNTERS}

    @property
    def counters(self) -> dict[str, int]:
        """All counters of all tasks, added up; the names are those of `semistream.Metrics`."""
        return dict(self._totals)

    @property
    def tuples_in(self) -> int:
        """Stream rows that came in."""
        return self._totals["tuples_in"]

    @property
    def tuples_answered(self) -> int:
        """Stream rows whose results are all out."""
        return self._totals["tuples_answered"]

    @property
    def rows_out(self) -> int:
        """Rows that left the join."""
        return self._totals["rows_out"]

    @property
    def hits(self) -> int:
        """Stream rows that a cache answered, also those of keys that it knows to have no row."""
        return self._totals["tuples_through_cache"]

    @property
    def misses(self) -> int:
        """Stream rows that pages of the table answered."""
        return self._totals["tuples_through_disk"]

    @property
    def without_match(self) -> int:
        """Stream rows without a matching row, also those with a NULL key."""
        return self._totals["tuples_without_match"]

    @property
    def null_keys(self) -> int:
        """Stream rows whose key was NULL."""
        return self._totals["null_keys"]

    @property
    def pending(self) -> int:
        """Stream rows left for a later micro-batch; none with ``completion="batch"``."""
        return self._totals["pending"]

    @property
    def pages_read(self) -> int:
        """Pages of the table that were read."""
        return self._totals["pages_read"]

    @property
    def bytes_read(self) -> int:
        """Bytes of those pages."""
        return self._totals["bytes_read"]

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
    def memory_bytes(self) -> int:
        """The most bytes that any task held at once."""
        return max((task.memory_bytes for task in self.tasks), default=0)

    @property
    def budget_bytes(self) -> int:
        """The budget of one operator, a share of a task's memory; 0 when no task had rows."""
        return max((task.budget_bytes for task in self.tasks), default=0)

    @property
    def version(self) -> int | None:
        """The newest version of the table that a task used; None when no task had rows."""
        return max((task.version for task in self.tasks if task.version), default=None)

    @classmethod
    def from_observed(cls, name: str, fields: object, batch_id: int | None = None) -> "JoinMetrics | None":
        """Return the metrics in a row that Spark observed; None when it belongs to no such join."""
        row = _row_by_name(fields)
        if row.keys() != {"totals", "tasks"}:
            return None
        tasks = map(TaskMetrics.from_json, row["tasks"])
        return cls(name=name, batch_id=batch_id, tasks=tuple(sorted(tasks, key=lambda task: task.partition)))


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

    name: str
    batch_id: int | None
    buckets: tuple[TaskMetrics, ...]

    @cached_property
    def _totals(self) -> dict[str, int]:
        return {name: sum(bucket.counters[name] for bucket in self.buckets) for name in _STREAM_COUNTERS}

    @property
    def counters(self) -> dict[str, int]:
        """All counters of all buckets, added up."""
        return dict(self._totals)

    @property
    def left_in(self) -> int:
        """Tuples of the left stream that came."""
        return self._totals["left_in"]

    @property
    def right_in(self) -> int:
        """Tuples of the right stream that came."""
        return self._totals["right_in"]

    @property
    def rows_out(self) -> int:
        """Rows that left the join."""
        return self._totals["rows_out"]

    @property
    def punctuations_in(self) -> int:
        """Punctuations that came; one for a range of keys counts in every bucket with such keys."""
        return self._totals["punctuations_in"]

    @property
    def dropped(self) -> int:
        """Tuples that never entered the state because nothing can match them any more."""
        return self._totals["dropped"]

    @property
    def purged(self) -> int:
        """Tuples that left the state for the same reason."""
        return self._totals["purged"]

    @property
    def contradicting(self) -> int:
        """Tuples that came although a punctuation had excluded them."""
        return self._totals["contradicting"]

    @property
    def rows_held(self) -> int:
        """Tuples in the state of these buckets; they may still match."""
        return self._totals["left_held"] + self._totals["right_held"]

    @property
    def state_bytes(self) -> int:
        """Bytes of these buckets in the state store."""
        return self._totals["state_bytes"]

    @property
    def memory_bytes(self) -> int:
        """The most bytes that any bucket held in memory at once."""
        return max((bucket.memory_bytes for bucket in self.buckets), default=0)

    @property
    def budget_bytes(self) -> int:
        """The budget of one bucket."""
        return max((bucket.budget_bytes for bucket in self.buckets), default=0)

    @classmethod
    def latest(cls, query: object, name: str | None = None) -> "StreamJoinMetrics | None":
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
        for progress in reversed(progresses):
            found = cls.from_progress(progress, name)
            if found is not None and found.buckets:
                return found
        return None

    @classmethod
    def from_observed(cls, name: str, fields: object, batch_id: int | None = None) -> "StreamJoinMetrics | None":
        """Return the metrics in a row that Spark observed; None when it belongs to no such join."""
        row = _row_by_name(fields)
        if row.keys() != {"totals", "buckets"}:
            return None
        buckets = map(TaskMetrics.from_json, row["buckets"])
        return cls(name=name, batch_id=batch_id, buckets=tuple(sorted(buckets, key=lambda bucket: bucket.bucket or 0)))


def _observed_in(progress: object) -> tuple[int, dict[str, Any]]:
    """Return the number of the micro-batch and its observed rows by name."""
    fields: Any = progress
    if isinstance(fields, Mapping):
        return fields["batchId"], dict(fields["observedMetrics"] or {})
    return fields.batchId, dict(fields.observedMetrics or {})


def _row_by_name(row: Any) -> dict[str, Any]:
    """Return an observed row by column: a Row, a dict, or on Spark Connect a Row of values and their schema."""
    fields: dict[str, Any] = row.asDict() if hasattr(row, "asDict") else dict(row)
    if fields.keys() == {"values", "schema"}:
        return dict(zip((column["name"] for column in fields["schema"]["fields"]), fields["values"], strict=True))
    return fields
