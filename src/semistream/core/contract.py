"""The operator contract: a step machine without a thread, a clock or a Spark session of its own."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec

__all__ = ["Operator"]


@runtime_checkable
class Operator(Protocol):
    """The methods of every join algorithm.

    The caller owns time: it offers tuples when they arrive, and steps when it wants work done. After an error, continue
    with a new operator from the last snapshot. A failure of the store of shed tuples is the exception: the step has not
    begun, and can be repeated.
    """

    spec: JoinSpec
    metrics: Metrics

    @property
    def name(self) -> str:
        """The algorithm's name."""

    @property
    def pending(self) -> int:
        """Tuples offered and not yet answered, including those in the stream buffer."""

    def offer(self, batch: pa.RecordBatch) -> int:
        """Put rows from the front of ``batch`` into the stream buffer and return their number.

        Fewer than all rows mean a full buffer: step, then offer the rest.
        """

    def step(self) -> Iterator[pa.RecordBatch]:
        """Run one iteration of the paper's outer loop and return its results; read them to the end.

        With no tuple pending, a step does nothing.
        """

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Step until nothing is pending."""

    def memory(self) -> MemoryReport:
        """Return the bytes held by each component; their sum never exceeds the budget."""

    def snapshot(self) -> bytes:
        """Return all durable state. Caches are left out: losing one costs time, never rows."""

    def restore(self, snapshot: bytes) -> None:
        """Take over the state of a snapshot of the same join; only in a new operator."""

    def close(self) -> None:
        """Give back files and threads."""
