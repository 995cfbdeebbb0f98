"""An operator that never lacks tuples, and what it does meanwhile."""

import math
import os
import statistics
import time
from dataclasses import dataclass
from typing import NamedTuple

from semistream.bench.measurements.joins.prepared_stream import PreparedStream
from semistream.core.contract import Operator
from semistream.core.metrics import Metrics
from semistream.cost.calibration.stopwatch import Aside, Stopwatch
from semistream.cost.calibration.yardstick import Yardstick
from semistream.operators.feeder import Feeder

__all__ = ["Saturated", "Work"]

_TURN_S = 0.15  # between measurements of a yardstick


@dataclass(frozen=True)
class Work:
    """What was done in a while.

    Attributes
    ----------
    counted
        By how much the operator's counters grew.
    elapsed_s, cpu_s
        Of the operator, all its threads included; making the stream and measuring a yardstick are not part of it.
    waited_s
        How much of the elapsed time passed for want of a core, because of other processes.
    yardstick_s
        What a step of the yardstick took meanwhile, on average; None without one.
    """

    counted: Metrics
    elapsed_s: float
    cpu_s: float
    waited_s: float = 0.0
    yardstick_s: float | None = None

    @property
    def undisturbed_s(self) -> float:
        """What the work takes on a machine without other work: elapsed time but for what passed for want of a core.

        However much that was, so much CPU time takes some time on all cores.
        """
        return max(self.elapsed_s - self.waited_s, self.cpu_s / (os.cpu_count() or 1), 1e-9)

    @property
    def tuples(self) -> int:
        return self.counted.tuples_answered

    @property
    def bytes_per_tuple(self) -> float:
        return self.counted.bytes_read / self.tuples if self.tuples else math.inf


class _Turn(NamedTuple):
    """The times of `Work`, of a part of it."""

    elapsed_s: float
    cpu_s: float
    waited_s: float


class Saturated:
    """Offers tuples until one is refused, steps, and begins again.

    Parameters
    ----------
    most_pending
        Offer no more than this. An operator that only ever looks up its next few tuples is as busy with a short
        backlog, and a short one can be worked off afterwards.

    Attributes
    ----------
    peak
        The memory report with the largest total so far.
    """

    def __init__(self, op: Operator, stream: PreparedStream, most_pending: int | None = None) -> None:
        self.op = op
        self.peak = op.memory()
        self._stream = stream
        self._feeder = Feeder(stream)
        self._most_pending = most_pending
        self._aside_s = self._aside_cpu_s = 0.0

    def run(
        self,
        *,
        bytes_read: int | None = None,
        tuples: int | None = None,
        most_s: float = math.inf,
        yardstick: Yardstick | None = None,
    ) -> Work:
        """Work until so much was read, so many tuples were answered, or time is up.

        A yardstick is measured in turns with the work.
        """
        started_s = time.perf_counter()
        metrics = self.op.metrics
        before = Metrics(**metrics.as_dict())
        until_bytes = math.inf if bytes_read is None else before.bytes_read + bytes_read
        until_tuples = math.inf if tuples is None else before.tuples_answered + tuples
        yardstick_s = [] if yardstick is None else [yardstick.measure()]
        turns: list[_Turn] = []
        is_done = False
        while not is_done:
            left_s = most_s - (time.perf_counter() - started_s)
            turns.append(self._turn(until_bytes, until_tuples, left_s if yardstick is None else min(left_s, _TURN_S)))
            if yardstick is not None:
                yardstick_s.append(yardstick.measure())
            is_done = metrics.bytes_read >= until_bytes or metrics.tuples_answered >= until_tuples
            is_done = is_done or time.perf_counter() - started_s > most_s
        return Work(
            metrics.since(before),
            elapsed_s=sum(turn.elapsed_s for turn in turns),
            cpu_s=sum(turn.cpu_s for turn in turns),
            waited_s=sum(turn.waited_s for turn in turns),
            yardstick_s=statistics.mean(yardstick_s) if yardstick_s else None,
        )

    def _turn(self, until_bytes: float, until_tuples: float, most_s: float) -> _Turn:
        """Work until so much was read or answered in all, or time is up."""
        aside_s, aside_cpu_s = self._aside()
        making, stopwatch = self._stream.making, Stopwatch()
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        metrics = self.op.metrics
        while metrics.bytes_read < until_bytes and metrics.tuples_answered < until_tuples:
            self._feeder.fill(self.op, self._most_pending)
            for _ in self.op.step():
                pass
            self._note_memory()
            if time.perf_counter() - started_s > most_s:
                break
        elapsed_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
        made = Aside(*(now - then for now, then in zip(self._stream.making, making, strict=True)))
        worked_s = stopwatch.worked_s(made)
        now_aside_s, now_aside_cpu_s = self._aside()
        elapsed_s -= now_aside_s - aside_s
        cpu_s -= now_aside_cpu_s - aside_cpu_s
        return _Turn(elapsed_s, cpu_s, min(max(0.0, elapsed_s - worked_s), elapsed_s))

    def _note_memory(self) -> None:
        started_s, started_cpu_s = time.perf_counter(), time.thread_time()
        report = self.op.memory()
        if report.total_bytes > self.peak.total_bytes:
            self.peak = report
        self._aside_s += time.perf_counter() - started_s
        self._aside_cpu_s += time.thread_time() - started_cpu_s

    def _aside(self) -> tuple[float, float]:
        """Return what was not the operator's work so far, in seconds and in seconds of CPU time."""
        return self._aside_s + self._stream.making_s, self._aside_cpu_s + self._stream.making_cpu_s
