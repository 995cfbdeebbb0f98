"""The operator contract: a step machine that does nothing unless it is called, and knows no clock and no Spark."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec

__all__ = ["Operator"]


@runtime_checkable
class Operator(Protocol):
    """What every join algorithm offers to a runtime.

    The caller owns time: it offers tuples when they arrive, and steps when it wants work done. An operator that
    raised is done for; its last snapshot is where to go on from. Only when the store of shed tuples fails, the step has
    not begun, and can be asked for again.
    """

    spec: JoinSpec
    metrics: Metrics

    @property
    def name(self) -> str:
        """The algorithm's name."""

    @property
    def pending(self) -> int:
        """Tuples offered and not yet answered, those in the stream buffer included."""

    def offer(self, batch: pa.RecordBatch) -> int:
        """Put rows from the front of ``batch`` into the stream buffer and return how many it took.

        Fewer than all rows means that the buffer is full: step, then offer the rest.
        """

    def step(self) -> Iterator[pa.RecordBatch]:
        """Run one iteration of the paper's outer loop and return its results, to be read to the end.

        With nothing pending a step does nothing.
        """

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Step until nothing is pending."""

    def memory(self) -> MemoryReport:
        """Return the bytes held by each component; their sum never exceeds the budget."""

    def snapshot(self) -> bytes:
        """Return all durable state. Caches are not in it: losing one costs time, never rows."""

    def restore(self, snapshot: bytes) -> None:
        """Take over the state of a snapshot of the same join; only on an operator that has done nothing yet."""

    def close(self) -> None:
        """Give back files and threads."""
