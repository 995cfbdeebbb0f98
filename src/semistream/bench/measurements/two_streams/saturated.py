"""A join whose queues are never empty while its streams last (CPU-limited mode, S4, section 6.1), and what it did.

Only the work of the join counts as time: making the streams and taking the results does not.
"""

import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from semistream.bench.measurements.two_streams.stream_pairs import BATCH_ROWS, StreamPair
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.kernels.arrays import Floats
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.parts.join_key import SIDES

__all__ = ["Course", "run_saturated"]


@dataclass(frozen=True)
class Course:
    """How a join went, a point after every step."""

    outputs: Floats  # rows that had left
    seconds: Floats  # that the join had worked
    tuples: Floats  # that had been worked on
    state_tuples: Floats  # in the state, on average over the step
    peak_tuples: Floats  # at most during it: before the step, and all that came in
    state_bytes: Floats  # reserved for the state
    delays_s: Floats  # of every punctuation that was passed on: from when it came into its queue until it left

    @property
    def mean_state_tuples(self) -> float:
        """Over all tuples, as they are worked on."""
        return float(np.average(self.state_tuples, weights=np.diff(self.tuples, prepend=0.0)))


class _Watch:
    """Counts the seconds that a join works, and how long punctuations take."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.delays_s: list[float] = []
        self._came: dict[object, deque[float]] = defaultdict(deque)

    def take(self, results: Iterable[PunctuatedBatch]) -> None:
        work = iter(results)
        while True:
            started = time.perf_counter()
            result = next(work, None)
            self.seconds += time.perf_counter() - started
            if result is None:
                return
            for key in result.marks.low.to_pylist():
                if self._came[key]:
                    self.delays_s.append(self.seconds - self._came[key].popleft())

    def offer(self, op: StreamJoin, side: int, batch: PunctuatedBatch) -> None:
        for key in batch.marks.low.to_pylist():
            self._came[key].append(self.seconds)
        started = time.perf_counter()
        taken = op.offer(SIDES[side], batch)
        self.seconds += time.perf_counter() - started
        assert taken == len(batch), "the memory is made for it"


def run_saturated(op: StreamJoin, pair: StreamPair) -> Course:
    """Join both streams, each of which is offered as soon as no more than a batch of it waits."""
    watch = _Watch()
    points: list[tuple[float, ...]] = []
    waiting = [deque(side) for side in pair.batches]
    while any(waiting) or any(op.queued(side) for side in SIDES):
        for side in SIDES:
            if waiting[side] and op.queued(side) <= BATCH_ROWS:
                watch.offer(op, side, waiting[side].popleft())
        held, purged = _held(op), op.metrics.purged
        watch.take(op.step())
        came_in = _held(op) - held + op.metrics.purged - purged
        points.append(_point(op, watch, held + came_in / 2, held + came_in))
    watch.take(op.finish())
    points.append(_point(op, watch, _held(op), _held(op)))
    outputs, seconds, tuples, state_tuples, peak_tuples, state_bytes = np.array(points, dtype=np.float64).T
    return Course(outputs, seconds, tuples, state_tuples, peak_tuples, state_bytes, np.array(watch.delays_s))


def _point(op: StreamJoin, watch: _Watch, state_tuples: float, peak_tuples: float) -> tuple[float, ...]:
    metrics = op.metrics
    state_bytes = sum(op.state.side_bytes(side) for side in SIDES)
    tuples = metrics.left_in + metrics.right_in
    return metrics.rows_out, watch.seconds, tuples, state_tuples, peak_tuples, state_bytes


def _held(op: StreamJoin) -> int:
    return sum(len(window) for window in op.state.windows)
