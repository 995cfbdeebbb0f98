"""One micro-batch of one bucket: the papers' loop, cut where the batch ends.

How many steps a batch takes is a function of state and input: enough to read all tuples that came into the operator,
and a share of a pass over the bucket's pages, so that a pass takes ``cycle_batches`` batches however slow the
stream is. No clock is asked, so that a batch that is replayed lets the same rows out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from semistream.core.errors import TableNotFound
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.runtime.spark.join.bucket_state import BucketState
from semistream.runtime.spark.join.epoch import Epoch, Tick
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.regular_batches import regular_batches
from semistream.runtime.spark.metrics.null_keys import count_null_keys
from semistream.runtime.spark.metrics.task_metrics import COUNTERS, MemoryPeak, TaskMetrics
from semistream.runtime.spark.stateful.packing import blob_bytes, operator_bytes
from semistream.storage import MasterTable

__all__ = ["BucketTurn", "make_operator"]

_OFFERED_ROWS = 4096


def make_operator(plan: JoinPlan, epoch: Epoch, table: MasterTable, bucket: int) -> StepOperator:
    """Return an operator for one bucket of the table's version that the epoch names."""
    budget_bytes = operator_bytes(epoch.task_bytes)
    return algorithm(epoch.algorithm).make(table.bucket(bucket), plan.spec(table), budget_bytes, dict(epoch.options))


class BucketTurn:
    """Brings a bucket from one micro-batch to the next.

    Attributes
    ----------
    counts
        What the operators counted in this batch.
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
        """Join what came and yield the rows that leave; the state is saved at the end."""
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
            begins_anew = self._state.is_of_another_form and not self.pending  # its cache is all that is lost
            if before is not None and epoch == before.epoch and not begins_anew:
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
        """Answer all tuples of an epoch that ends."""
        op = self._operator(epoch)
        try:
            self._state.restore(op)
            yield from op.drain()
            self._count(op)
        finally:
            op.close()

    def _operator(self, epoch: Epoch) -> StepOperator:
        return make_operator(self._plan, epoch, self._table(epoch.version), self._bucket)

    def _table(self, version: int) -> MasterTable:
        if version == self._plan.table.version:
            return self._plan.table
        try:
            return self._plan.table.at_version(version)
        except TableNotFound:
            raise TableNotFound(
                f"tuples of this query are to be joined with version {version} of {self._plan.table.path}, which has "
                "been removed: keep more versions with expire_versions(keep=...), or start from a new checkpoint"
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
        # One operator may have finished before another one with less memory: both were allowed what they took.
        self._budget_bytes = max(self._budget_bytes, op.budget_bytes)
        self._memory.note(op.memory().components)

    def metrics(self, partition: int) -> TaskMetrics:
        """Return what was counted in this batch."""
        return TaskMetrics(
            partition=partition,
            bucket=self._bucket,
            version=self._version,
            counters={**dict.fromkeys(COUNTERS, 0), **self.counts, "pending": self.pending},
            budget_bytes=self._budget_bytes,
            memory_bytes=self._memory.total_bytes,
            memory=dict(self._memory.components),
        )
