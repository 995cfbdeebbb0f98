"""Waiting and processing times of tuples that arrive more slowly than the operator could answer them.

The clock is that of the 7200 rpm disk, by I/O alone, or of this machine. Means follow from the number of tuples in the
system, once it is stable at the arrival rate.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.cost.clock import HDD
from semistream.operators.driver import StepOperator
from semistream.runtime.local import Replay
from semistream.runtime.local.replay import StepCost

__all__ = ["StepSeconds", "Times", "disk_step_s", "machine_step_s", "measure_times", "measure_times_for"]

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
    """Mean times of a tuple at a given arrival rate, in seconds of one clock.

    Attributes
    ----------
    is_settled
        Whether the number of tuples in the system became stable.
    in_system_s
        From arrival to answer.
    waiting_s
        In the stream buffer, or before it; None if the operator does not count the tuples in its buffer.
    processing_s
        From leaving the stream buffer to the answer.
    """

    arrivals_per_s: float
    tuples: int
    is_settled: bool
    in_system_s: float
    waiting_s: float | None
    processing_s: float | None


def disk_step_s(step: StepCost) -> float:
    """Return the time of a step's reads on the 7200 rpm disk."""
    return HDD.work_s(step.before, step.after)


def machine_step_s(step: StepCost) -> float:
    """Return the time of a step on this machine."""
    return step.elapsed_s


def measure_times(
    op: StepOperator,
    batches: Iterator[pa.RecordBatch],
    arrivals_per_s: float,
    least_tuples: int,
    is_scan: bool,
    step_cost_s: StepSeconds = disk_step_s,
) -> Times | None:
    """Return the mean times of tuples that arrive at this rate, and close the operator.

    Parameters
    ----------
    op
        Warm, and with a backlog, which shrinks to that of the rate.
    least_tuples
        The least number of tuples to run for; an operator without a window runs for these.
    is_scan
        Whether the operator reads the table from end to end, so that a whole scan must be measured.
    step_cost_s
        The clock: the time of a step.
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
    return _times(replay, arrivals_per_s, is_settled=settled and measured)


def measure_times_for(
    op: StepOperator,
    batches: Iterator[pa.RecordBatch],
    arrivals_per_s: float,
    *,
    settling_s: float,
    measured_s: float,
    step_cost_s: StepSeconds = disk_step_s,
) -> Times:
    """Return the mean times over this many seconds of the clock, and close the operator.

    If the operator cannot keep up with the rate, tuples wait ever longer, and the times count as not settled.
    """
    replay = Replay(op, batches, arrivals_per_s, step_cost_s=step_cost_s)
    results = iter(replay)
    until_s = settling_s
    forgot_at_s: float | None = None
    try:
        for _ in results:
            if replay.now_s < until_s:
                continue
            if forgot_at_s is not None:
                break
            replay.forget()
            forgot_at_s = replay.now_s
            until_s = forgot_at_s + measured_s
    finally:
        results.close()
    assert forgot_at_s is not None, "the stream has no end"
    keeps_up = replay.tuples_counted >= _KEPT_UP * arrivals_per_s * (replay.now_s - forgot_at_s)
    return _times(replay, arrivals_per_s, is_settled=keeps_up)


def _times(replay: Replay, arrivals_per_s: float, is_settled: bool) -> Times:
    waiting_s = replay.mean_waiting_s
    in_system_s = replay.mean_time_in_system_s
    return Times(
        arrivals_per_s=arrivals_per_s,
        tuples=replay.tuples_counted,
        is_settled=is_settled,
        in_system_s=in_system_s,
        waiting_s=waiting_s,
        processing_s=None if waiting_s is None else in_system_s - waiting_s,
    )


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
