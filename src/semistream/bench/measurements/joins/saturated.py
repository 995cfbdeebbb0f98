"""An operator that never lacks tuples, fed from a stream that is made before it is measured with."""

import math
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.core.contract import Operator
from semistream.core.metrics import Metrics
from semistream.cost.calibration.feeder import Feeder
from semistream.cost.calibration.stopwatch import Aside, Stopwatch
from semistream.cost.calibration.yardstick import Yardstick

__all__ = ["PreparedStream", "Saturated", "Work"]

_TURN_S = 0.15  # between measurements of a yardstick


class PreparedStream:
    """A generated stream, made in large blocks; the work of ``making`` them is known, to be left out.

    An operator reads ahead while tuples are made. Large blocks keep this free gain small.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], block_tuples: int = 1 << 20) -> None:
        self.making = Aside()
        self._prepared = self._make(iter(batches), block_tuples)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._prepared)

    def _make(self, batches: Iterator[pa.RecordBatch], block_tuples: int) -> Iterator[pa.RecordBatch]:
        while True:
            before = Aside.now()
            block: list[pa.RecordBatch] = []
            made = 0
            for batch in batches:
                block.append(batch)
                made += batch.num_rows
                if made >= block_tuples:
                    break
            self.making = self.making.plus(before)
            if not block:
                return
            yield from block


@dataclass(frozen=True)
class Work:
    """The work of an operator over some time, with all its threads, without making the stream and the yardstick."""

    counted: Metrics  # the growth of its counters
    elapsed_s: float
    cpu_s: float
    waited_s: float = 0.0  # for a core, because of other processes: a part of the elapsed time
    yardstick_s: float | None = None  # the mean time of a step of the yardstick meanwhile

    @property
    def undisturbed_s(self) -> float:
        """The time of the work on a machine without other work: at least the CPU time spread over all cores."""
        return max(self.elapsed_s - self.waited_s, self.cpu_s / (os.cpu_count() or 1), 1e-9)

    @property
    def tuples(self) -> int:
        return self.counted.tuples_answered

    @property
    def bytes_per_tuple(self) -> float:
        return self.counted.bytes_read / self.tuples if self.tuples else math.inf


class Saturated:
    """Offers tuples until one is refused, or ``most_pending`` are pending, steps, and begins again.

    An operator that only looks up its next few tuples is as busy with a short backlog, which can be worked off
    afterwards. ``peak`` is the memory report with the largest total so far.
    """

    def __init__(self, op: Operator, stream: PreparedStream, most_pending: int | None = None) -> None:
        self.op = op
        self.peak = op.memory()
        self._stream = stream
        self._feeder = Feeder(stream)
        self._most_pending = most_pending
        self._noting_s = self._noting_cpu_s = 0.0  # not the operator's time

    def run(
        self,
        *,
        bytes_read: int | None = None,
        tuples: int | None = None,
        most_s: float = math.inf,
        yardstick: Yardstick | None = None,
    ) -> Work:
        """Work until this many bytes are read or tuples answered, or time is up; in turns with a yardstick."""
        started_s = time.perf_counter()
        metrics = self.op.metrics
        before = Metrics(**metrics.as_dict())
        until_bytes = math.inf if bytes_read is None else before.bytes_read + bytes_read
        until_tuples = math.inf if tuples is None else before.tuples_answered + tuples
        yardstick_s = [] if yardstick is None else [yardstick.measure()]
        turns: list[tuple[float, float, float]] = []
        is_done = False
        while not is_done:
            left_s = most_s - (time.perf_counter() - started_s)
            turns.append(self._turn(until_bytes, until_tuples, left_s if yardstick is None else min(left_s, _TURN_S)))
            if yardstick is not None:
                yardstick_s.append(yardstick.measure())
            is_done = metrics.bytes_read >= until_bytes or metrics.tuples_answered >= until_tuples
            is_done = is_done or time.perf_counter() - started_s > most_s
        elapsed_s, cpu_s, waited_s = (sum(times) for times in zip(*turns, strict=True))
        mean_s = statistics.mean(yardstick_s) if yardstick_s else None
        return Work(metrics.since(before), elapsed_s, cpu_s, waited_s, mean_s)

    def _turn(self, until_bytes: float, until_tuples: float, most_s: float) -> tuple[float, float, float]:
        """Work until these totals are reached or time is up; return the elapsed, CPU and waited seconds of `Work`."""
        making, stopwatch = self._stream.making, Stopwatch()
        self._noting_s = self._noting_cpu_s = 0.0
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
        elapsed_s -= made.elapsed_s + self._noting_s
        cpu_s -= made.cpu_s + self._noting_cpu_s
        return elapsed_s, cpu_s, min(max(0.0, elapsed_s - worked_s), elapsed_s)

    def _note_memory(self) -> None:
        started_s, started_cpu_s = time.perf_counter(), time.thread_time()
        report = self.op.memory()
        if report.total_bytes > self.peak.total_bytes:
            self.peak = report
        self._noting_s += time.perf_counter() - started_s
        self._noting_cpu_s += time.thread_time() - started_cpu_s
