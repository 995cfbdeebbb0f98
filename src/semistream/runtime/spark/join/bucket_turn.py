"""One micro-batch of one bucket: the papers' loop, cut where the batch ends.

The number of steps is a function of state and input: enough to read all new tuples into the operator, and a share of a
pass over the bucket's pages, so that a pass takes ``cycle_batches`` batches on a slow stream too. No clock is asked, so
a replayed batch returns the same rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import TableNotFound
from semistream.kernels.arrow_views import varlen_parts
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.runtime.spark.join.bucket_state import BucketState
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import Epoch, Tick
from semistream.runtime.spark.metrics.task_metrics import COUNTERS, MemoryPeak, TaskMetrics, count_null_keys
from semistream.runtime.spark.stateful.packing import blob_bytes, operator_bytes
from semistream.storage import MasterTable

__all__ = ["BucketTurn", "regular_batches"]

_OFFERED_ROWS = 4096


class BucketTurn:
    """Brings a bucket from one micro-batch to the next.

    Attributes
    ----------
    counts
        Counters of the operators in this batch.
    """

    def __init__(self, plan: JoinPlan, bucket: int, state: BucketState) -> None:
        self._plan = plan
        self._bucket = bucket
        self._state = state
        self.counts: Counter[str] = Counter()
        self.pending = 0 if state.header is None else state.header.pending
        self.marks = "" if state.header is None else state.header.marks
        self._version = 0
        self._budget_bytes = 0
        self._memory = MemoryPeak()

    def run(self, ticks: Iterable[Tick], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the batch, yield the rows that leave, and save the state."""
        before = self._state.header
        epoch = None if before is None else before.epoch
        ticked = False
        for tick in ticks:
            epoch, self.marks, ticked = tick.epoch, tick.marks, True
        assert epoch is not None, "the first batch of a query ticks for all buckets"
        batches = iter(batches)
        first = next(batches, None)
        if first is None and not self.pending and (before is not None and epoch == before.epoch):
            return
        assert ticked or first is not None
        if before is not None and epoch != before.epoch and self.pending:
            yield from self._finish(before.epoch)
        op = self._operator(epoch)
        try:
            if before is not None and epoch == before.epoch and before.state is not None:
                self._state.restore(op)
            rows = batches if first is None else chain([first], batches)
            yield from self._offer(op, regular_batches(rows, _OFFERED_ROWS, blob_bytes(epoch.task_bytes)))
            yield from self._go_on(op, epoch)
            self._count(op)
            self.pending = op.pending
            self._state.save(op, epoch, self.marks)
        finally:
            op.close()

    def _finish(self, epoch: Epoch) -> Iterator[pa.RecordBatch]:
        """Answer all pending tuples of an epoch that ends."""
        op = self._operator(epoch)
        try:
            self._state.restore(op)
            yield from op.drain()
            self._count(op)
        finally:
            op.close()

    def _operator(self, epoch: Epoch) -> StepOperator:
        table = self._table(epoch.version)
        budget_bytes = operator_bytes(epoch.task_bytes)
        return algorithm(epoch.algorithm).make(
            table.bucket(self._bucket), self._plan.spec(table), budget_bytes, dict(epoch.options)
        )

    def _table(self, version: int) -> MasterTable:
        if version == self._plan.table.version:
            return self._plan.table
        try:
            return self._plan.table.at_version(version)
        except TableNotFound:
            raise TableNotFound(
                f"pending tuples need version {version} of {self._plan.table.path}, which has been removed: keep "
                "more versions with expire_versions(keep=...), or start from a new checkpoint"
            ) from None

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
        self._memory.note(op.memory().components)

    def metrics(self, partition: int) -> TaskMetrics:
        """Return the counters of this batch."""
        return TaskMetrics(
            partition=partition,
            bucket=self._bucket,
            version=self._version,
            counters={**dict.fromkeys(COUNTERS, 0), **self.counts, "pending": self.pending},
            budget_bytes=self._budget_bytes,
            memory_bytes=self._memory.total_bytes,
            memory=dict(self._memory.components),
        )


def regular_batches(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of ``most_rows``, or fewer where their text exceeds ``most_bytes``.

    The bounds follow from the rows alone. The rows that an operator is offered at once decide its next step, and blobs
    are cut by the memory of the running program, which may be another one when a micro-batch is replayed. A single row
    may exceed ``most_bytes``.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        text_bytes = _text_bytes(batch)
        start = 0
        while start < batch.num_rows:
            room = most_rows - held_rows
            sizes = text_bytes[start : start + room]
            fitting = int(np.searchsorted(held_bytes + np.cumsum(sizes), most_bytes, side="right"))
            if fitting == 0 and held_rows == 0:
                fitting = 1
            if fitting:
                held.append(batch.slice(start, fitting))
                held_rows += fitting
                held_bytes += int(sizes[:fitting].sum())
                start += fitting
            if held_rows == most_rows or start < batch.num_rows:
                yield pa.concat_batches(held)
                held, held_rows, held_bytes = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _text_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    total = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        dtype = column.type
        if pt.is_string(dtype) or pt.is_binary(dtype) or pt.is_large_string(dtype) or pt.is_large_binary(dtype):
            lengths = np.diff(varlen_parts(column)[0])
            # The length of a NULL is arbitrary, and may differ in a copy.
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            total += np.where(valid, lengths, 0)
    return total
