"""The kinds ``processing time`` and ``waiting time``: mean times of tuples at a given arrival rate.

S1, Figs. 7(a) and 7(b); S2, Fig. 6. A tuple waits until the join takes it out of the stream buffer; from there to its
answer it is processed (S1, section 3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.arrivals import StepSeconds, Times, disk_step_s, measure_times, replay_for
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, open_cell, rate_cell
from semistream.bench.measurements.joins.steady import measure_steady
from semistream.core.errors import BudgetTooSmall
from semistream.cost.clock import HDD

__all__ = ["ProcessingTime", "WaitingTime", "processing_time_measurements", "waiting_time_measurements"]

_CLOCKS: dict[str, StepSeconds] = {HDD.name: disk_step_s, MACHINE: lambda step: step.elapsed_s}


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
            times = measure_times(op, stream, arrivals_per_s, self.least_tuples, opened.is_scan, _CLOCKS[clock])
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
            step_cost_s=_CLOCKS[clock],
        ).times


def _points(
    measured: ProcessingTime | WaitingTime, context: Context, times_of: Callable[[OpenCell, str], Times], shown: str
) -> list[Point]:
    opened = open_cell(measured.cell, context)
    try:
        times = {clock: times_of(opened, clock) for clock in _CLOCKS}
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
