"""The kind ``punctuated``: the three experiments of S4, and the choice that it leaves open, on several workloads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point, check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.two_streams.comparison import Curve, compare
from semistream.bench.measurements.two_streams.dict_join import DictJoin
from semistream.bench.measurements.two_streams.settings import require_setting
from semistream.bench.measurements.two_streams.stream_pairs import WORKLOADS
from semistream.core.errors import InvalidArgument

__all__ = ["Experiment", "punctuated_measurements"]


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
        found = compare(
            self.workload,
            self.settings,
            items=self.news,
            repeats=self.repeats,
            seed=context.seed,
            report=lambda message: context.report(f"{self.name}: {message}"),
        )
        return [point for setting, curve in found.items() for point in _points(setting, curve, self.name)]


def _points(setting: str, curve: Curve, group: str) -> list[Point]:
    points = [
        Point(setting, outputs, {MACHINE: seconds, "tuples in the state": tuples}, {"state_bytes": state_bytes}, group)
        for outputs, seconds, tuples, state_bytes in zip(*curve[:4], strict=True)
    ]
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
