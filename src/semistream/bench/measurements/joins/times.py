"""The kinds ``processing time`` and ``waiting time``: mean times of tuples at a given arrival rate.

S1, Figs. 7(a) and 7(b); S2, Fig. 6. A tuple waits until the join takes it out of the stream buffer; from there to its
answer it is processed (S1, section 3). The clock is that of the 7200 rpm disk, by I/O alone, or of this machine. Means
follow from the number of tuples in the system, once it is stable at the arrival rate.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, open_cell, rate_cell
from semistream.bench.measurements.joins.steady import measure_steady
from semistream.core.errors import BudgetTooSmall
from semistream.core.metrics import Metrics
from semistream.cost.clock import HDD
from semistream.operators.driver import StepOperator
from semistream.runtime.local import Replay, StepCost

__all__ = ["CLOCKS", "measure_times", "processing_time_measurements", "replay_for", "waiting_time_measurements"]

_StepSeconds = Callable[[StepCost], float]
CLOCKS: dict[str, _StepSeconds] = {
    HDD.name: lambda step: HDD.work_s(step.before, step.after),
    MACHINE: lambda step: step.elapsed_s,
}
"""The time of a step."""

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


def measure_times(
    op: StepOperator,
    batches: Iterator[pa.RecordBatch],
    arrivals_per_s: float,
    least_tuples: int,
    is_scan: bool,
    step_cost_s: _StepSeconds = CLOCKS[HDD.name],
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
    step_cost_s: _StepSeconds,
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


@dataclass(frozen=True, kw_only=True)
class ProcessingTime:
    """One algorithm at a share of its own service rate, on every clock."""

    series: str
    x: float
    cell: RateCell
    arrival_share: float  # of the service rate on the same clock
    least_tuples: int  # for the means

    @property
    def name(self) -> str:
        return f"{self.series}, {self.x:g}"

    @property
    def weight(self) -> float:
        return 2 * self.cell.weight

    def run(self, context: Context) -> list[Point]:
        return _points(self, context, self._times, "processing_s")

    def _times(self, opened: OpenCell, clock: str) -> Times:
        with opened.operator() as op:
            stream = opened.stream()
            rate = measure_steady(op, stream, opened.table, self.cell.effort).rates[clock]
            arrivals_per_s = self.arrival_share * rate
            times = measure_times(op, stream, arrivals_per_s, self.least_tuples, opened.is_scan, CLOCKS[clock])
        assert times is not None, "a steady operator answers tuples"
        return times


@dataclass(frozen=True, kw_only=True)
class WaitingTime:
    """One algorithm at a fixed rate of arrivals, on every clock; a backlog grows where it cannot keep up."""

    series: str
    x: float
    cell: RateCell
    arrivals_per_s: float
    settling_s: float  # of each clock, before the means are taken
    measured_s: float

    @property
    def name(self) -> str:
        return f"{self.series}, {self.x:g}"

    @property
    def weight(self) -> float:
        return 0.5 + 0.3 * (self.settling_s + self.measured_s)

    def run(self, context: Context) -> list[Point]:
        return _points(self, context, self._times, "waiting_s")

    def _times(self, opened: OpenCell, clock: str) -> Times:
        return replay_for(
            opened.operator(),
            opened.stream(),
            self.arrivals_per_s,
            settling_s=self.settling_s,
            measured_s=self.measured_s,
            step_cost_s=CLOCKS[clock],
        ).times


def _points(
    measured: ProcessingTime | WaitingTime, context: Context, times_of: Callable[[OpenCell, str], Times], shown: str
) -> list[Point]:
    opened = open_cell(measured.cell, context)
    try:
        times = {clock: times_of(opened, clock) for clock in CLOCKS}
    except BudgetTooSmall as error:
        return [Point(measured.series, measured.x, {}, {"skipped": str(error)})]

    def by_clock(field: str) -> dict[str, Any]:
        return {clock: getattr(found, field) for clock, found in times.items()}

    details = {field: by_clock(field) for field in ("tuples", "arrivals_per_s", "waiting_s", "processing_s")}
    details["keeps_up"] = by_clock("is_settled")
    values = {clock: value for clock, value in by_clock(shown).items() if value is not None}
    return [Point(measured.series, measured.x, values, details)]


def processing_time_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series and x; parameters are those of a cell and of `ProcessingTime`."""
    return _measurements(ProcessingTime, ("arrival_share", "least_tuples"), spec, parameters)


def waiting_time_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series and x; parameters are those of a cell and of `WaitingTime`."""
    return _measurements(WaitingTime, ("arrivals_per_s", "settling_s", "measured_s"), spec, parameters)


def _measurements(
    make: Callable[..., Measurement], names: tuple[str, ...], spec: Spec, parameters: Mapping[str, Any]
) -> list[Measurement]:
    found = []
    for x in parameters["x"]:
        for series, settings in spec.series.items():
            here = {**parameters, **settings, spec.x.name: x}
            own = {name: here[name] for name in names}
            found.append(make(series=series, x=x * spec.x.factor, cell=rate_cell(here, names), **own))
    return found
