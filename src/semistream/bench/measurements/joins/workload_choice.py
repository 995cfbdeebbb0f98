"""Workloads by name, as the spec files choose them."""

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple

from semistream.bench.framework.measurement import Context
from semistream.core.errors import InvalidArgument
from semistream.workloads import Workload, locality, repeated, ship_weather, skewed_master, synthetic, tpch, weather

__all__ = ["WORKLOADS", "WorkloadChoice", "choose_workload"]


def _ship_weather(*, split: Literal["B", "C", "G"], real_data: Path) -> Workload:
    return ship_weather(real_data / "ship_weather", split=split)


def _tpch(*, scale_factor: float, data_dir: Path) -> Workload:
    return tpch(scale_factor, data_dir)


WORKLOADS: dict[str, Callable[..., Workload]] = {
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
        function = WORKLOADS[self.name]
        wanted = signature(function).parameters
        given = {"seed": context.seed, "real_data": context.shared_data, "data_dir": context.data_dir}
        if "real_data" in wanted and context.shared_data is None:
            raise InvalidArgument(f"workload {self.name!r} needs real data: give it with --real-data")
        return function(**self.arguments, **{name: value for name, value in given.items() if name in wanted})


def choose_workload(parameters: Mapping[str, Any]) -> WorkloadChoice:
    """Return the workload that ``parameters`` name, with its arguments among them."""
    name = parameters.get("workload", "synthetic")
    if name not in WORKLOADS:
        raise InvalidArgument(f"workload {name!r} is unknown: use one of {', '.join(WORKLOADS)}")
    known = [argument for argument in signature(WORKLOADS[name]).parameters if argument not in _GIVEN_BY_THE_RUN]
    return WorkloadChoice(name, {argument: parameters[argument] for argument in known if argument in parameters})
