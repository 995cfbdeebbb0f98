"""The kind ``memory for rate``: the least memory with which a join has a rate on the 7200 rpm disk.

S0 Figs. 4a and 4b, S3 Fig. 5a. Rates are measured at budgets that a search chooses, beginning where the cost model says
that the rate is reached. What the model says stands beside what was measured.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from semistream.bench.framework.measurement import Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.cost.join_case import predicted
from semistream.bench.measurements.cost.memory_search import LeastMemory, MemorySearch
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, open_cell, rate_cell
from semistream.cost.clock import HDD
from semistream.cost.model import model_names

__all__ = ["MemoryForRate", "memory_for_rate_measurements"]

_OWN = ("tuples_per_s", "tolerance", "most_runs", "measured_x")
_BYTES_PER_MB = 1 << 20
_MODEL_TOLERANCE = 1e-4
_MODEL_RUNS = 60


@dataclass(frozen=True, kw_only=True)
class MemoryForRate:
    """One algorithm on one table, for one rate or several."""

    series: str
    cell: RateCell  # its memory is where the search begins without a model
    targets: tuple[tuple[float, float], ...]  # (x, rate) of every point
    measures: bool  # otherwise the model alone is asked
    tolerance: float  # of `MemorySearch`
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

        def search(rate_of: Callable[[int], float], tolerance: float, most_runs: int) -> MemorySearch:
            return MemorySearch(rate_of, opened.budget_bytes, opened.table.num_bytes, tolerance, most_runs)

        def measured_rate(budget_bytes: int) -> float:
            context.report(f"{self.series} with {budget_bytes:,} bytes")
            return opened.measure(budget_bytes).rates[HDD.name]

        model: dict[float, LeastMemory] = {}
        if self.cell.algorithm in model_names():
            by_model = search(lambda budget: predicted(opened, HDD, budget).tuples_per_s, _MODEL_TOLERANCE, _MODEL_RUNS)
            model = {rate: by_model.find(rate) for rate in rates}
        measured: dict[float, LeastMemory] = {}
        if self.measures:
            by_measuring = search(measured_rate, self.tolerance, self.most_runs)
            for rate in rates:
                guess = model.get(rate)
                guess_bytes = round(guess.memory_bytes) if guess is not None and guess.is_reached else None
                measured[rate] = by_measuring.find(rate, guess_bytes)
        return [
            _point(series, x, rate, found[rate], opened)
            for series, found in ((self.series, measured), (f"{self.series} predicted", model))
            for x, rate in self.targets
            if rate in found
        ]


def _point(series: str, x: float, rate: float, least: LeastMemory, opened: OpenCell) -> Point:
    details = {
        "tuples_per_s": rate,
        "memory_share": least.memory_bytes / opened.table.num_bytes,
        "is_reached": least.is_reached,
        "is_least_that_works": least.is_least,
        "tuples_per_s_by_budget_bytes": {str(budget): rate for budget, rate in least.measured.items()},
    }
    return Point(series, x, {HDD.name: least.memory_bytes / _BYTES_PER_MB} if least.is_reached else {}, details)


def memory_for_rate_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series and table.

    Parameters are those of a cell, whose memory is where the search begins; ``tuples_per_s``, the rate; ``tolerance``
    and ``most_runs``; and ``measured_x``, the places on the x axis at which rates are measured, all by default.
    """
    xs, measured_x = parameters["x"], parameters.get("measured_x", parameters["x"])
    measurements: list[Measurement] = []
    for series, settings in spec.series.items():
        here = {**parameters, **settings}
        own = {"series": series, "tolerance": here["tolerance"], "most_runs": here["most_runs"]}
        if spec.x.name == "tuples_per_s":
            targets = tuple((x * spec.x.factor, float(x)) for x in xs)
            measurements.append(MemoryForRate(cell=rate_cell(here, _OWN), targets=targets, measures=True, **own))
            continue
        for x in xs:
            cell = rate_cell({**here, spec.x.name: x}, _OWN)
            targets = ((x * spec.x.factor, float(here["tuples_per_s"])),)
            measures = any(math.isclose(x, each) for each in measured_x)
            measurements.append(MemoryForRate(cell=cell, targets=targets, measures=measures, **own))
    return measurements
