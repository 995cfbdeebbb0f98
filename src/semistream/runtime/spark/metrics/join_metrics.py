"""Metrics of a join as Python objects, read from a query's progress."""

from dataclasses import dataclass, field

from semistream.runtime.spark.metrics.observed_metrics import ObservedMetrics, row_by_name
from semistream.runtime.spark.metrics.task_metrics import COUNTERS, TaskMetrics

__all__ = ["JoinMetrics"]


@dataclass(frozen=True, kw_only=True)
class JoinMetrics(ObservedMetrics):
    """What a join did in one micro-batch, or in one action on a batch DataFrame.

    Attributes
    ----------
    name
        Of the join, as in the progress: the ``name`` given to `join`, or ``semistream-`` and a short id, followed by
        ``-2``, ``-3`` and so on when the program makes the same join again. Give ``name=`` for one that stays the same.
    batch_id
        Of the micro-batch; None for a batch DataFrame.
    tasks
        What each task counted: one per partition that had rows, or per bucket.
    """

    name: str
    batch_id: int | None
    tasks: tuple[TaskMetrics, ...]
    _totals: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        totals = {name: sum(task.counters[name] for task in self.tasks) for name in COUNTERS}
        object.__setattr__(self, "_totals", totals)

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
        """Stream rows that a cache answered, those of keys that it knows to have no row included."""
        return self._totals["tuples_through_cache"]

    @property
    def misses(self) -> int:
        """Stream rows that pages of the table answered."""
        return self._totals["tuples_through_disk"]

    @property
    def without_match(self) -> int:
        """Stream rows without a matching row, those with a NULL key included."""
        return self._totals["tuples_without_match"]

    @property
    def null_keys(self) -> int:
        """Stream rows whose key was NULL."""
        return self._totals["null_keys"]

    @property
    def pending(self) -> int:
        """Stream rows not done with in this micro-batch: more matches may come; none with ``completion="batch"``."""
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
        """What one operator was allowed: its share of a task's memory; 0 when no task had anything to do."""
        return max((task.budget_bytes for task in self.tasks), default=0)

    @property
    def version(self) -> int | None:
        """The newest version of the table that a task used; None when no task had anything to do."""
        return max((task.version for task in self.tasks if task.version), default=None)

    @classmethod
    def from_observed(cls, name: str, fields: object, batch_id: int | None = None) -> "JoinMetrics | None":
        """Return the metrics in a row that Spark observed; None when it is not of a join."""
        row = row_by_name(fields)
        if row.keys() != {"totals", "tasks"}:
            return None
        tasks = map(TaskMetrics.from_json, row["tasks"])
        return cls(name=name, batch_id=batch_id, tasks=tuple(sorted(tasks, key=lambda task: task.partition)))
