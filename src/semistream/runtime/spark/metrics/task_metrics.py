"""What one task of a join counted, on its way from the worker to the query's progress.

It travels as text in a column of its own, in one extra row per task: columns of numbers would cost each joined row
their width.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field

from semistream.core.metrics import Metrics

__all__ = ["COUNTERS", "COUNTERS_IN_TEXT", "METRICS_COLUMN", "MemoryPeak", "TaskMetrics"]

METRICS_COLUMN = "__semistream"  # NULL in joined rows
COUNTERS = (*Metrics().as_dict(), "null_keys", "pending")
COUNTERS_IN_TEXT = "counters map<string, bigint>"  # what Spark has to parse to add them up


@dataclass(frozen=True, kw_only=True)
class TaskMetrics:
    """Counters of one task.

    Attributes
    ----------
    partition, bucket
        Which part of the stream it was; the bucket is None when the stream was not shuffled.
    version
        The version of the table; 0 when the task had nothing to do.
    counters
        As in `semistream.Metrics`, of this task alone; with ``null_keys``, the tuples whose key was NULL, and
        ``pending``, those left for a later micro-batch.
    budget_bytes, memory_bytes, memory
        What its operator was allowed, the most that this held at once, and the most of each component.
    """

    partition: int
    bucket: int | None
    version: int
    counters: dict[str, int]
    budget_bytes: int
    memory_bytes: int
    memory: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "TaskMetrics":
        """Return what `to_json` wrote."""
        return cls(**json.loads(text))


class MemoryPeak:
    """The most that was held, in total and by component."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self.components: Counter[str] = Counter()

    def note(self, components: dict[str, int]) -> None:
        """Take a look at what is held now."""
        self.total_bytes = max(self.total_bytes, sum(components.values()))
        for name, size in components.items():
            self.components[name] = max(self.components[name], size)
