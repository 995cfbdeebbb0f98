"""One micro-batch of one bucket of two streams.

A micro-batch has no order inside. A punctuation counts as standing behind all tuples of its stream in the same
micro-batch, so that none of those contradicts it. The rows that leave are all that are known at the end of the
micro-batch, a function of the input alone: a replayed batch returns the same rows, with another memory too.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.runtime.spark.metrics.join_metrics import STATE_COUNTERS
from semistream.runtime.spark.metrics.task_metrics import MemoryPeak, TaskMetrics
from semistream.runtime.spark.punctuated.aside import AsideFiles
from semistream.runtime.spark.punctuated.packing import MARK_SCHEMA, MARKS, TUPLES, kind_of
from semistream.runtime.spark.punctuated.plan import PunctuatedPlan
from semistream.runtime.spark.punctuated.state import PunctuatedState
from semistream.runtime.spark.stateful.packing import unpack
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.bucket_key import Buckets
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, Side

__all__ = ["PunctuatedTurn"]

_LIMITS = np.iinfo(np.int64)

_Int64s = npt.NDArray[np.int64]


class PunctuatedTurn:
    """Brings a bucket from one micro-batch to the next."""

    def __init__(self, plan: PunctuatedPlan, bucket: int, state: PunctuatedState, aside: AsideFiles | None) -> None:
        self._plan = plan
        self._bucket = bucket
        self._state = state
        self._aside = aside
        self._memory = MemoryPeak()
        self._counters: dict[str, int] = {}
        self._budget_bytes = 0

    def run(self, blobs: Mapping[int, Iterable[bytes | pa.Buffer]]) -> Iterator[pa.RecordBatch]:
        """Join the batch, yield the rows that leave, and save the state.

        Parameters
        ----------
        blobs
            By `kind_of` stream and content.
        """
        op = self._plan.make(self._bucket, self._state.parts.part)
        try:
            self._state.restore(op)
            before = op.metrics.as_dict()
            for side in self._order():
                yield from self._rows(op, self._tuples(op, side, blobs[kind_of(side, TUPLES)]))
                yield from self._rows(op, self._marks(op, side, blobs[kind_of(side, MARKS)]))
            yield from self._rows(op, op.settle())
            self._state.save(op)
            self._note(op, before)
        finally:
            op.close()

    def _order(self) -> tuple[Side, Side]:
        """Return the streams, first one in which a key comes once: its matches then need not be kept."""
        return (RIGHT, LEFT) if self._plan.relation == "many-to-one" else SIDES

    def _tuples(self, op: Mjoin, side: Side, blobs: Iterable[bytes | pa.Buffer]) -> Iterator[PunctuatedBatch]:
        """Offer the tuples of a stream."""
        for rows in unpack(blobs, self._plan.schemas[side]):
            rest = PunctuatedBatch.without_marks(rows, op.key.dtype)
            while len(rest):
                rest = rest.split(op.offer(side, rest))[1]
                if len(rest):
                    yield from op.step()
        while op.queued(side):
            yield from op.step()

    def _marks(self, op: Mjoin, side: Side, blobs: Iterable[bytes | pa.Buffer]) -> Iterator[PunctuatedBatch]:
        """Take in the punctuations of a stream whose tuples have all been joined."""
        buckets = Buckets(self._plan.buckets)
        for marks in unpack(blobs, MARK_SCHEMA):
            low, high = (np.asarray(column) for column in marks.columns)
            lows, highs = buckets.block_ranges(self._bucket, low, high)
            some = lows <= highs  # a narrow range may have no key in this bucket
            yield from op.punctuate(side, lows[some], highs[some])

    def _rows(self, op: Mjoin, results: Iterable[PunctuatedBatch]) -> Iterator[pa.RecordBatch]:
        for result in results:
            self._memory.note(op.memory().components)
            self._put_aside(op)
            if len(result):
                yield result.rows
        self._memory.note(op.memory().components)
        self._put_aside(op)

    def _put_aside(self, op: Mjoin) -> None:
        for side, rows in op.take_aside():
            assert self._aside is not None
            self._aside.put(side, rows)

    def _note(self, op: Mjoin, before: dict[str, int]) -> None:
        self._counters = {name: count - before[name] for name, count in op.metrics.as_dict().items()}
        held = (len(op.state.windows[side]) + op.disk.parts.rows_of(side) for side in SIDES)
        self._counters |= dict(zip(STATE_COUNTERS, (*held, self._state.nbytes), strict=True))
        self._budget_bytes = op.budget_bytes

    def metrics(self, partition: int) -> TaskMetrics:
        """Return the counters of the micro-batch, after `run`."""
        return TaskMetrics(
            partition=partition,
            bucket=self._bucket,
            version=0,
            counters=self._counters,
            budget_bytes=self._budget_bytes,
            memory_bytes=self._memory.total_bytes,
            memory=dict(self._memory.components),
        )
