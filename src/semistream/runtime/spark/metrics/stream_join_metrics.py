"""Metrics of a join of two streams as Python objects, read from a query's progress."""

from dataclasses import dataclass, field
from typing import Any

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.metrics.observed_metrics import ObservedMetrics, row_by_name
from semistream.runtime.spark.metrics.task_metrics import TaskMetrics
from semistream.stream_joins.parts.stream_metrics import StreamMetrics

__all__ = ["STATE_COUNTERS", "StreamJoinMetrics"]

STATE_COUNTERS = ("left_held", "right_held", "state_bytes")
_COUNTERS = (*StreamMetrics().as_dict(), *STATE_COUNTERS)


@dataclass(frozen=True, kw_only=True)
class StreamJoinMetrics(ObservedMetrics):
    """What a join of two streams did in one micro-batch.

    Attributes
    ----------
    name
        Of the join, as in the progress: the ``name`` given to `punctuated_join`, or ``semistream-`` and a short id.
    batch_id
        Of the micro-batch.
    buckets
        What each bucket counted that had tuples or punctuations in it.
    """

    name: str
    batch_id: int | None
    buckets: tuple[TaskMetrics, ...]
    _totals: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        totals = {name: sum(bucket.counters[name] for bucket in self.buckets) for name in _COUNTERS}
        object.__setattr__(self, "_totals", totals)

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
        """Punctuations that came; one of a range of keys comes to every bucket that has some of them."""
        return self._totals["punctuations_in"]

    @property
    def dropped(self) -> int:
        """Tuples that never entered the state, because nothing can match them any more."""
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
        """Tuples in the state of these buckets, which may still match."""
        return self._totals["left_held"] + self._totals["right_held"]

    @property
    def state_bytes(self) -> int:
        """What these buckets take in the state store."""
        return self._totals["state_bytes"]

    @property
    def memory_bytes(self) -> int:
        """The most bytes that any bucket held in memory at once."""
        return max((bucket.memory_bytes for bucket in self.buckets), default=0)

    @property
    def budget_bytes(self) -> int:
        """What one bucket was allowed."""
        return max((bucket.budget_bytes for bucket in self.buckets), default=0)

    @classmethod
    def latest(cls, query: object, name: str | None = None) -> "StreamJoinMetrics | None":
        """Return what a join of two streams counted in the last micro-batch of a query that had rows; None before.

        Parameters
        ----------
        query
            A streaming query.
        name
            Of the join; needed when the query has several.
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
        """Return the metrics in a row that Spark observed; None when it is not of a join of two streams."""
        row = row_by_name(fields)
        if row.keys() != {"totals", "buckets"}:
            return None
        buckets = map(TaskMetrics.from_json, row["buckets"])
        return cls(name=name, batch_id=batch_id, buckets=tuple(sorted(buckets, key=lambda bucket: bucket.bucket or 0)))
