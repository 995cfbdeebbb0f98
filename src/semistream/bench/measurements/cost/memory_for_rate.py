"""The kind ``memory for rate``: the least memory with which a join has a rate on the 7200 rpm disk.

S0 Figs. 4a and 4b, S3 Fig. 5a. Rates are measured at budgets that a search chooses, beginning where the cost model says
that the rate is reached. What the model says stands beside what was measured.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semistream.bench.framework.measurement import Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.cost.join_case import has_model, predicted
from semistream.bench.measurements.cost.memory_search import LeastMemory, MemorySearch
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, cell_without, open_cell
from semistream.cost.clock import HDD

__all__ = ["MemoryForRate", "memory_for_rate_measurements"]

_OWN = ("tuples_per_s", "tolerance", "most_runs", "measured_x")
_BYTES_PER_MB = 1 << 20
_MODEL_TOLERANCE = 1e-4
_MODEL_RUNS = 60


@dataclass(frozen=True, kw_only=True)
class MemoryForRate:
    """One algorithm on one table, for one rate or several.

    Attributes
    ----------
    cell
        Its memory is where the search begins without a model.
    targets
        (x, rate) of every point.
    measures
        Whether rates are measured; otherwise the model alone is asked.
    tolerance, most_runs
        Of `MemorySearch`.
    """

    series: str
    cell: RateCell
    targets: tuple[tuple[float, float], ...]
    measures: bool
    tolerance: float
    most_runs: int

    @property
    def name(self) -> str:
        return f"{self.series}, {', '.join(f'{x:g}' for x, _ in self.targets)}"

    @property
    def weight(self) -> float:
        return self.cell.weight * (1 + 2 * len(self.targets)) if self.measures else 0.5

    def run(self, context: Context) -> list[Point]:
        opened = open_cell(self.cell, context)
        rates = sorted({rate for _, rate in self.targets})
        model: dict[float, LeastMemory] = {}
        if has_model(self.cell.algorithm):
            model_search = self._model(opened)
            model = {rate: model_search.find(rate) for rate in rates}
        measured: dict[float, LeastMemory] = {}
        if self.measures:
            search = self._measured(opened, context)
            for rate in rates:
                guess = model.get(rate)
                guess_bytes = round(guess.memory_bytes) if guess is not None and guess.is_reached else None
                measured[rate] = search.find(rate, guess_bytes)
        return [
            _point(series, x, rate, found[rate], opened)
            for series, found in ((self.series, measured), (f"{self.series} predicted", model))
            for x, rate in self.targets
            if rate in found
        ]

    def _measured(self, opened: OpenCell, context: Context) -> MemorySearch:
        def rate_of(budget_bytes: int) -> float:
            context.report(f"{self.series} with {budget_bytes:,} bytes")
            return opened.measure(budget_bytes).disks[HDD.name].tuples_per_s

        return self._search(opened, rate_of, self.tolerance, self.most_runs)

    def _model(self, opened: OpenCell) -> MemorySearch:
        return self._search(
            opened, lambda budget: predicted(opened, HDD, budget).tuples_per_s, _MODEL_TOLERANCE, _MODEL_RUNS
        )

    @staticmethod
    def _search(opened: OpenCell, rate_of: Any, tolerance: float, most_runs: int) -> MemorySearch:
        return MemorySearch(
            rate_of,
            first_bytes=opened.budget_bytes,
            most_bytes=opened.table.num_bytes,
            tolerance=tolerance,
            most_runs=most_runs,
        )


def _point(series: str, x: float, rate: float, least: LeastMemory, opened: OpenCell) -> Point:
    return Point(
        series=series,
        x=x,
        y={HDD.name: least.memory_bytes / _BYTES_PER_MB} if least.is_reached else {},
        details={
            "tuples_per_s": rate,
            "memory_share": least.memory_bytes / opened.table.num_bytes,
            "is_reached": least.is_reached,
            "is_least_that_works": least.is_least,
            "tuples_per_s_by_budget_bytes": {str(budget): rate for budget, rate in least.measured.items()},
        },
    )


def memory_for_rate_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series and table.

    Parameters are those of a cell, whose memory is where the search begins; ``tuples_per_s``, the rate; ``tolerance``
    and ``most_runs``; and ``measured_x``, the places on the x axis at which rates are measured, all by default.
    """
    measured_x = [x for x in parameters.get("measured_x", parameters["x"])]
    measurements: list[Measurement] = []
    for series, settings in spec.series.items():
        here = {**parameters, **settings}
        own = {name: here[name] for name in ("tolerance", "most_runs")}
        if spec.x.name == "tuples_per_s":
            targets = tuple((x * spec.x.factor, float(x)) for x in parameters["x"])
            cell = cell_without(here, _OWN)
            measurements.append(MemoryForRate(series=series, cell=cell, targets=targets, measures=True, **own))
            continue
        for x in parameters["x"]:
            measurements.append(
                MemoryForRate(
                    series=series,
                    cell=cell_without({**here, spec.x.name: x}, _OWN),
                    targets=((x * spec.x.factor, float(here["tuples_per_s"])),),
                    measures=any(math.isclose(x, each) for each in measured_x),
                    **own,
                )
            )
    return measurements
