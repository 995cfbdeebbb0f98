"""Counters of one task, on their way from the worker to the query's progress.

They travel as text in a column of their own, in one extra row per task: columns of numbers would widen every joined
row.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa

from semistream.core.metrics import Metrics

__all__ = ["COUNTERS", "COUNTERS_IN_TEXT", "METRICS_COLUMN", "MemoryPeak", "TaskMetrics", "count_null_keys"]

METRICS_COLUMN = "__semistream"  # NULL in joined rows
COUNTERS = (*Metrics().as_dict(), "null_keys", "pending")
COUNTERS_IN_TEXT = "counters map<string, bigint>"  # the part that Spark parses to add them up


@dataclass(frozen=True, kw_only=True)
class TaskMetrics:
    """Counters of one task.

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
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "TaskMetrics":
        """Return the metrics that `to_json` wrote."""
        return cls(**json.loads(text))


class MemoryPeak:
    """The most bytes held, in total and by component."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self.components: Counter[str] = Counter()

    def note(self, components: dict[str, int]) -> None:
        """Compare with the bytes held now."""
        self.total_bytes = max(self.total_bytes, sum(components.values()))
        for name, size in components.items():
            self.components[name] = max(self.components[name], size)


def count_null_keys(batch: pa.RecordBatch, keys: Sequence[str]) -> int:
    """Return how many rows have a NULL in any of the key columns.

    Examples
    --------
    >>> count_null_keys(pa.record_batch({"a": [1, None, None], "b": [None, None, 2]}), ["a", "b"])
    3
    """
    columns = [column for column in map(batch.column, keys) if column.null_count]
    if len(columns) <= 1:
        return sum(column.null_count for column in columns)
    return int(
        np.count_nonzero(np.any([column.is_null().to_numpy(zero_copy_only=False) for column in columns], axis=0))
    )
