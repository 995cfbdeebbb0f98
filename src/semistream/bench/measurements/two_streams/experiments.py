"""The kinds ``punctuated`` and ``two streams``: S4's experiments and the choice that it leaves open, and S4's figures.

Joins of the same streams are measured in turns: medians of what each took, and curves against the outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from semistream.bench.framework.measurement import MACHINE, VALUE, Context, Measurement, Point, check_least, in_turns
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.two_streams.dict_join import DictJoin
from semistream.bench.measurements.two_streams.saturated import Course, run_saturated
from semistream.bench.measurements.two_streams.settings import make_join, require_setting
from semistream.bench.measurements.two_streams.stream_pairs import WORKLOADS, StreamPair, stream_pair
from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Floats

__all__ = ["Experiment", "TwoStreams", "punctuated_measurements", "two_streams_measurements"]

_POINTS = 60
_WARM_UP_ITEMS = 200
_TOTALS_OF_FIGURES = {"total_s": "total_s", "mean_state_tuples": "mean_tuples", "peak_state_tuples": "peak_tuples"}


class Curve(NamedTuple):
    """What one join took on one pair of streams: medians over the repeats.

    After so many ``outputs``, so many seconds had been worked and so much was in the state. ``totals`` are those of
    all outputs: seconds; tuples in the state, over all tuples as they are worked on, and at most; and the delays from
    when a punctuation came until it was passed on: mean, 95th percentile and standard deviation, None without any.
    """

    outputs: list[float]
    seconds: list[float]
    state_tuples: list[float]
    state_bytes: list[float]
    totals: dict[str, float | None]


def _compare(
    workload: str, settings: Sequence[str], items: int, repeats: int, seed: int, report: Callable[[str], None]
) -> dict[str, Curve]:
    pair = stream_pair(workload, items, seed)
    small = stream_pair(workload, min(items, _WARM_UP_ITEMS), seed)
    for setting in settings:
        _run(setting, small)  # compiles
    courses = in_turns({setting: partial(_run, setting, pair) for setting in settings}, repeats, report)
    return {setting: _curve(courses[setting]) for setting in settings}


def _run(setting: str, pair: StreamPair) -> Course:
    with closing(make_join(setting, pair)) as op:
        return run_saturated(op, pair)


def _curve(courses: list[Course]) -> Curve:
    grid = np.linspace(0, courses[0].outputs[-1], _POINTS + 1)[1:]

    def middle(name: str) -> list[float]:
        on_grid = [np.interp(grid, course.outputs, getattr(course, name)) for course in courses]
        points: list[float] = np.median(on_grid, axis=0).tolist()
        return points

    passes_on = all(course.delays_s.size for course in courses)

    def delay(of: Callable[[Floats], Any]) -> float | None:
        return median(float(of(course.delays_s)) for course in courses) if passes_on else None

    totals = {
        "total_s": median(float(course.seconds[-1]) for course in courses),
        "mean_tuples": median(course.mean_state_tuples for course in courses),
        "peak_tuples": median(float(course.peak_tuples.max()) for course in courses),
        "mean_delay_s": delay(np.mean),
        "late_delay_s": delay(lambda delays_s: np.percentile(delays_s, 95)),
        "delay_spread_s": delay(np.std),
    }
    return Curve(grid.tolist(), middle("seconds"), middle("state_tuples"), middle("state_bytes"), totals)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Joins of one pair of streams, in turns: what they took and held in their states, against their outputs."""

    part: str
    workload: str
    settings: tuple[str, ...]  # joins by the names that `make_join` knows
    news: int
    repeats: int

    @property
    def name(self) -> str:
        return f"{self.part}, {self.workload}"

    @property
    def weight(self) -> float:
        # A purge after every punctuation takes far longer than all else.
        slow = sum(setting.endswith("purge every 1") for setting in self.settings)
        return 1.0 + self.repeats * self.news * (3e-4 * slow + 1e-5 * len(self.settings))

    def run(self, context: Context) -> list[Point]:
        def report(message: str) -> None:
            context.report(f"{self.name}: {message}")

        found = _compare(self.workload, self.settings, self.news, self.repeats, context.seed, report)
        return [point for setting, curve in found.items() for point in self._points(setting, curve)]

    def _points(self, setting: str, curve: Curve) -> list[Point]:
        points = []
        for outputs, seconds, tuples, state_bytes in zip(*curve[:4], strict=True):
            values = {MACHINE: seconds, "tuples in the state": tuples}
            points.append(Point(setting, outputs, values, {"state_bytes": state_bytes}, self.name))
        points[-1].details.update(curve.totals)
        return points


def punctuated_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return every experiment on every pair of streams that it names, and MJoin beside plain Python."""
    check_least(parameters, news=100, memory_auctions=100, repeats=1)
    sizes = {"news": parameters["news"], "repeats": parameters["repeats"]}
    found: list[Measurement] = []
    for part, experiment in parameters["experiments"].items():
        for setting in experiment["settings"]:
            require_setting(setting)
        for workload in experiment["workloads"]:
            if workload not in WORKLOADS:
                raise InvalidArgument(f"workload {workload!r} is unknown: use one of {'; '.join(WORKLOADS)}")
            found.append(Experiment(part=part, workload=workload, settings=tuple(experiment["settings"]), **sizes))
    return [*found, DictJoin(auctions=parameters["memory_auctions"], repeats=parameters["repeats"])]


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
        settings = list(self.settings)
        found = _compare(self.workload, settings, self.items, self.repeats, context.seed, context.report)
        return [point for setting, curve in found.items() for point in self._points(setting, curve)]

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
        for detail, total in _TOTALS_OF_FIGURES.items():
            points[-1].details[detail] = curve.totals[total]
        return points


def two_streams_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every one of ``workloads``; other parameters are the fields of `TwoStreams`."""
    settings = {series["setting"]: name for name, series in spec.series.items()}
    own = {name: parameters[name] for name in ("shown", "items", "repeats")}
    return [TwoStreams(workload=workload, settings=settings, **own) for workload in parameters["workloads"]]
