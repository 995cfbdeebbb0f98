"""The kind ``rate``: an operator that never lacks tuples, in its steady state.

It shows the service rate on both clocks, the rate of one phase, or the share of the cache. Figures that show different
values of the same cells share their measurements.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from semistream.bench.framework.measurement import VALUE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.cell import RateCell, groups_of, open_cell, rate_cell
from semistream.bench.measurements.joins.saturated import PreparedStream
from semistream.bench.measurements.joins.steady import SteadyState, measure_steady
from semistream.bench.measurements.joins.times import measure_times
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.clock import HDD
from semistream.storage import MasterTable

__all__ = ["RateMeasurement", "rate_measurements"]

_COUNTED = ("rows_out", "steps", "seeks", "pages_read", "bytes_read", "cache_share")


@dataclass(frozen=True)
class RateMeasurement:
    """A cell, and its place in a figure."""

    cell: RateCell
    series: str
    x: float
    values: Mapping[str, str]  # to show, by group

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.series, *self.values, f"{self.x:g}") if part)

    @property
    def weight(self) -> float:
        return self.cell.weight

    def run(self, context: Context) -> list[Point]:
        cell, opened = self.cell, open_cell(self.cell, context)
        workload, table, budget_bytes = opened.workload, opened.table, opened.budget_bytes
        about: dict[str, Any] = {"workload": workload.name, "provenance": workload.provenance}
        try:
            op = opened.operator()
        except BudgetTooSmall as error:
            why = str(error).replace(table.path, "the table")  # results go to other machines
            return [Point(cell.algorithm, 0.0, {}, {**about, "budget_bytes": budget_bytes, "skipped": why})]
        with op:
            stream = PreparedStream(workload.stream(context.seed))
            steady = measure_steady(op, stream, table, cell.effort)
            if cell.arrival_share is not None:
                arrivals_per_s = cell.arrival_share * steady.rates[HDD.name]
                times = measure_times(op, stream, arrivals_per_s, cell.effort.lookup_tuples // 5, opened.is_scan)
                about["times"] = None if times is None else asdict(times)
        return [Point(cell.algorithm, 0.0, steady.rates, {**about, **_details(steady, table, budget_bytes)})]

    def placed(self, points: Sequence[Point]) -> list[Point]:
        [point] = points
        return [
            Point(self.series, self.x, _VALUES[value](point) if point.y else {}, point.details, group)
            for group, value in self.values.items()
        ]


def rate_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series at every place of the x axis.

    Parameters are arguments of the workload, options of the algorithm, fields of `Effort`, and ``page_bytes``,
    ``memory_share`` or ``memory_mb``, ``disk_buffer_kib``, ``measured_rows`` and ``arrival_share``. ``x`` lists the
    values of the parameter on the x axis; ``values`` has the value to show in each group; other lists span groups. A
    series may have its own parameters, and ``shown_as`` makes it part of another series.
    """
    values: Mapping[str, str] = parameters.get("values", {"": "rate"})
    for value in values.values():
        if value not in _VALUES:
            raise InvalidArgument(f"{spec.id} shows {value!r}, which is unknown: use one of {', '.join(_VALUES)}")
    by_place: dict[tuple[str, float], list[Measurement]] = {}  # series take turns at each
    for series, settings in spec.series.items():
        for group, there in groups_of({**parameters, **settings}):
            for x in there["x"]:
                cell = rate_cell({**there, spec.x.name: x})
                shown = {", ".join(part for part in (group, name) if part): value for name, value in values.items()}
                measurement = RateMeasurement(cell, settings.get("shown_as", series), x * spec.x.factor, shown)
                by_place.setdefault((group, x), []).append(measurement)
    return [measurement for place in by_place.values() for measurement in place]


def _details(steady: SteadyState, table: MasterTable, budget_bytes: int) -> dict[str, Any]:
    work, counted, warm_up = steady.work, steady.work.counted, steady.warm_up
    return {
        "budget_bytes": budget_bytes,
        "table_bytes": table.num_bytes,
        "peak_bytes": steady.peak.total_bytes,
        "peak_components_bytes": steady.peak.components,
        "tuples": work.tuples,
        **{name: getattr(work, name) for name in ("elapsed_s", "waited_s", "cpu_s")},
        **{name: getattr(counted, name) for name in _COUNTED},
        "scans": counted.bytes_read / table.num_bytes,
        "pages_per_1000_tuples": 1000 * counted.pages_read / max(1, work.tuples),
        "cpu_us_per_tuple": 1e6 * work.cpu_s / max(1, work.tuples),
        "tuples_per_s_with_cpu": {name: disk.tuples_per_s_with_cpu for name, disk in steady.disks.items()},
        "io_s": {name: disk.io_s for name, disk in steady.disks.items()},
        "is_steady": warm_up.is_steady,
        "warm_up_tuples": warm_up.tuples,
        "warm_up_s": warm_up.seconds,
        "warm_up_cache_shares": warm_up.cache_shares,
    }


def _part(point: Point, share: float) -> dict[str, float]:
    return {clock: share * rate for clock, rate in point.y.items()}


_VALUES: dict[str, Callable[[Point], dict[str, float]]] = {
    "rate": lambda point: point.y,
    "cache_rate": lambda point: _part(point, point.details["cache_share"]),
    "disk_rate": lambda point: _part(point, 1 - point.details["cache_share"]),
    "cache_share": lambda point: {VALUE: point.details["cache_share"]},
    "io_ms_per_seek": lambda point: {HDD.name: 1000 * point.details["io_s"][HDD.name] / max(1, point.details["seeks"])},
}
