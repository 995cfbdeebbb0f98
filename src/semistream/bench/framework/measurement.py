"""What a run is made of: measurements that are run one by one, kept, and not repeated."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from semistream.cost.clock import MACHINE
from semistream.storage import MasterTable
from semistream.workloads import Workload

__all__ = ["MACHINE", "VALUE", "Context", "Measurement", "PlacedMeasurement", "Point", "key_of"]

VALUE = "value"
"""What a point shows where no clock plays a part."""

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """What was measured, or predicted, for one series at one place of the x axis.

    Attributes
    ----------
    series
        Such as an algorithm; with a panel of its own for each ``group``, if there are several.
    x
        A number, in the unit of the x axis.
    y
        Values by the name of what they are: a clock, another measure, or `VALUE`. `MACHINE` is this machine's clock,
        without what passed for want of a core; other clocks are disk profiles.
    details
        What else was measured, with units in the names.
    """

    series: str
    x: float
    y: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    group: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Context(NamedTuple):
    """What a measurement may use.

    Attributes
    ----------
    table
        Returns the staged master table of a workload, by its layout and page size.
    data_dir
        For what has to lie on disk meanwhile.
    shared_data
        The folder with real data sets; None when there is none.
    report
        Is told what is being done.
    resource
        Returns what is opened once and used by several measurements, by its name: a session, a yardstick. It is made
        when it is first asked for, and closed when the run ends.
    remembered
        Returns what is worked out once and used by several measurements, by its name: plain JSON values, kept with
        the finished measurements, so that a resumed run has the same.
    """

    table: "Callable[[Workload, str, int], MasterTable]"
    data_dir: Path
    shared_data: Path | None
    seed: int
    report: Callable[[str], None]
    resource: "Callable[[str, Callable[[], AbstractContextManager[Any]]], Any]"
    remembered: Callable[[str, Callable[[], Any]], Any]


class Measurement(Protocol):
    """A part of a run that is measured as a whole: a frozen dataclass of plain values, which decide its outcome.

    Attributes
    ----------
    name
        For people, in few words; ``--only`` chooses by it.
    weight
        About how many seconds it takes.
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
    """A measurement that several figures share, each showing something else of it.

    Attributes
    ----------
    cell
        What decides the outcome.
    """

    @property
    def cell(self) -> Any: ...

    def placed(self, points: Sequence[Point]) -> list[Point]:
        """Return the points of this figure, from those that `run` returned for any of them."""
        ...


def key_of(measurement: Measurement) -> str:
    """Return a name for all that decides the outcome but the seed; what has the same key is measured once."""
    decisive: Any = measurement.cell if isinstance(measurement, PlacedMeasurement) else measurement
    return f"{type(measurement).__name__} {json.dumps(asdict(decisive), sort_keys=True)}"
