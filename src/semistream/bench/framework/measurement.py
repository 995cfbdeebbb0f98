"""Measurements, the parts of a run: run one by one, kept, and not repeated."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from semistream.core.errors import InvalidArgument
from semistream.cost.clock import MACHINE
from semistream.storage import MasterTable
from semistream.workloads import Workload

__all__ = [
    "MACHINE",
    "VALUE",
    "Context",
    "Measurement",
    "PlacedMeasurement",
    "Point",
    "check_above",
    "check_least",
    "in_turns",
    "key_of",
]

VALUE = "value"
"""The name of a point's value that depends on no clock."""

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """A measured or predicted point of one series.

    Each ``group`` has its own panel. ``y`` has values by name: a clock, another measure, or `VALUE`. `MACHINE` is this
    machine's clock, without the time spent waiting for a core; other clocks are disk profiles. ``details`` are other
    measured values, with units in their names.
    """

    series: str
    x: float
    y: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    group: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Context(NamedTuple):
    """The means of a measurement.

    ``table`` returns the staged master table of a workload, by its layout and page size. ``report`` takes a line about
    the current work. ``resource`` returns a resource that several measurements share, such as a session, by name; it is
    opened at its first use and closed at the end of the run. ``remembered`` returns plain JSON values that several
    measurements share, by name; they are computed once and kept with the finished measurements, so that a resumed run
    has the same.
    """

    table: "Callable[[Workload, str, int], MasterTable]"
    data_dir: Path
    shared_data: Path | None
    seed: int
    report: Callable[[str], None]
    resource: "Callable[[str, Callable[[], AbstractContextManager[Any]]], Any]"
    remembered: Callable[[str, Callable[[], Any]], Any]


class Measurement(Protocol):
    """A part of a run that is measured as a whole: a frozen dataclass of the plain values that decide its outcome.

    ``--only`` chooses by the name. The weight is the approximate time in seconds.
    """

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    def run(self, context: Context) -> list[Point]:
        """Measure, and return the points."""
        ...


@runtime_checkable
class PlacedMeasurement(Measurement, Protocol):
    """A measurement that several figures share; each shows other values of it. Its ``cell`` decides the outcome."""

    @property
    def cell(self) -> Any: ...

    def placed(self, points: Sequence[Point]) -> list[Point]:
        """Return the points of this figure, from the points of `run`."""
        ...


def key_of(measurement: Measurement) -> str:
    """Return a name for all that decides the outcome, except the seed; one key is measured once."""
    decisive: Any = measurement.cell if isinstance(measurement, PlacedMeasurement) else measurement
    return f"{type(measurement).__name__} {json.dumps(asdict(decisive), sort_keys=True)}"


def check_least(parameters: Mapping[str, Any], **least: float) -> None:
    """Raise `InvalidArgument` if a parameter is below its least value."""
    for name, limit in least.items():
        if parameters[name] < limit:
            raise InvalidArgument(f"{name}={parameters[name]} must be at least {limit}")


def check_above(parameters: Mapping[str, Any], **limits: float) -> None:
    """Raise `InvalidArgument` unless a parameter is above its limit."""
    for name, limit in limits.items():
        if not parameters[name] > limit:
            raise InvalidArgument(f"{name}={parameters[name]} must be above {limit}")


def in_turns(
    sides: Mapping[str, Callable[[], T]], repeats: int, report: Callable[[str], None] = lambda message: None
) -> dict[str, list[T]]:
    """Run every side once in each of ``repeats`` rounds, and return their results.

    In turns, other work on the machine slows all sides of a comparison alike.
    """
    found: dict[str, list[T]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name, measure in sides.items():
            report(f"{name}: run {repeat + 1} of {repeats}")
            found[name].append(measure())
    return found
