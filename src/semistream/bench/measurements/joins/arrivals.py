"""Waiting and processing times of tuples that arrive more slowly than the operator could answer them.

The clock is that of the 7200 rpm disk, by I/O alone, or of this machine. Means follow from the number of tuples in the
system, once it is stable at the arrival rate.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from semistream.core.metrics import Metrics
from semistream.cost.clock import HDD
from semistream.operators.driver import StepOperator
from semistream.runtime.local import Replay, StepCost

__all__ = ["StepSeconds", "Times", "disk_step_s", "measure_times", "replay_for"]

StepSeconds = Callable[[StepCost], float]

# In full windows of tuples that need the disk: the window settles, then the means are taken. At 80% of the rate
# MESHJOIN answers 0.8 of a full window in a scan, and a whole scan is measured, with its seek. A join that reads
# partitions reads all of them all the time, so that fewer tuples give the same means.
_SETTLING_WINDOWS = 1.0
_MEASURED_WINDOWS = 0.8
_MOST_MEASURED_TUPLES = 100_000
_MOST_WINDOWS = 8  # if nearly all tuples go through a cache
_MOST_S = 120.0  # the emergency brake
_KEPT_UP = 0.9  # of the arrivals were taken: a step in progress holds some of them back


@dataclass(frozen=True)
class Times:
    """Mean times of a tuple at a given arrival rate, in seconds of one clock."""

    arrivals_per_s: float
    tuples: int
    is_settled: bool  # the number of tuples in the system became stable
    in_system_s: float  # from arrival to answer
    waiting_s: float | None  # in the stream buffer, or before it; None if the operator does not count its buffer
    processing_s: float | None  # from leaving the stream buffer to the answer

    @staticmethod
    def of(replay: Replay, arrivals_per_s: float, is_settled: bool) -> "Times":
        waiting_s, in_system_s = replay.mean_waiting_s, replay.mean_time_in_system_s
        processing_s = None if waiting_s is None else in_system_s - waiting_s
        return Times(arrivals_per_s, replay.tuples_counted, is_settled, in_system_s, waiting_s, processing_s)


def disk_step_s(step: StepCost) -> float:
    """Return the time of a step's reads on the 7200 rpm disk."""
    return HDD.work_s(step.before, step.after)


def measure_times(
    op: StepOperator,
    batches: Iterator[pa.RecordBatch],
    arrivals_per_s: float,
    least_tuples: int,
    is_scan: bool,
    step_cost_s: StepSeconds = disk_step_s,
) -> Times | None:
    """Return the mean times over at least ``least_tuples`` that arrive at this rate, and close the operator.

    The operator is warm, and its backlog shrinks to that of the rate. Where it reads the table from end to end,
    ``is_scan``, a whole scan is measured.
    """
    if arrivals_per_s <= 0:
        return None
    if op.buffered == op.pending:
        for _ in op.drain():
            pass
    window_tuples = op.pending - (op.buffered or 0)
    most_tuples = max(least_tuples, _MOST_WINDOWS * window_tuples)
    measured_tuples = _MEASURED_WINDOWS * window_tuples
    if not is_scan:
        measured_tuples = min(measured_tuples, _MOST_MEASURED_TUPLES)
    replay = Replay(op, batches, arrivals_per_s, step_cost_s=step_cost_s)
    results = iter(replay)
    try:
        settled = _run(replay, results, op, max(least_tuples, _SETTLING_WINDOWS * window_tuples), most_tuples)
        replay.forget()
        measured = _run(replay, results, op, max(least_tuples, measured_tuples), most_tuples)
    finally:
        results.close()
    return Times.of(replay, arrivals_per_s, is_settled=settled and measured)


def _run(
    replay: Replay, results: Iterator[pa.RecordBatch], op: StepOperator, disk_tuples: float, most_tuples: int
) -> bool:
    """Run until the disk phase has answered this many tuples, and return whether there was time for it."""
    until_disk_tuples = op.metrics.tuples_through_disk + disk_tuples
    until_tuples = replay.tuples_counted + most_tuples
    until_s = time.perf_counter() + _MOST_S
    for _ in results:
        if op.metrics.tuples_through_disk >= until_disk_tuples or replay.tuples_counted >= until_tuples:
            return True
        if time.perf_counter() > until_s:
            return False
    return False


class ReplayedPart(NamedTuple):
    """The measured part of a replay: its means, the growth of the operator's counters, and its length."""

    replay: Replay
    arrivals_per_s: float
    counted: Metrics
    seconds: float

    @property
    def tuples_per_s(self) -> float:
        """Tuples answered; those shed and not yet joined do not count."""
        return self.counted.tuples_answered / self.seconds

    @property
    def times(self) -> Times:
        """If the operator could not keep up, tuples waited ever longer, and the times count as not settled."""
        keeps_up = self.replay.tuples_counted >= _KEPT_UP * self.arrivals_per_s * self.seconds
        return Times.of(self.replay, self.arrivals_per_s, is_settled=keeps_up)


def replay_for(
    op: StepOperator,
    batches: Iterator[pa.RecordBatch],
    arrivals_per_s: float,
    *,
    settling_s: float,
    measured_s: float,
    step_cost_s: StepSeconds,
) -> ReplayedPart:
    """Replay an endless stream for these seconds of the clock, and close the operator."""
    replay = Replay(op, batches, arrivals_per_s, step_cost_s=step_cost_s)
    results = iter(replay)
    before: Metrics | None = None
    began_s = 0.0
    try:
        for _ in results:
            if before is None:
                if replay.now_s >= settling_s:
                    replay.forget()
                    before, began_s = Metrics(**op.metrics.as_dict()), replay.now_s
            elif replay.now_s >= began_s + measured_s:
                break
        assert before is not None, "the stream has no end"
        return ReplayedPart(replay, arrivals_per_s, op.metrics.since(before), replay.now_s - began_s)
    finally:
        results.close()
