"""Runs an operator for a short while, with as many tuples as it takes, and counts its work."""

import statistics
import time
from dataclasses import replace

from semistream.core.metrics import Metrics
from semistream.cost.calibration.factor_fit import CountedWork
from semistream.cost.calibration.stopwatch import Aside
from semistream.cost.calibration.trial_join import TrialJoin, TrialStream
from semistream.cost.calibration.yardstick import Yardstick
from semistream.cost.loop import Loop, searches_of
from semistream.operators.driver import StepOperator

__all__ = ["LOOKUPS", "run_trial"]

_WARM_UP_S = 0.2
_CYCLES = 2.2  # in the first the window fills, in the second a cache learns
_MOST_WARM_UP_S = 2.0
_SLICES = 5
_SLICE_S = 0.08
_MOST_PENDING_LOOKUPS = 1 << 12  # enough to keep an operator busy that looks up its next tuples
LOOKUPS = ("inlj", "cinlj")
"""Algorithms that look up one tuple after the other."""

_SEARCHING = (*LOOKUPS, "sweepjoin")


def run_trial(op: StepOperator, stream: TrialStream, yardstick: Yardstick) -> list[CountedWork]:
    """Warm the operator up and return its work in a few equal slices, without the fastest and the slowest.

    The yardstick is measured between them. An operator is warm when every tuple has met all that it waits for: after a
    whole scan, or a moment where a step answers all that it reads.
    """
    trial = TrialJoin(op, stream, _MOST_PENDING_LOOKUPS if op.name in LOOKUPS else None)
    steps = max(1, round(_SLICE_S / _warm_up(trial)))
    slices: list[CountedWork] = []
    before_s = yardstick.measure()
    for _ in range(_SLICES):
        work = _slice(trial, steps)
        after_s = yardstick.measure()
        slices.append(work._replace(yardstick_s=(before_s + after_s) / 2))
        before_s = after_s
    slices.sort(key=lambda work: work.elapsed_s / work.yardstick_s)
    return slices[1:-1]


def _warm_up(trial: TrialJoin) -> float:
    """Compile, fill the window, let the cache learn, and return the seconds of a step."""
    trial.step()
    # CPU time: on a busy machine as much is done as on a quiet one.
    trial.stream.making = Aside()
    began_s = time.thread_time()
    cycle = trial.op.steps_per_cycle or 0
    steps: list[float] = []
    while True:
        step_began_s, making_s = time.thread_time(), trial.stream.making.cpu_s
        trial.step()
        now_s = time.thread_time()
        steps.append(now_s - step_began_s - (trial.stream.making.cpu_s - making_s))
        ran_s = now_s - began_s - trial.stream.making.cpu_s
        if (len(steps) >= _CYCLES * cycle and ran_s >= _WARM_UP_S) or ran_s >= _MOST_WARM_UP_S:
            return max(1e-6, statistics.median(steps[-100:]))


def _slice(trial: TrialJoin, steps: int) -> CountedWork:
    op = trial.op
    before = Metrics(**op.metrics.as_dict())
    worked_s = trial.worked_s(steps)
    counted = op.metrics.since(before)
    loop = Loop.counted(counted, op.table.num_rows / op.table.num_pages, counted.steps)
    if op.name in _SEARCHING:
        page_bytes = op.table.num_bytes / op.table.num_pages
        loop = replace(loop, searches=searches_of(loop.pages, page_bytes, op.memory().components["disk buffer"]))
    return CountedWork(counted.steps, loop, worked_s)
