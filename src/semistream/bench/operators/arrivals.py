"""How long tuples wait and are worked on when they arrive more slowly than the operator could answer them.

Time is that of the 7200 rpm disk, by I/O alone. Means follow from the number of tuples in the system, once that has
come to rest at the arrival rate.
"""

import time
from collections.abc import Iterator

import pyarrow as pa

from semistream.bench.operators.cells import Times
from semistream.cost.disk_profile import HDD
from semistream.operators.step_operator import StepOperator
from semistream.runtime.local import Replay

__all__ = ["measure_times"]

# In full windows of tuples that need the disk: the window settles, then the means are taken. At 80% of the rate
# MESHJOIN answers 0.8 of a full window in a scan, and the scan is measured whole, with its seek. Partitions are read
# everywhere all the time, so that fewer tuples show the same means.
_SETTLING_WINDOWS = 1.0
_MEASURED_WINDOWS = 0.8
_MOST_MEASURED_TUPLES = 100_000
_MOST_WINDOWS = 8  # when nearly all tuples go through a cache
_MOST_S = 120.0  # the emergency brake


def measure_times(
    op: StepOperator, batches: Iterator[pa.RecordBatch], arrivals_per_s: float, least_tuples: int, is_scan: bool
) -> Times | None:
    """Return the mean times of tuples that arrive at this rate, and close the operator.

    Parameters
    ----------
    op
        Warm, and with a backlog, which shrinks to what the rate asks for.
    least_tuples
        How many tuples to run for at least; an operator that keeps no window runs for these.
    is_scan
        Whether the operator reads the table from end to end, and has to be measured over a whole scan.
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
    replay = Replay(op, batches, arrivals_per_s, step_cost_s=lambda step: HDD.work_s(step.before, step.after))
    results = iter(replay)
    try:
        settled = _run(replay, results, op, max(least_tuples, _SETTLING_WINDOWS * window_tuples), most_tuples)
        replay.forget()
        measured = _run(replay, results, op, max(least_tuples, measured_tuples), most_tuples)
    finally:
        results.close()
    waiting_s = replay.mean_waiting_s
    in_system_s = replay.mean_time_in_system_s
    return Times(
        arrivals_per_s=arrivals_per_s,
        tuples=replay.tuples_counted,
        is_settled=settled and measured,
        in_system_s=in_system_s,
        waiting_s=waiting_s,
        processing_s=None if waiting_s is None else in_system_s - waiting_s,
    )


def _run(
    replay: Replay, results: Iterator[pa.RecordBatch], op: StepOperator, disk_tuples: float, most_tuples: int
) -> bool:
    """Go on until so many tuples were answered by the disk phase, and return whether there was time for it."""
    until_disk_tuples = op.metrics.tuples_through_disk + disk_tuples
    until_tuples = replay.tuples_counted + most_tuples
    until_s = time.perf_counter() + _MOST_S
    for _ in results:
        if op.metrics.tuples_through_disk >= until_disk_tuples or replay.tuples_counted >= until_tuples:
            return True
        if time.perf_counter() > until_s:
            return False
    return False
