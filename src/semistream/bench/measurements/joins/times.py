"""The kinds ``processing time`` and ``waiting time``: mean times of tuples at a given arrival rate.

S1, Figs. 7(a) and 7(b); S2, Fig. 6. A tuple waits until the join takes it out of the stream buffer; from there to its
answer it is processed (S1, section 3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.arrivals import (
    StepSeconds,
    Times,
    disk_step_s,
    machine_step_s,
    measure_times,
    measure_times_for,
)
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, cell_without, open_cell
from semistream.bench.measurements.joins.steady import SteadyState, measure_steady
from semistream.core.errors import BudgetTooSmall
from semistream.cost.clock import HDD

__all__ = ["ProcessingTime", "WaitingTime", "processing_time_measurements", "waiting_time_measurements"]

_CLOCKS: dict[str, tuple[StepSeconds, Callable[[SteadyState], float]]] = {
    HDD.name: (disk_step_s, lambda steady: steady.disks[HDD.name].tuples_per_s),
    MACHINE: (machine_step_s, lambda steady: steady.tuples_per_s),
}
_OF_PROCESSING = ("arrival_share", "least_tuples")
_OF_WAITING = ("arrivals_per_s", "settling_s", "measured_s")


@dataclass(frozen=True, kw_only=True)
class ProcessingTime:
    """One algorithm at a share of its own service rate, on every clock.

    Attributes
    ----------
    arrival_share
        Arrivals, as a share of the service rate on the same clock.
    least_tuples
        The least number of tuples for the means.
    """

    series: str
    x: float
    cell: RateCell
    arrival_share: float
    least_tuples: int

    @property
    def name(self) -> str:
        return f"{self.series}, {self.x:g}"

    @property
    def weight(self) -> float:
        return 2 * self.cell.weight

    def run(self, context: Context) -> list[Point]:
        opened = open_cell(self.cell, context)
        try:
            times = {clock: self._times(opened, *costs) for clock, costs in _CLOCKS.items()}
        except BudgetTooSmall as error:
            return [Point(self.series, self.x, {}, {"skipped": str(error)})]
        return [_point(self.series, self.x, times, lambda found: found.processing_s)]

    def _times(self, opened: OpenCell, step_s: StepSeconds, rate_of: Callable[[SteadyState], float]) -> Times:
        with opened.operator() as op:
            stream = opened.stream()
            rate = rate_of(measure_steady(op, stream, opened.table, self.cell.effort))
            times = measure_times(op, stream, self.arrival_share * rate, self.least_tuples, opened.is_scan, step_s)
        assert times is not None, "a steady operator answers tuples"
        return times


@dataclass(frozen=True, kw_only=True)
class WaitingTime:
    """One algorithm at a fixed rate of arrivals, on every clock.

    Attributes
    ----------
    settling_s, measured_s
        Seconds of each clock before the means are taken, and while they are. The backlog of an algorithm that cannot
        keep up grows all the while.
    """

    series: str
    x: float
    cell: RateCell
    arrivals_per_s: float
    settling_s: float
    measured_s: float

    @property
    def name(self) -> str:
        return f"{self.series}, {self.x:g}"

    @property
    def weight(self) -> float:
        return 0.5 + 0.3 * (self.settling_s + self.measured_s)

    def run(self, context: Context) -> list[Point]:
        opened = open_cell(self.cell, context)
        try:
            times = {clock: self._times(opened, step_s) for clock, (step_s, _) in _CLOCKS.items()}
        except BudgetTooSmall as error:
            return [Point(self.series, self.x, {}, {"skipped": str(error)})]
        return [_point(self.series, self.x, times, lambda found: found.waiting_s)]

    def _times(self, opened: OpenCell, step_s: StepSeconds) -> Times:
        return measure_times_for(
            opened.operator(),
            opened.stream(),
            self.arrivals_per_s,
            settling_s=self.settling_s,
            measured_s=self.measured_s,
            step_cost_s=step_s,
        )


def _point(series: str, x: float, times: dict[str, Times], shown: Callable[[Times], float | None]) -> Point:
    values = {clock: shown(found) for clock, found in times.items()}
    return Point(
        series=series,
        x=x,
        y={clock: value for clock, value in values.items() if value is not None},
        details={
            "tuples": {clock: found.tuples for clock, found in times.items()},
            "arrivals_per_s": {clock: found.arrivals_per_s for clock, found in times.items()},
            "keeps_up": {clock: found.is_settled for clock, found in times.items()},
            "waiting_s": {clock: found.waiting_s for clock, found in times.items()},
            "processing_s": {clock: found.processing_s for clock, found in times.items()},
        },
    )


def processing_time_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series at every place of the x axis.

    Parameters are those of a cell, and ``arrival_share`` and ``least_tuples`` of `ProcessingTime`.
    """
    own = {name: parameters[name] for name in _OF_PROCESSING}
    return [
        ProcessingTime(
            series=series,
            x=x * spec.x.factor,
            cell=cell_without({**parameters, **settings, spec.x.name: x}, _OF_PROCESSING),
            **own,
        )
        for x in parameters["x"]
        for series, settings in spec.series.items()
    ]


def waiting_time_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series at every place of the x axis.

    Parameters are those of a cell, and ``arrivals_per_s``, ``settling_s`` and ``measured_s`` of `WaitingTime`.
    """
    measurements: list[Measurement] = []
    for x in parameters["x"]:
        for series, settings in spec.series.items():
            here = {**parameters, **settings, spec.x.name: x}
            own = {name: here[name] for name in _OF_WAITING}
            cell = cell_without(here, _OF_WAITING)
            measurements.append(WaitingTime(series=series, x=x * spec.x.factor, cell=cell, **own))
    return measurements
