"""What a figure's run is made of: measurements that are run one by one, kept, and not repeated."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from semistream.bench.figures.point import Point
from semistream.storage import MasterTable
from semistream.workloads import Workload

__all__ = ["Context", "Measurement", "PlacedMeasurement"]


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
    """

    table: "Callable[[Workload, str, int], MasterTable]"
    data_dir: Path
    shared_data: Path | None
    seed: int
    report: Callable[[str], None]


class Measurement(Protocol):
    """A part of a figure that is measured as a whole.

    Attributes
    ----------
    key
        Names everything that decides the outcome but the seed; what has the same key is measured once.
    weight
        About how many seconds it takes.
    """

    @property
    def key(self) -> str: ...

    @property
    def weight(self) -> float: ...

    def run(self, context: Context) -> list[Point]:
        """Measure, and return the points."""
        ...


@runtime_checkable
class PlacedMeasurement(Measurement, Protocol):
    """A measurement that several figures share, each showing something else of it."""

    def placed(self, points: Sequence[Point]) -> list[Point]:
        """Return the points of this figure, from those that `run` returned for any of them."""
        ...
