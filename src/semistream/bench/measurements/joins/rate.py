"""The kind ``rate``: an operator that never lacks tuples, in its steady state.

It shows the service rate on both clocks, or a part of it: the share of the cache, or what goes through one of the
phases. Figures that show different things of the same operators share their measurements.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from semistream.bench.framework.measurement import MACHINE, VALUE, Context, Measurement, Point
from semistream.bench.framework.parameters import check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.arrivals import measure_times
from semistream.bench.measurements.joins.groups import groups_of
from semistream.bench.measurements.joins.prepared_stream import PreparedStream
from semistream.bench.measurements.joins.steady import (
    Effort,
    SteadyState,
    is_lookup,
    is_scan,
    make_operator,
    measure_steady,
)
from semistream.bench.measurements.joins.workload_choice import WorkloadChoice, choose_workload
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.clock import HDD
from semistream.operators import algorithm
from semistream.storage import MasterTable

__all__ = ["RateCell", "RateMeasurement", "rate_cell", "rate_measurements"]

_BYTES_PER_MB = 1 << 20
_EFFORTS = tuple(field.name for field in fields(Effort))
_OF_THE_SPEC = ("x", "values", "workload", "rows", "shown_as")  # the rows of real data are what they are
_OF_THE_CELL = (
    "algorithm",
    "layout",
    "page_bytes",
    "memory_share",
    "memory_mb",
    "disk_buffer_kib",
    "measured_rows",
    "arrival_share",
)


@dataclass(frozen=True, kw_only=True)
class RateCell:
    """One operator on one workload and budget.

    Attributes
    ----------
    memory_share
        Of the table's bytes; None when the budget is ``memory_bytes``.
    arrival_share
        Processing and waiting time are measured as well, on the disk's clock, at this share of the rate; None leaves
        them out.
    """

    algorithm: str
    layout: str
    workload: WorkloadChoice
    page_bytes: int
    memory_share: float | None
    memory_bytes: int | None
    options: Mapping[str, Any]
    effort: Effort
    arrival_share: float | None = None

    @property
    def weight(self) -> float:
        """About how many seconds it takes."""
        if is_lookup(self.algorithm):
            return 2.0 + self.effort.lookup_tuples / 2000
        rows = int(self.workload.arguments.get("rows", 1_000_000))
        windows = self.effort.most_warm_up_scans + self.effort.measured_windows * (3 if self.algorithm == "ssbj" else 1)
        return 2.0 + windows * rows * (0.2e-6 if is_scan(self.algorithm, self.layout) else 0.4e-6)

    def __str__(self) -> str:
        memory = (
            f"{100 * self.memory_share:.3g}% of R" if self.memory_share is not None else f"{self.memory_bytes:,} bytes"
        )
        options = "".join(f", {name} {value}" for name, value in self.options.items())
        of_workload = "".join(f", {name} {value}" for name, value in self.workload.arguments.items())
        return f"{self.algorithm} on {self.layout}, {self.workload.name}{of_workload}, memory {memory}{options}"


@dataclass(frozen=True)
class RateMeasurement:
    """A cell, and where it stands.

    Attributes
    ----------
    values
        What of it is shown, by group.
    """

    cell: RateCell
    series: str
    x: float
    values: Mapping[str, str]

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.series, *self.values, f"{self.x:g}") if part)

    @property
    def weight(self) -> float:
        return self.cell.weight

    def run(self, context: Context) -> list[Point]:
        cell = self.cell
        workload = cell.workload.make(context.seed, context.shared_data, context.data_dir)
        table = context.table(workload, cell.layout, cell.page_bytes)
        budget_bytes = cell.memory_bytes or int(table.num_bytes * (cell.memory_share or 0.0))
        about: dict[str, Any] = {"workload": workload.name, "provenance": workload.provenance}
        context.report(str(cell))
        try:
            op = make_operator(cell.algorithm, table, budget_bytes, workload, **cell.options)
        except BudgetTooSmall as error:
            why = str(error).replace(table.path, "the table")  # results go to other machines
            return [Point(cell.algorithm, 0.0, {}, {**about, "budget_bytes": budget_bytes, "skipped": why})]
        with op:
            stream = PreparedStream(workload.stream(context.seed))
            steady = measure_steady(op, stream, table, cell.effort)
            if cell.arrival_share is not None:
                arrivals_per_s = cell.arrival_share * steady.disks[HDD.name].tuples_per_s
                least_tuples = cell.effort.lookup_tuples // 5
                times = measure_times(op, stream, arrivals_per_s, least_tuples, is_scan(cell.algorithm, cell.layout))
                about["times"] = None if times is None else asdict(times)
        rates = {MACHINE: steady.tuples_per_s, HDD.name: steady.disks[HDD.name].tuples_per_s}
        return [Point(cell.algorithm, 0.0, rates, {**about, **_details(steady, table, budget_bytes)})]

    def placed(self, points: Sequence[Point]) -> list[Point]:
        [point] = points
        return [
            Point(self.series, self.x, _VALUES[value](point) if point.y else {}, point.details, group)
            for group, value in self.values.items()
        ]


def rate_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series at every place of the x axis.

    Parameters are arguments of the workload, options of the algorithm, fields of `Effort`, and ``page_bytes``,
    ``memory_share`` or ``memory_mb``, ``disk_buffer_kib``, ``measured_rows`` and ``arrival_share``. ``x`` has the
    values of the parameter that the x axis is named for; ``values`` says what is shown, by group; other lists span
    groups. A series may have parameters of its own, and be part of another series: ``shown_as``.
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


def rate_cell(parameters: Mapping[str, Any]) -> RateCell:
    """Return the cell that ``parameters`` describe."""
    name = parameters["algorithm"]
    workload = choose_workload(parameters)
    option_names = algorithm(name).option_names
    options = {option: parameters[option] for option in option_names if option in parameters}
    if "disk_buffer_kib" in parameters:
        options["b"] = max(1, parameters["disk_buffer_kib"] * 1024 // parameters["page_bytes"])
    known = {*_EFFORTS, *_OF_THE_SPEC, *_OF_THE_CELL, *workload.arguments, *option_names}
    if unknown := [parameter for parameter in parameters if parameter not in known]:
        raise InvalidArgument(
            f"parameter {unknown[0]!r} belongs neither to {name} nor to the workload {workload.name!r}: leave it out"
        )
    efforts = {effort: parameters[effort] for effort in _EFFORTS if effort in parameters}
    if "measured_rows" in parameters:
        check_least(parameters, rows=1)
        efforts["measured_windows"] = max(1, round(parameters["measured_rows"] / parameters["rows"]))
    if isinstance(scans := efforts.get("most_warm_up_scans"), Mapping):
        efforts["most_warm_up_scans"] = scans.get(name, scans["others"])
    memory_mb = parameters.get("memory_mb")
    return RateCell(
        algorithm=name,
        layout=parameters["layout"],
        workload=workload,
        page_bytes=parameters["page_bytes"],
        memory_share=None if memory_mb is not None else parameters["memory_share"],
        memory_bytes=None if memory_mb is None else int(memory_mb * _BYTES_PER_MB),
        options=options,
        effort=Effort(**efforts),
        arrival_share=parameters.get("arrival_share"),
    )


def _details(steady: SteadyState, table: MasterTable, budget_bytes: int) -> dict[str, Any]:
    work, counted = steady.work, steady.work.counted
    return {
        "budget_bytes": budget_bytes,
        "table_bytes": table.num_bytes,
        "peak_bytes": steady.peak.total_bytes,
        "peak_components_bytes": steady.peak.components,
        "tuples": work.tuples,
        "rows_out": counted.rows_out,
        "elapsed_s": work.elapsed_s,
        "waited_s": work.waited_s,
        "cpu_s": work.cpu_s,
        "scans": counted.bytes_read / table.num_bytes,
        "steps": counted.steps,
        "seeks": counted.seeks,
        "pages_read": counted.pages_read,
        "bytes_read": counted.bytes_read,
        "cache_share": counted.cache_share,
        "pages_per_1000_tuples": steady.pages_per_1000_tuples,
        "cpu_us_per_tuple": steady.cpu_us_per_tuple,
        "tuples_per_s_with_cpu": {name: disk.tuples_per_s_with_cpu for name, disk in steady.disks.items()},
        "io_s": {name: disk.io_s for name, disk in steady.disks.items()},
        "is_steady": steady.warm_up.is_steady,
        "warm_up_tuples": steady.warm_up.tuples,
        "warm_up_s": steady.warm_up.seconds,
        "warm_up_cache_shares": steady.warm_up.cache_shares,
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
