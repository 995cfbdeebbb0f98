"""Figures of the kind ``two streams``: S4's experiments, from the curves of the benchmark of punctuated streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from semistream.bench.framework.measurement import MACHINE, VALUE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.two_streams.comparison import Curve, compare

__all__ = ["TwoStreams", "two_streams_measurements"]


@dataclass(frozen=True, kw_only=True)
class TwoStreams:
    """Joins of the same two streams, in turns: what they took, or held in their states, against their outputs."""

    workload: str
    settings: Mapping[str, str]  # the series of each join, by the name that `make_join` knows
    shown: Literal["seconds", "state_tuples", "state_bytes"]  # of a `Curve`
    items: int  # news, each with ten accesses
    repeats: int

    @property
    def name(self) -> str:
        return f"{self.shown.replace('_', ' ')}, {self.workload}"

    @property
    def weight(self) -> float:
        return 1.0 + len(self.settings) * self.repeats * self.items * 1e-4

    def run(self, context: Context) -> list[Point]:
        curves = compare(
            self.workload,
            list(self.settings),
            items=self.items,
            repeats=self.repeats,
            seed=context.seed,
            report=context.report,
        )
        return [point for setting, curve in curves.items() for point in self._points(setting, curve)]

    def _points(self, setting: str, curve: Curve) -> list[Point]:
        # Time is that of this machine: nothing of these joins goes to a disk.
        clock = MACHINE if self.shown == "seconds" else VALUE
        values: list[float] = getattr(curve, self.shown)
        # When both streams have ended nothing is held any more, whatever the join did before.
        shown = len(values) if self.shown == "seconds" else max(1, len(values) - 1)
        points = [
            Point(self.settings[setting], outputs, {clock: value}, {}, self.workload)
            for outputs, value in zip(curve.outputs[:shown], values[:shown], strict=True)
        ]
        totals = curve.totals
        points[-1].details.update(
            total_s=totals["total_s"],
            mean_state_tuples=totals["mean_tuples"],
            peak_state_tuples=totals["peak_tuples"],
        )
        return points


def two_streams_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every one of ``workloads``; other parameters are the fields of `TwoStreams`."""
    settings = {series["setting"]: name for name, series in spec.series.items()}
    own = {name: parameters[name] for name in ("shown", "items", "repeats")}
    return [TwoStreams(workload=workload, settings=settings, **own) for workload in parameters["workloads"]]
