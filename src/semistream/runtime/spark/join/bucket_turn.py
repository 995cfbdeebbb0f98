"""One micro-batch of one bucket: the papers' loop, cut where the batch ends, and its state until the next one.

The number of steps is a function of state and input: enough to read all new tuples into the operator, and a share of a
pass over the bucket's pages, so that a pass takes ``cycle_batches`` batches on a slow stream too. No clock is asked, so
a replayed batch returns the same rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa

from semistream.core.budget import require_on_machine
from semistream.core.errors import SnapshotMismatch, TableNotFound
from semistream.core.saved_state import FORMAT, SavedState
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import Epoch, Tick
from semistream.runtime.spark.metrics.join_metrics import COUNTERS, MemoryPeak, TaskMetrics, count_null_keys
from semistream.runtime.spark.on_executor import naming_host
from semistream.runtime.spark.session import blob_bytes, share_of_operator
from semistream.runtime.spark.stateful.chunks import (
    ChunkFiles,
    ChunkStore,
    StoredState,
    refusing_broken_checkpoint,
)
from semistream.runtime.spark.stateful.packing import regular_batches
from semistream.storage import MasterTable

__all__ = ["BucketState", "BucketTurn", "ExactOperator", "Header"]

_OFFERED_ROWS = 4096


class ExactOperator(Protocol):
    """An operator whose exact state can be kept."""

    @property
    def pending(self) -> int: ...
    def exact_state(self) -> SavedState: ...
    def set_exact_state(self, saved: SavedState) -> None: ...


@dataclass(frozen=True)
class Header:
    """The facts of a bucket that are known without its arrays."""

    epoch: Epoch
    pending: int
    marks: str
    state: dict[str, Any] | None  # of the operator; None where the next operator begins anew


class BucketState:
    """Reads and writes the exact state of a bucket's operator.

    Pending tuples in a state of another format are refused. Without them only a cache is lost: the bucket begins anew.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None = None) -> None:
        self._stored = StoredState(store, identity, files)
        fields = self._stored.fields
        if not fields:
            return
        with refusing_broken_checkpoint("number of pending tuples"):
            SavedState(fields).whole_number("pending")
        if fields["pending"] and not self._stored.is_readable:
            form = f"of format {fields['format']}" if "format" in fields else "of an older release"
            raise SnapshotMismatch(
                f"{fields['pending']} tuples are pending in a checkpoint with state {form}, this release reads format "
                f"{FORMAT}: run the query with the release that wrote it until nothing is pending (availableNow=True), "
                "or start from a new checkpoint"
            )

    @property
    def header(self) -> Header | None:
        """What the last micro-batch left; None before the first."""
        fields = self._stored.fields
        if not fields:
            return None
        with refusing_broken_checkpoint("state of a bucket"):
            state = dict(fields["state"]) if self._stored.is_readable else None
            return Header(Epoch.of_checkpoint(fields["epoch"]), fields["pending"], fields["marks"], state)

    def restore(self, op: ExactOperator) -> None:
        """Give an operator that has done nothing the state that was saved."""
        op.set_exact_state(SavedState(self._stored.fields["state"], self._stored, exact=True))

    def save(self, op: ExactOperator, epoch: Epoch, marks: str) -> None:
        self._stored.save(op.exact_state(), epoch=epoch.as_dict(), pending=op.pending, marks=marks)


class BucketTurn:
    """Brings a bucket from one micro-batch to the next."""

    def __init__(self, plan: JoinPlan, bucket: int, state: BucketState) -> None:
        self._plan = plan
        self._bucket = bucket
        self._state = state
        self._before = state.header
        self.counts: Counter[str] = Counter()
        self.pending = 0 if self._before is None else self._before.pending
        self.marks = "" if self._before is None else self._before.marks
        self._version = 0
        self._budget_bytes = 0
        self._peak = MemoryPeak()

    def run(self, ticks: Iterable[Tick], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the batch, yield the rows that leave, and save the state."""
        before = self._before
        epoch = None if before is None else before.epoch
        ticked = False
        for tick in ticks:
            epoch, self.marks, ticked = tick.epoch, tick.marks, True
        assert epoch is not None, "the first batch of a query ticks for all buckets"
        goes_on = before is not None and epoch == before.epoch
        batches = iter(batches)
        first = next(batches, None)
        if first is None and not self.pending and goes_on:
            return
        assert ticked or first is not None
        if before is not None and not goes_on and self.pending:
            yield from self._finish(before.epoch)
        with self._operator(epoch) as op:
            if before is not None and goes_on and before.state is not None:
                self._state.restore(op)
            rows = batches if first is None else chain([first], batches)
            yield from self._offer(op, regular_batches(rows, _OFFERED_ROWS, blob_bytes(epoch.task_bytes)))
            yield from self._go_on(op, epoch)
            self._count(op)
            self.pending = op.pending
            self._state.save(op, epoch, self.marks)

    def _finish(self, epoch: Epoch) -> Iterator[pa.RecordBatch]:
        """Answer all pending tuples of an epoch that ends."""
        with self._operator(epoch) as op:
            self._state.restore(op)
            yield from op.drain()
            self._count(op)

    def _operator(self, epoch: Epoch) -> StepOperator:
        table = self._table(epoch)
        bucket, spec, budget_bytes = (
            table.bucket(self._bucket),
            self._plan.spec(table),
            share_of_operator(epoch.task_bytes),
        )
        try:
            require_on_machine(budget_bytes)
            return algorithm(epoch.algorithm).make(bucket, spec, budget_bytes, dict(epoch.options))
        except MemoryError as error:
            raise SnapshotMismatch(
                f"the checkpoint asks for {budget_bytes} bytes of memory, which this executor has not ({error}): "
                "give executors the memory that they had, or start from a new checkpoint"
            ) from error

    def _table(self, epoch: Epoch) -> MasterTable:
        table = self._plan.table
        if epoch.version_id == table.version_id:
            return table
        with naming_host():
            if epoch.version not in table.versions():
                raise TableNotFound(
                    f"pending tuples need version {epoch.version} of {table.path}, which has been removed: keep "
                    "more versions with expire_versions(keep=...), or start from a new checkpoint"
                )
            return table.at_version(epoch.version, epoch.version_id)

    def _offer(self, op: StepOperator, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.counts["null_keys"] += count_null_keys(batch, op.spec.stream_keys)
            taken = op.offer(batch)
            while taken < batch.num_rows:
                yield from op.step()
                taken += op.offer(batch.slice(taken))

    def _go_on(self, op: StepOperator, epoch: Epoch) -> Iterator[pa.RecordBatch]:
        cycle = op.steps_per_cycle
        quota = 0 if cycle is None else -(-cycle // epoch.cycle_batches)
        while op.pending and (cycle is None or op.buffered or op.metrics.steps < quota):
            yield from op.step()

    def _count(self, op: StepOperator) -> None:
        self.counts.update(op.metrics.as_dict())
        self._version = op.table.version
        # In a batch that ends an epoch two operators take turns, with budgets of their own.
        self._budget_bytes = max(self._budget_bytes, op.budget_bytes)
        self._peak.note(op.memory().components)

    def metrics(self, partition: int) -> TaskMetrics:
        return TaskMetrics(
            partition=partition,
            bucket=self._bucket,
            version=self._version,
            counters={**dict.fromkeys(COUNTERS, 0), **self.counts, "pending": self.pending},
            budget_bytes=self._budget_bytes,
            **vars(self._peak),
        )
