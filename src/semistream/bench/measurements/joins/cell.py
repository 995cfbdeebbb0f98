"""A cell: one operator on one workload, with one budget; described by parameters, and opened with its table staged."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from semistream.bench.framework.measurement import Context, check_least
from semistream.bench.measurements.joins.saturated import PreparedStream
from semistream.bench.measurements.joins.steady import (
    Effort,
    SteadyState,
    is_lookup,
    is_scan,
    make_operator,
    measure_steady,
)
from semistream.core.errors import InvalidArgument
from semistream.cost.calibration.yardstick import Yardstick
from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable
from semistream.workloads import Workload, locality, repeated, ship_weather, skewed_master, synthetic, tpch, weather

__all__ = ["OpenCell", "RateCell", "groups_of", "open_cell", "rate_cell"]

_TEXTS = {"rows": "{:,} rows", "zipf_exponent": "skew {:g}"}
_LARGEST_BLOCK_TUPLES = 1 << 20
_BYTES_PER_MB = 1 << 20
_EFFORTS = tuple(field.name for field in fields(Effort))
_OF_THE_SPEC = ("x", "values", "workload", "rows", "shown_as")  # the rows of real data are what they are
_OF_THE_CELL = ("algorithm", "layout", "page_bytes", "memory_share", "memory_mb", "arrival_share")
_TURNED_INTO_OTHERS = ("disk_buffer_kib", "measured_rows")


def _ship_weather(*, split: Literal["B", "C", "G"], real_data: Path) -> Workload:
    return ship_weather(real_data / "ship_weather", split=split)


def _tpch(*, scale_factor: float, data_dir: Path) -> Workload:
    return tpch(scale_factor, data_dir)


_WORKLOADS: dict[str, Callable[..., Workload]] = {
    "synthetic": synthetic,
    "repeated": repeated,
    "skewed_master": skewed_master,
    "locality": locality,
    "weather": weather,
    "ship_weather": _ship_weather,
    "tpch": _tpch,
}
"""Functions that return a workload. Their arguments are parameters of a spec, except those that the run gives."""

_GIVEN_BY_THE_RUN = ("seed", "real_data", "data_dir")


class WorkloadChoice(NamedTuple):
    """The name and arguments of a workload, which is made when it is measured."""

    name: str
    arguments: dict[str, Any]

    def make(self, context: Context) -> Workload:
        """Return the workload; real data, and files that are generated, need their folders."""
        function = _WORKLOADS[self.name]
        wanted = signature(function).parameters
        given = {"seed": context.seed, "real_data": context.shared_data, "data_dir": context.data_dir}
        if "real_data" in wanted and context.shared_data is None:
            raise InvalidArgument(f"workload {self.name!r} needs real data: give it with --real-data")
        return function(**self.arguments, **{name: value for name, value in given.items() if name in wanted})


def _choose_workload(parameters: Mapping[str, Any]) -> WorkloadChoice:
    """Return the workload that ``parameters`` name, with its arguments among them."""
    name = parameters.get("workload", "synthetic")
    if name not in _WORKLOADS:
        raise InvalidArgument(f"workload {name!r} is unknown: use one of {', '.join(_WORKLOADS)}")
    known = [argument for argument in signature(_WORKLOADS[name]).parameters if argument not in _GIVEN_BY_THE_RUN]
    return WorkloadChoice(name, {argument: parameters[argument] for argument in known if argument in parameters})


@dataclass(frozen=True, kw_only=True)
class RateCell:
    """One operator on one workload and budget, which is a share of the table's bytes or a number of bytes.

    With an ``arrival_share`` of the rate, processing and waiting time are measured too, on the disk's clock.
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
        """Its approximate time in seconds."""
        if is_lookup(self.algorithm):
            return 2.0 + self.effort.lookup_tuples / 2000
        rows = int(self.workload.arguments.get("rows", 1_000_000))
        windows = self.effort.most_warm_up_scans + self.effort.measured_windows * (3 if self.algorithm == "ssbj" else 1)
        return 2.0 + windows * rows * (0.2e-6 if is_scan(self.algorithm, self.layout) else 0.4e-6)

    def __str__(self) -> str:
        memory = f"{self.memory_bytes:,} bytes" if self.memory_share is None else f"{100 * self.memory_share:.3g}% of R"
        options, of_workload = (
            "".join(f", {name} {value}" for name, value in given.items())
            for given in (self.options, self.workload.arguments)
        )
        return f"{self.algorithm} on {self.layout}, {self.workload.name}{of_workload}, memory {memory}{options}"


def rate_cell(parameters: Mapping[str, Any], own: Collection[str] = ()) -> RateCell:
    """Return the cell of these parameters, from which those of the kind, ``own``, are left out."""
    parameters = {name: value for name, value in parameters.items() if name not in own}
    name = parameters["algorithm"]
    workload = _choose_workload(parameters)
    option_names = algorithm(name).option_names
    options = {option: parameters[option] for option in option_names if option in parameters}
    if "disk_buffer_kib" in parameters:
        options["b"] = max(1, parameters["disk_buffer_kib"] * 1024 // parameters["page_bytes"])
    known = {*_EFFORTS, *_OF_THE_SPEC, *_OF_THE_CELL, *_TURNED_INTO_OTHERS, *workload.arguments, *option_names}
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


class OpenCell(NamedTuple):
    """A cell with its workload, staged table and budget."""

    cell: RateCell
    workload: Workload
    table: MasterTable
    budget_bytes: int
    seed: int

    @property
    def is_scan(self) -> bool:
        """Whether the operator reads R from end to end."""
        return is_scan(self.cell.algorithm, self.cell.layout)

    def operator(self, budget_bytes: int | None = None, **options: Any) -> StepOperator:
        """Return the operator; raise `BudgetTooSmall` if it needs more memory."""
        options = {**self.cell.options, **options}
        budget_bytes = budget_bytes or self.budget_bytes
        return make_operator(self.cell.algorithm, self.table, budget_bytes, self.workload, **options)

    def stream(self) -> PreparedStream:
        """Return the endless stream, the same for every algorithm."""
        block_tuples = min(_LARGEST_BLOCK_TUPLES, 4 * self.workload.num_rows)
        return PreparedStream(self.workload.stream(self.seed), block_tuples)

    def measure(
        self, budget_bytes: int | None = None, yardstick: Yardstick | None = None, **options: Any
    ) -> SteadyState:
        """Measure the operator in its steady state, in turns with a yardstick if there is one."""
        with self.operator(budget_bytes, **options) as op:
            return measure_steady(op, self.stream(), self.table, self.cell.effort, yardstick)


def open_cell(cell: RateCell, context: Context) -> OpenCell:
    """Return the cell with its table staged."""
    workload = cell.workload.make(context)
    table = context.table(workload, cell.layout, cell.page_bytes)
    budget_bytes = cell.memory_bytes or int(table.num_bytes * (cell.memory_share or 0.0))
    context.report(str(cell))
    return OpenCell(cell, workload, table, budget_bytes, context.seed)


def groups_of(parameters: Mapping[str, Any], lists: Collection[str] = ("x",)) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the parameters of every group: each combination of values of parameters that are lists.

    The parameters in ``lists`` stay lists in every group.
    """
    axes = {name: value for name, value in parameters.items() if isinstance(value, list) and name not in lists}
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        texts = [_TEXTS.get(name, f"{name} {{}}").format(value) for name, value in chosen.items()]
        yield ", ".join(texts), {**parameters, **chosen}
