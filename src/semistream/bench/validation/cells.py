"""What was predicted and measured in each cell."""

from dataclasses import asdict, dataclass, field
from typing import Any

from semistream.bench.operators.cells import Cell, CellResult
from semistream.cost.cost_factors import MACHINE
from semistream.cost.disk_profile import HDD
from semistream.cost.loop import Loop
from semistream.cost.yardstick import at_usual_speed

__all__ = ["CLOCKS", "Figures", "ValidatedCell", "measured_figures"]

CLOCKS = (HDD.name, MACHINE)


@dataclass(frozen=True)
class Figures:
    """What a cell shows on one clock.

    Attributes
    ----------
    loop_s
        c_loop: seconds of an iteration of the operator's loop.
    """

    tuples_per_s: float
    loop_s: float


@dataclass(frozen=True)
class ValidatedCell:
    """One cell of the grid, or what is advised at its point.

    Attributes
    ----------
    measured_cell
        What the operator did.
    settings
        Options of the operator; none in the cells of the grid.
    advised_on
        The clock for which the advisor recommends this; None in the cells of the grid.
    predicted, measured
        Figures by the name of the clock; ``predicted`` is empty without a prediction, ``measured`` in a skipped cell.
    predicted_loop, measured_loop
        Counts of an iteration.
    not_predicted
        Why there is no prediction.
    """

    measured_cell: CellResult
    settings: dict[str, float] = field(default_factory=dict)
    advised_on: str | None = None
    predicted: dict[str, Figures] = field(default_factory=dict)
    measured: dict[str, Figures] = field(default_factory=dict)
    predicted_loop: dict[str, float] | None = None
    measured_loop: dict[str, float] | None = None
    not_predicted: str | None = None

    @property
    def cell(self) -> Cell:
        return self.measured_cell.cell

    def errors(self, clock: str) -> dict[str, float] | None:
        """Return the relative errors of rate and loop cost; None unless both sides are there."""
        if clock not in self.predicted or clock not in self.measured:
            return None
        predicted, measured = self.predicted[clock], self.measured[clock]
        return {
            "rate": abs(predicted.tuples_per_s / measured.tuples_per_s - 1),
            "loop cost": abs(predicted.loop_s / measured.loop_s - 1),
        }

    @property
    def speed(self) -> float:
        """How fast the machine was, 1 when it was as fast as where cost factors were measured."""
        if MACHINE not in self.measured:
            return 1.0
        return self.measured_cell.tuples_per_s / self.measured[MACHINE].tuples_per_s

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value:g}" for name, value in self.settings.items())
        return f"{self.cell.algorithm} on {self.cell.layout}{settings and ' with '}{settings}"

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as it stands in the result file, its errors included."""
        errors = {clock: self.errors(clock) for clock in CLOCKS}
        return {**asdict(self), "skipped": self.measured_cell.skipped, "errors": errors}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "ValidatedCell":
        """Return what `as_dict` was called on."""
        figures = {
            side: {clock: Figures(**given) for clock, given in content[side].items()}
            for side in ("predicted", "measured")
        }
        return ValidatedCell(
            measured_cell=CellResult.from_dict(content["measured_cell"]),
            settings=content["settings"],
            advised_on=content["advised_on"],
            predicted_loop=content["predicted_loop"],
            measured_loop=content["measured_loop"],
            not_predicted=content["not_predicted"],
            **figures,
        )


def measured_figures(
    found: CellResult, rows_per_page: float, usual_yardstick_s: float | None = None
) -> tuple[dict[str, Figures], Loop]:
    """Return what a measured cell shows on both clocks, and the counts of one of its loops.

    Parameters
    ----------
    usual_yardstick_s
        What a step of the yardstick took where the cost factors were measured: times are those of a machine that is as
        fast.
    """
    steps = max(1, found.steps)
    disk = found.disk(HDD.name)
    worked_s = at_usual_speed(found.tuples / found.tuples_per_s, found.yardstick_s, usual_yardstick_s)
    figures = {
        HDD.name: Figures(disk.tuples_per_s, disk.io_s / steps),
        MACHINE: Figures(found.tuples / worked_s, worked_s / steps),
    }
    cached = found.tuples * found.cache_share
    counts = Loop(
        cached_tuples=cached,
        disk_tuples=found.tuples - cached,
        master_rows=found.pages_read * rows_per_page,
        results=found.tuples,  # every key of these workloads has one row
        reads=found.reads,
        seeks=found.seeks,
        pages=found.pages_read,
        bytes_read=found.bytes_read,
    )
    return figures, counts.times(1 / steps)
