"""Runs an operator for a short while, with as many tuples as it takes, and counts its work."""

import statistics
import time
from dataclasses import replace

from semistream.core.metrics import Metrics
from semistream.cost.calibration.factor_fit import CountedWork
from semistream.cost.calibration.feeder import Feeder
from semistream.cost.calibration.stopwatch import Aside, Stopwatch
from semistream.cost.calibration.trial_join import TrialStream
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
    trial = _Trial(op, stream)
    trial.warm_up()
    slices: list[CountedWork] = []
    before_s = yardstick.measure()
    for _ in range(_SLICES):
        work = trial.slice()
        after_s = yardstick.measure()
        slices.append(work._replace(yardstick_s=(before_s + after_s) / 2))
        before_s = after_s
    slices.sort(key=lambda work: work.elapsed_s / work.yardstick_s)
    return slices[1:-1]


class _Trial:
    def __init__(self, op: StepOperator, stream: TrialStream) -> None:
        self._op = op
        self._stream = stream
        self._feeder = Feeder(iter(stream))
        self._most_pending = _MOST_PENDING_LOOKUPS if op.name in LOOKUPS else None
        self.step_s = 0.0

    def warm_up(self) -> None:
        """Compile, fill the window, let the cache learn, and find out how long a step takes."""
        self._step()
        # CPU time: on a busy machine as much is done as on a quiet one.
        self._stream.making = Aside()
        began_s = time.thread_time()
        cycle = self._op.steps_per_cycle or 0
        steps: list[float] = []
        while True:
            step_began_s, making_s = time.thread_time(), self._stream.making.cpu_s
            self._step()
            now_s = time.thread_time()
            steps.append(now_s - step_began_s - (self._stream.making.cpu_s - making_s))
            ran_s = now_s - began_s - self._stream.making.cpu_s
            if (len(steps) >= _CYCLES * cycle and ran_s >= _WARM_UP_S) or ran_s >= _MOST_WARM_UP_S:
                break
        self.step_s = max(1e-6, statistics.median(steps[-100:]))

    def slice(self) -> CountedWork:
        steps = max(1, round(_SLICE_S / self.step_s))
        before = Metrics(**self._op.metrics.as_dict())
        self._stream.making = Aside()
        stopwatch = Stopwatch()
        for _ in range(steps):
            self._step()
        worked_s = max(1e-9, stopwatch.worked_s(self._stream.making))
        counted = self._op.metrics.since(before)
        rows_per_page = self._op.table.num_rows / self._op.table.num_pages
        loop = Loop.counted(counted, rows_per_page, counted.steps)
        if self._op.name in _SEARCHING:
            page_bytes = self._op.table.num_bytes / self._op.table.num_pages
            buffer_bytes = self._op.memory().components["disk buffer"]
            loop = replace(loop, searches=searches_of(loop.pages, page_bytes, buffer_bytes))
        return CountedWork(counted.steps, loop, worked_s)

    def _step(self) -> None:
        self._feeder.fill(self._op, self._most_pending)
        for _ in self._op.step():
            pass
