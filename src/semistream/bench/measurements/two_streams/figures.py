"""Figures of the kind ``two streams``: S4's experiments, from the curves of the benchmark of punctuated streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.two_streams.comparison import Curve, compare

__all__ = ["TwoStreams", "two_streams_measurements"]

Shown = Literal["seconds", "state_tuples", "state_bytes"]


@dataclass(frozen=True, kw_only=True)
class TwoStreams:
    """Joins of the same two streams, in turns: what they took, or held in their states, against their outputs.

    Attributes
    ----------
    workload
        Of `stream_pairs.WORKLOADS`.
    settings
        Joins by the names that `settings.make_join` knows, and the series that they are.
    shown
        What of a `Curve` is the y axis.
    items
        News, each with ten accesses.
    """

    workload: str
    settings: Mapping[str, str]
    shown: Shown
    items: int
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
        clock = MACHINE if self.shown == "seconds" else "value"
        totals = {
            "total_s": curve.total_s,
            "mean_state_tuples": curve.mean_tuples,
            "peak_state_tuples": curve.peak_tuples,
        }
        values: list[float] = getattr(curve, self.shown)
        # When both streams have ended nothing is held any more, whatever the join did before.
        shown = len(curve.outputs) if self.shown == "seconds" else max(1, len(curve.outputs) - 1)
        return [
            Point(
                series=self.settings[setting],
                x=outputs,
                y={clock: value},
                details=totals if outputs == curve.outputs[shown - 1] else {},
                group=self.workload,
            )
            for outputs, value in zip(curve.outputs[:shown], values[:shown], strict=True)
        ]


def two_streams_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every one of ``workloads``; other parameters are the fields of `TwoStreams`."""
    settings = {series["setting"]: name for name, series in spec.series.items()}
    own = {name: parameters[name] for name in ("shown", "items", "repeats")}
    return [TwoStreams(workload=workload, settings=settings, **own) for workload in parameters["workloads"]]
