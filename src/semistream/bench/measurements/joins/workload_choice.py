"""Workloads by name, as the spec files choose them."""

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple

from semistream.core.errors import InvalidArgument
from semistream.workloads import (
    Workload,
    locality,
    repeated,
    ship_weather,
    skewed_master,
    synthetic,
    tpch,
    weather,
)

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

    def make(self, seed: int, real_data: Path | None, data_dir: Path | None = None) -> Workload:
        """Return the workload; real data need ``real_data``, and files that are generated ``data_dir``."""
        function = WORKLOADS[self.name]
        wanted = signature(function).parameters
        given = {"seed": seed, "real_data": real_data, "data_dir": data_dir}
        for name, what in (("real_data", "real data"), ("data_dir", "a folder for its files")):
            if name in wanted and given[name] is None:
                raise InvalidArgument(f"workload {self.name!r} needs {what}: give it with --{name.replace('_', '-')}")
        return function(**self.arguments, **{name: value for name, value in given.items() if name in wanted})


def choose_workload(parameters: Mapping[str, Any]) -> WorkloadChoice:
    """Return the workload that ``parameters`` name, with its arguments among them.

    Examples
    --------
    >>> choose_workload({"workload": "synthetic", "rows": 1000, "zipf_exponent": 1.0, "page_bytes": 4096}).arguments
    {'rows': 1000, 'zipf_exponent': 1.0}
    """
    name = parameters.get("workload", "synthetic")
    if name not in WORKLOADS:
        raise InvalidArgument(f"workload {name!r} is unknown: use one of {', '.join(WORKLOADS)}")
    known = [argument for argument in signature(WORKLOADS[name]).parameters if argument not in _GIVEN_BY_THE_RUN]
    return WorkloadChoice(name, {argument: parameters[argument] for argument in known if argument in parameters})
