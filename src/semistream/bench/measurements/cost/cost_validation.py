"""The kind ``cost validation``: what the cost models predict, and what is measured, side by side.

S3 Figs. 5b and 6a, S1 Fig. 8, S2 Fig. 9f, S0 Figs. 6c and 6d, and the benchmark ``validation``. On the 7200 rpm disk a
model's counts are priced by seeks and bytes; on this machine by cost factors, which are calibrated on the same table in
the same run, beside the same yardstick.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any, get_args

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point, key_of
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.cost.join_case import join_case, predicted
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, groups_of, open_cell, rate_cell
from semistream.bench.measurements.joins.steady import SteadyState
from semistream.core.errors import BudgetTooSmall, InvalidArgument, NotCalibrated
from semistream.cost.advice.advice import Alternative
from semistream.cost.advice.alternatives import TableForm, Target, find_alternatives, ranked
from semistream.cost.calibration.calibrate import MEMORY_SHARES, SKEWS, calibrate
from semistream.cost.calibration.yardstick import Yardstick, at_usual_speed
from semistream.cost.clock import HDD, AlgorithmFactors, Clock, CostFactors
from semistream.cost.join_case import Layout
from semistream.cost.model import Prediction, model_names

__all__ = ["CostValidation", "cost_validation_measurements"]

_MEASURED, _PREDICTED = "measured", "predicted"
_SHOWN = ("loop_s", "tuples_per_s")
_OWN = ("shown", "measured_x", "calibrates", "calibrates_on_grid", "advises")


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The cost factors of this machine on one table: measured once, and used by all cells on it."""

    cells: tuple[RateCell, ...]  # that use them; the first is on the table
    on_grid: bool  # operators are tried over a grid of memories and skews; otherwise about the memory of the cells

    @property
    def name(self) -> str:
        return "calibration"

    @property
    def weight(self) -> float:
        return 250.0 if self.on_grid else 20.0

    def run(self, context: Context) -> list[Point]:
        return [Point("calibration", 0.0, {}, self.content(context))]

    def yardstick(self, context: Context) -> Yardstick:
        opened = open_cell(self.cells[0], context)
        found: Yardstick = context.resource(key_of(self), lambda: Yardstick(opened.table, context.data_dir))
        return found

    def content(self, context: Context) -> dict[str, Any]:
        """Return factors, and where they come from, as plain values."""
        found: dict[str, Any] = context.remembered(f"factors of {key_of(self)}", lambda: self._calibrate(context))
        return found

    def _calibrate(self, context: Context) -> dict[str, Any]:
        opened = [open_cell(cell, context) for cell in self.cells]
        calibration = calibrate(
            opened[0].table,
            memory_bytes=None if self.on_grid else round(geometric_mean(cell.budget_bytes for cell in opened)),
            stream_schema=opened[0].workload.stream_schema,
            algorithms=list(dict.fromkeys(cell.algorithm for cell in self.cells)),
            progress=context.report,
            yardstick=self.yardstick(context),
        )
        return {
            "factors": {name: factors.as_dict() for name, factors in calibration.factors.by_algorithm.items()},
            "left_out": calibration.left_out,
            "fit_error": calibration.fit_error,
            "yardstick_s": calibration.provenance["yardstick_s"],
        }

    def clock(self, context: Context) -> CostFactors:
        factors = self.content(context)["factors"]
        return CostFactors({name: AlgorithmFactors(**given) for name, given in factors.items()})


@dataclass(frozen=True, kw_only=True)
class CostValidation:
    """One cell, predicted and, if asked for, measured."""

    series: str
    x: float
    group: str
    cell: RateCell
    is_measured: bool
    shown: str  # "loop_s", the papers' c_loop, or "tuples_per_s"
    calibrated: Calibrated | None = None  # this machine's cost factors; without them predictions are for the disk alone

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.series, self.group, f"{self.x:g}") if part)

    @property
    def weight(self) -> float:
        return self.cell.weight if self.is_measured else 0.5

    def run(self, context: Context) -> list[Point]:
        try:
            return self.points(context, open_cell(self.cell, context))
        except BudgetTooSmall as error:
            return [Point(f"{self.series} {_MEASURED}", self.x, {}, {"skipped": str(error)}, self.group)]

    def points(self, context: Context, opened: OpenCell, **settings: Any) -> list[Point]:
        """Return what is predicted and measured, with other settings of the operator than its own if there are any."""
        clocks: list[Clock] = [HDD]
        yardstick, usual_s = None, None
        if self.calibrated is not None:
            clocks.append(self.calibrated.clock(context))
            yardstick = self.calibrated.yardstick(context)
            usual_s = self.calibrated.content(context)["yardstick_s"]
        predictions = _predictions(opened, clocks, settings)
        points = [self._predicted(predictions)] if predictions else []
        if self.is_measured:
            points.append(self.measured(opened.measure(yardstick=yardstick, **settings), predictions, usual_s))
        return points

    def _predicted(self, predictions: Mapping[str, Prediction]) -> Point:
        plan = next(iter(predictions.values())).plan
        values = {clock: float(getattr(each, self.shown)) for clock, each in predictions.items()}
        details = {
            "settings": plan.settings,
            "memory_bytes": plan.memory_bytes,
            "tuples_per_loop": plan.loop.tuples,
            "cache_share": plan.loop.cache_share,
        }
        return Point(f"{self.series} {_PREDICTED}", self.x, values, details, self.group)

    def measured(
        self, steady: SteadyState, predictions: Mapping[str, Prediction], usual_yardstick_s: float | None = None
    ) -> Point:
        """Return the point of what was measured, with how far the predictions are off."""
        work = steady.work
        machine_s = at_usual_speed(work.undisturbed_s, work.yardstick_s, usual_yardstick_s)
        seconds = {HDD.name: steady.disks[HDD.name].io_s, MACHINE: machine_s}
        steps = max(1, work.counted.steps)
        values = {
            "tuples_per_s": {clock: work.tuples / each for clock, each in seconds.items()},
            "loop_s": {clock: each / steps for clock, each in seconds.items()},
        }
        # Predicted over measured, less one; positive when the model is too high.
        errors = {
            f"{name}_error": {clock: getattr(each, name) / found[clock] - 1 for clock, each in predictions.items()}
            for name, found in values.items()
        }
        details = {
            "algorithm": self.cell.algorithm,
            "layout": self.cell.layout,
            "steps": work.counted.steps,
            **values,
            "waited_s": work.waited_s,
            "speed_of_machine": machine_s / work.undisturbed_s,
            "tuples_per_loop": work.tuples / steps,
            "cache_share": work.counted.cache_share,
            "is_steady": steady.warm_up.is_steady,
            **errors,
        }
        return Point(f"{self.series} {_MEASURED}", self.x, values[self.shown], details, self.group)


@dataclass(frozen=True, kw_only=True)
class Advised:
    """What the advisor recommends at a place, on one clock: any algorithm on either table, with its best settings."""

    clock: str
    at: CostValidation  # the cell of any algorithm there
    algorithms: tuple[str, ...]  # to choose from

    @property
    def name(self) -> str:
        return self.at.name

    @property
    def weight(self) -> float:
        return self.at.weight + 5.0

    def run(self, context: Context) -> list[Point]:
        clock: Clock = HDD
        if self.clock == MACHINE:
            assert self.at.calibrated is not None, "only a calibrated machine has a clock"
            clock = self.at.calibrated.clock(context)
        alternatives: list[Alternative] = []
        opened: dict[str, OpenCell] = {}
        for layout in get_args(Layout):
            cell = opened[layout] = open_cell(replace(self.at.cell, layout=layout, options={}), context)
            case = join_case(cell)
            form = TableForm(layout, cell.table.page_bytes, False, True, case.table)
            target = Target(None, cell.budget_bytes, clock)
            found = find_alternatives(target, case.spec, case.stream, [form], names=self.algorithms)
            alternatives += found.alternatives
        if not alternatives:
            return []
        best = ranked(alternatives)[0]
        context.report(f"advised for {self.clock}: {best.algorithm} on {best.layout}")
        there = opened[best.layout]
        there = there._replace(cell=replace(there.cell, algorithm=best.algorithm))
        try:
            return replace(self.at, cell=there.cell).points(context, there, **best.settings)
        except BudgetTooSmall as error:  # bad advice: nothing is answered
            details = {"skipped": str(error).replace(there.table.path, "the table"), "algorithm": best.algorithm}
            return [Point(f"{self.at.series} {_MEASURED}", self.at.x, {self.clock: 0.0}, details, self.at.group)]


def _predictions(opened: OpenCell, clocks: Sequence[Clock], settings: Mapping[str, Any]) -> dict[str, Prediction]:
    """Return what the model says on every clock that knows the algorithm; nothing when there is no model."""
    found = {}
    for clock in clocks if opened.cell.algorithm in model_names() else ():
        with suppress(NotCalibrated):
            found[clock.name] = predicted(opened, clock, **settings)
    return found


def cost_validation_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return the calibration of every table, a measurement for every cell, and what is advised at every place.

    Parameters are those of a cell; ``shown`` of `CostValidation`; ``calibrates``, whether this machine's cost factors
    are measured, and ``calibrates_on_grid``, whether on one clustered table for all algorithms; ``advises``; and
    ``measured_x``, the places on the x axis at which the join is measured, and not only predicted: all by default.
    Lists span groups.
    """
    shown = parameters["shown"]
    if shown not in _SHOWN:
        raise InvalidArgument(f"{spec.id} shows {shown!r}, which is unknown: use one of {', '.join(_SHOWN)}")
    on_grid = parameters.get("calibrates_on_grid", False)
    if on_grid:
        _require_other_points(parameters)
    measured_x = parameters.get("measured_x", parameters["x"])
    validations = [
        CostValidation(
            series=series,
            x=x * spec.x.factor,
            group=group,
            cell=rate_cell({**there, **settings, spec.x.name: x}, _OWN),
            is_measured=x in measured_x,
            shown=shown,
        )
        for group, there in groups_of(parameters, lists=("x", "measured_x"))
        for x in there["x"]
        for series, settings in spec.series.items()
    ]
    calibrated = _calibrated(validations, on_grid) if parameters.get("calibrates", True) else {}
    validations = [replace(found, calibrated=calibrated.get(_table(found.cell, on_grid))) for found in validations]
    return [*calibrated.values(), *validations, *(_advised(validations) if parameters.get("advises") else ())]


def _calibrated(validations: Sequence[CostValidation], on_grid: bool) -> dict[str, Calibrated]:
    by_table: dict[str, dict[Any, RateCell]] = {}
    for cell in (found.cell for found in validations):
        # All algorithms work on a clustered table, and one cell of each tells what is calibrated there.
        known = (cell.algorithm, replace(cell, layout="clustered")) if on_grid else (str(cell), cell)
        by_table.setdefault(_table(cell, on_grid), {}).setdefault(*known)
    return {table: Calibrated(cells=tuple(cells.values()), on_grid=on_grid) for table, cells in by_table.items()}


def _table(cell: RateCell, on_grid: bool) -> str:
    """Return the name of the table that a cell's factors are measured on."""
    rows = cell.workload.arguments.get("rows")
    return f"{rows} rows" if on_grid else f"{cell.workload} {cell.layout} {cell.page_bytes}"


def _advised(validations: Sequence[CostValidation]) -> list[Measurement]:
    algorithms = tuple(dict.fromkeys(found.cell.algorithm for found in validations))
    places = {(found.group, found.x): found for found in validations}
    return [
        Advised(clock=clock, at=replace(at, series=f"advised for {clock}", is_measured=True), algorithms=algorithms)
        for at in places.values()
        for clock in ([HDD.name] if at.calibrated is None else [HDD.name, MACHINE])
    ]


def _require_other_points(parameters: Mapping[str, Any]) -> None:
    """Raise `InvalidArgument` where a cell is one of the points at which the cost factors are measured."""
    for skew in set(parameters["zipf_exponent"]) & set(SKEWS):
        for share in set(parameters["x"]) & set(MEMORY_SHARES):
            raise InvalidArgument(
                f"skew {skew:g} with memory {share:g} is where cost factors are measured, and would validate itself: "
                "give another skew or memory"
            )
