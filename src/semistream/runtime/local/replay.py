"""Replays arrivals at a given rate on a simulated clock.

Tuples arrive at fixed intervals or at given times, and every step advances the clock by its cost: the measured time, or
a function of the counted work, which replays the disk of another machine. The time between a tuple's arrival and its
answer follows from the number of tuples in the system (Little's law), so nothing is tracked per tuple. A tuple is
waiting until it leaves the stream buffer, and in processing from then on.
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from semistream.core.contract import Operator
from semistream.core.errors import InvalidArgument
from semistream.core.metrics import Metrics
from semistream.kernels.arrays import Floats
from semistream.runtime.local.self_tuning import SelfTuning

__all__ = ["Replay", "StepCost"]

_TIMES_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class StepCost:
    """The time of one step on this machine, and the operator's counters around it."""

    elapsed_s: float
    before: Metrics
    after: Metrics


class ArrivalTimes(Protocol):
    """Times of arrival, as in `semistream.workloads.Bursts`."""

    def times_s(self, start: int, count: int) -> Floats:
        """Return the seconds at which tuples ``start`` to ``start + count - 1`` arrive, ascending."""
        ...


class Replay:
    """A stream that arrives at ``rate`` tuples per second of simulated time, or at given times of it.

    Parameters
    ----------
    op
        From `operator`.
    batches
        The stream; its tuples arrive one after the other.
    rate
        Arrivals per second, or an object with the times of arrival, such as `semistream.workloads.Bursts`.
    step_cost_s
        Returns the simulated seconds of a step; the measured ones by default.
    tuning
        Retunes the operator by the arrivals; None leaves it as it was made.

    Attributes
    ----------
    now_s
        The simulated time.
    waiting_outside
        How many arrived tuples wait because the stream buffer is full.
    busy_s
        The part of it in which the operator worked.
    longest_wait_s
        The longest time that a tuple waited for room in the stream buffer, or for a step to end.

    Examples
    --------
    >>> import tempfile
    >>> import semistream as ss
    >>> table = ss.stage(pa.table({"id": [1, 2]}), tempfile.mkdtemp(), key="id")
    >>> stream = [pa.record_batch({"id": [1, 2, 3, 1]})]
    >>> op = ss.operator("inlj", table, stream[0].schema, on="id", memory="1MB")
    >>> replay = ss.Replay(op, stream, rate=2, step_cost_s=lambda step: 0.25)
    >>> sum(batch.num_rows for batch in replay), replay.now_s
    (3, 1.75)
    """

    def __init__(
        self,
        op: Operator,
        batches: Iterable[pa.RecordBatch],
        rate: float | ArrivalTimes,
        step_cost_s: Callable[[StepCost], float] = lambda step: step.elapsed_s,
        tuning: SelfTuning | None = None,
    ) -> None:
        if tuning is not None:
            tuning.require_for(op)
        self._op = op
        self._batches = iter(batches)
        self._arrivals = _arrivals_of(rate)
        self._step_cost_s = step_cost_s
        self._tuning = tuning
        self.now_s = 0.0
        self.busy_s = 0.0
        self.longest_wait_s = 0.0
        self.waiting_outside = 0
        self._taken = 0
        self._counted_from = 0
        self._tuple_seconds = 0.0
        self._waiting_seconds = 0.0
        self._rest: pa.RecordBatch | None = None  # of a batch, not yet taken

    @property
    def tuples_counted(self) -> int:
        """The number of tuples behind the means: those that the operator took since the last `forget`."""
        return self._taken - self._counted_from

    @property
    def mean_time_in_system_s(self) -> float:
        """The mean time from a tuple's arrival to its answer."""
        return self._tuple_seconds / self.tuples_counted if self.tuples_counted else 0.0

    @property
    def mean_waiting_s(self) -> float | None:
        """The mean time before a tuple leaves the stream buffer; None if the operator does not tell.

        The rest of its time in the system is the processing time of the papers.
        """
        if self._buffered() is None:
            return None
        return self._waiting_seconds / self.tuples_counted if self.tuples_counted else 0.0

    @property
    def utilisation(self) -> float:
        """The share of simulated time in which the operator worked."""
        return self.busy_s / self.now_s if self.now_s else 0.0

    def forget(self) -> None:
        """Begin the means anew, as when the operator has reached its steady state."""
        self._counted_from = self._taken
        self._tuple_seconds = self._waiting_seconds = self.longest_wait_s = 0.0

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        """Run the replay to its end and yield the results."""
        try:
            while self._has_more() or self._op.pending:
                self._offer_arrived()
                if self._tuning is not None:
                    self._tuning.observe(self.now_s, self._taken + self.waiting_outside)
                    if self.waiting_outside:
                        self._offer_arrived()
                if self._op.pending:
                    yield from self._timed_step()
                else:
                    self._advance(max(0.0, self._arrivals.arrival_s(self._taken) - self.now_s))
        finally:
            self._op.close()

    def _has_more(self) -> bool:
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return False
        return True

    def _offer_arrived(self) -> None:
        """Offer the tuples that have arrived, as far as the stream buffer takes them."""
        self.waiting_outside = 0
        arrived = self._taken
        while self._has_more():
            assert self._rest is not None
            arrived = self._arrivals.arrived(self.now_s, max(arrived, self._taken))
            rows = min(arrived - self._taken, self._rest.num_rows)
            if rows == 0:
                break
            accepted = self._op.offer(self._rest.slice(0, rows))
            self._count_wait(accepted)
            self._rest = self._rest.slice(accepted)
            self._taken += accepted
            if accepted < rows:
                self.waiting_outside = arrived - self._taken
                break

    def _count_wait(self, accepted: int) -> None:
        if accepted:
            self.longest_wait_s = max(self.longest_wait_s, self.now_s - self._arrivals.arrival_s(self._taken))
            waited = accepted * self.now_s - self._arrivals.sum_s(self._taken, accepted)
            self._tuple_seconds += waited
            self._waiting_seconds += waited

    def _timed_step(self) -> Iterator[pa.RecordBatch]:
        before = Metrics(**self._op.metrics.as_dict())
        elapsed = 0.0
        results = self._op.step()
        while True:
            started = time.perf_counter()
            batch = next(results, None)
            elapsed += time.perf_counter() - started
            if batch is None:
                break
            yield batch
        after = Metrics(**self._op.metrics.as_dict())
        cost = self._step_cost_s(StepCost(elapsed, before, after))
        self.busy_s += cost
        self._advance(cost, answered=after.tuples_answered - before.tuples_answered)

    def _advance(self, seconds: float, answered: int = 0) -> None:
        """Move the clock; tuples that a step answered count as in the system until its end."""
        self.now_s += seconds
        self._tuple_seconds += (self._op.pending + answered) * seconds
        self._waiting_seconds += (self._buffered() or 0) * seconds

    def _buffered(self) -> int | None:
        buffered: int | None = getattr(self._op, "buffered", None)
        return buffered


def _arrivals_of(rate: float | ArrivalTimes) -> "_Even | _Timed":
    if isinstance(rate, int | float):
        return _Even(rate)
    if not callable(getattr(rate, "times_s", None)):
        raise InvalidArgument(f"rate={rate!r} is neither tuples per second nor has it times_s(start, count)")
    return _Timed(rate)


class _Even:
    """One tuple after the other, 1 / rate seconds apart."""

    def __init__(self, rate: float) -> None:
        if not 0 < rate < math.inf:
            raise InvalidArgument(f"rate={rate} must be a finite number of tuples per second above 0")
        self._interval_s = 1 / rate

    def arrival_s(self, tuple_number: int) -> float:
        return tuple_number * self._interval_s

    def arrived(self, now_s: float, known: int) -> int:
        """Return how many tuples have arrived by now, at least ``known``."""
        # Rounding in the division must not leave an arrived tuple behind for ever.
        next_has = self.arrival_s(known) <= now_s
        return max(known + int(next_has), int(now_s / self._interval_s + 1e-9) + 1)

    def sum_s(self, start: int, count: int) -> float:
        """Return the sum of the times at which ``count`` tuples arrive."""
        return count * (self.arrival_s(start) + self.arrival_s(start + count - 1)) / 2


class _Timed:
    """Times asked for in blocks: a call costs as much as many of its results."""

    def __init__(self, times: ArrivalTimes) -> None:
        self._times = times
        self._start = 0
        self._block: Floats = np.empty(0)

    def arrival_s(self, tuple_number: int) -> float:
        if not self._start <= tuple_number < self._start + self._block.size:
            self._start = tuple_number
            self._block = self._times.times_s(tuple_number, _TIMES_AT_ONCE)
        return float(self._block[tuple_number - self._start])

    def arrived(self, now_s: float, known: int) -> int:
        while self.arrival_s(known) <= now_s:
            known = self._start + int(np.searchsorted(self._block, now_s, side="right"))
        return known

    def sum_s(self, start: int, count: int) -> float:
        first = start - self._start
        if first >= 0 and first + count <= self._block.size:
            return float(self._block[first : first + count].sum())
        return float(self._times.times_s(start, count).sum())
