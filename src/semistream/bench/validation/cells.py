"""What was predicted and measured in each cell."""

from dataclasses import asdict, dataclass, field
from typing import Any

from semistream.bench.operators.cells import Cell, CellResult
from semistream.cost.cost_factors import MACHINE
from semistream.cost.disk_profile import HDD
from semistream.cost.loop import Loop

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
    """One cell of the grid.

    Attributes
    ----------
    measured_cell
        What the operator did.
    predicted, measured
        Figures by the name of the clock; ``predicted`` is empty without a prediction, ``measured`` in a skipped cell.
    predicted_loop, measured_loop
        Counts of an iteration.
    not_predicted
        Why there is no prediction.
    """

    measured_cell: CellResult
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
            predicted_loop=content["predicted_loop"],
            measured_loop=content["measured_loop"],
            not_predicted=content["not_predicted"],
            **figures,
        )


def measured_figures(found: CellResult, rows_per_page: float) -> tuple[dict[str, Figures], Loop]:
    """Return what a measured cell shows on both clocks, and the counts of one of its loops."""
    steps = max(1, found.steps)
    disk = found.disk(HDD.name)
    # Other processes are no part of a model: what they took is left out here, as it is in calibration.
    worked_s = max(1e-9, found.elapsed_s - found.waited_s)
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
        seeks=found.seeks,
        pages=found.pages_read,
        bytes_read=found.bytes_read,
    )
    return figures, counts.times(1 / steps)
