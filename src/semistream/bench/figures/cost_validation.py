"""Figures of the kind ``cost validation``: what the cost models predict, and what is measured, side by side.

S3 Figs. 5b and 6a, S1 Fig. 8, S2 Fig. 9f, S0 Figs. 6c and 6d. On the 7200 rpm disk a model's counts are priced by seeks
and bytes; on this machine by cost factors, which are calibrated on the same table in the same run, beside the same
yardstick.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any, NamedTuple

from semistream.bench.figures.join_case import has_model, predicted
from semistream.bench.figures.measurement import Context, Measurement
from semistream.bench.figures.open_cell import OpenCell, cell_key, cell_without, open_cell
from semistream.bench.figures.point import MACHINE, Point
from semistream.bench.figures.rate import RateCell
from semistream.bench.figures.spec import FigureSpec
from semistream.bench.operators.steady import SteadyState
from semistream.core.errors import BudgetTooSmall, InvalidArgument, NotCalibrated
from semistream.cost.calibration import calibrate
from semistream.cost.clock import Clock
from semistream.cost.disk_profile import HDD
from semistream.cost.model import Prediction
from semistream.cost.yardstick import Yardstick, at_usual_speed

__all__ = ["MEASURED", "PREDICTED", "CostValidation", "Place", "cost_validation_measurements"]

MEASURED, PREDICTED = "measured", "predicted"
_SHOWN = ("loop_s", "tuples_per_s")
_OWN = ("shown", "measured_x", "calibrates")


class Place(NamedTuple):
    """A cell, where in the figure it stands, and whether it is measured or only predicted."""

    series: str
    x: float
    cell: RateCell
    is_measured: bool


@dataclass(frozen=True, kw_only=True)
class CostValidation:
    """All cells of a figure that share a table, which is calibrated once.

    Attributes
    ----------
    shown
        ``"loop_s"``, the papers' c_loop, or ``"tuples_per_s"``.
    calibrates
        Whether this machine's cost factors are measured; otherwise predictions are for the disk alone.
    """

    places: tuple[Place, ...]
    shown: str
    calibrates: bool = True

    @property
    def key(self) -> str:
        places = "; ".join(
            f"{place.series} at {place.x:g}{'' if place.is_measured else ' unmeasured'}: {cell_key(place.cell)}"
            for place in self.places
        )
        return f"cost validation, {self.shown}, calibrated {self.calibrates}: {places}"

    @property
    def weight(self) -> float:
        return 20.0 * self.calibrates + sum(place.cell.weight for place in self.places if place.is_measured)

    def run(self, context: Context) -> list[Point]:
        opened = [open_cell(place.cell, context) for place in self.places]
        clocks: list[Clock] = [HDD]
        yardstick = None
        with ExitStack() as stack:
            if self.calibrates:
                yardstick = stack.enter_context(Yardstick(opened[0].table, context.data_dir))
                clocks.append(self._machine(opened, context, yardstick))
            usual_s = yardstick.usual_step_s if yardstick else None
            points = []
            for place, cell in zip(self.places, opened, strict=True):
                context.report(str(place.cell))
                points += self._points(place, cell, clocks, yardstick, usual_s)
        return points

    def _machine(self, opened: list[OpenCell], context: Context, yardstick: Yardstick) -> Clock:
        calibration = calibrate(
            opened[0].table,
            memory_bytes=round(geometric_mean(cell.budget_bytes for cell in opened)),
            stream_schema=opened[0].workload.stream_schema,
            algorithms=list(dict.fromkeys(place.cell.algorithm for place in self.places)),
            progress=context.report,
            yardstick=yardstick,
        )
        return calibration.factors

    def _points(
        self,
        place: Place,
        opened: OpenCell,
        clocks: Sequence[Clock],
        yardstick: Yardstick | None,
        usual_s: float | None,
    ) -> list[Point]:
        try:
            predictions = _predictions(opened, clocks)
            points = [self._predicted(place, predictions)] if predictions else []
            if place.is_measured:
                points.append(self.measured(place, opened.measure(yardstick=yardstick), predictions, usual_s))
        except BudgetTooSmall as error:
            return [Point(f"{place.series} {MEASURED}", place.x, {}, {"skipped": str(error)})]
        return points

    def _predicted(self, place: Place, predictions: Mapping[str, Prediction]) -> Point:
        plan = predictions[HDD.name].plan
        return Point(
            series=f"{place.series} {PREDICTED}",
            x=place.x,
            y={clock: float(getattr(each, self.shown)) for clock, each in predictions.items()},
            details={
                "settings": plan.settings,
                "memory_bytes": plan.memory_bytes,
                "tuples_per_loop": plan.loop.tuples,
                "cache_share": plan.loop.cache_share,
            },
        )

    def measured(
        self,
        place: Place,
        steady: SteadyState,
        predictions: Mapping[str, Prediction],
        usual_yardstick_s: float | None = None,
    ) -> Point:
        """Return the point of what was measured, with how far the predictions are off."""
        work = steady.work
        machine_s = at_usual_speed(work.undisturbed_s, work.yardstick_s, usual_yardstick_s)
        seconds = {HDD.name: steady.disks[HDD.name].io_s, MACHINE: machine_s}
        steps = max(1, work.counted.steps)
        rates = {clock: work.tuples / each for clock, each in seconds.items()}
        loops = {clock: each / steps for clock, each in seconds.items()}
        values = {"loop_s": loops, "tuples_per_s": rates}[self.shown]
        return Point(
            series=f"{place.series} {MEASURED}",
            x=place.x,
            y=values,
            details={
                "steps": work.counted.steps,
                "tuples_per_s": rates,
                "waited_s": work.waited_s,
                "speed_of_machine": machine_s / work.undisturbed_s,
                "tuples_per_loop": work.tuples / steps,
                "cache_share": work.counted.cache_share,
                "is_steady": steady.warm_up.is_steady,
                # Predicted over measured, less one; positive when the model is too high.
                "loop_s_error": {clock: each.loop_s / loops[clock] - 1 for clock, each in predictions.items()},
                "tuples_per_s_error": {
                    clock: each.tuples_per_s / rates[clock] - 1 for clock, each in predictions.items()
                },
            },
        )


def _predictions(opened: OpenCell, clocks: Sequence[Clock]) -> dict[str, Prediction]:
    """Return what the model says on every clock that knows the algorithm; nothing when there is no model."""
    if not has_model(opened.cell.algorithm):
        return {}
    found = {}
    for clock in clocks:
        try:
            found[clock.name] = predicted(opened, clock)
        except NotCalibrated:
            continue
    return found


def cost_validation_measurements(spec: FigureSpec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every table.

    Parameters are those of a cell; ``shown`` and ``calibrates`` of `CostValidation`; and ``measured_x``, the places on
    the x axis at which the join is measured, and not only predicted: all by default.
    """
    shown = parameters["shown"]
    if shown not in _SHOWN:
        raise InvalidArgument(f"figure {spec.id} shows {shown!r}, which is unknown: use one of {', '.join(_SHOWN)}")
    measured_x = parameters.get("measured_x", parameters["x"])
    by_table: dict[str, list[Place]] = {}
    for x in parameters["x"]:
        for series, settings in spec.series.items():
            cell = cell_without({**parameters, **settings, spec.x.name: x}, _OWN)
            table = f"{cell.workload} {cell.layout} {cell.page_bytes}"
            by_table.setdefault(table, []).append(Place(series, x * spec.x.factor, cell, x in measured_x))
    calibrates = parameters.get("calibrates", True)
    return [CostValidation(places=tuple(places), shown=shown, calibrates=calibrates) for places in by_table.values()]
