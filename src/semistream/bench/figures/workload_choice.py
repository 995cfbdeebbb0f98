"""Workloads by name, as the spec files choose them."""

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from semistream.core.errors import InvalidArgument
from semistream.workloads import Workload, repeated, skewed_master, synthetic

__all__ = ["WORKLOADS", "WorkloadChoice", "choose_workload"]

WORKLOADS: dict[str, Callable[..., Workload]] = {
    "synthetic": synthetic,
    "repeated": repeated,
    "skewed_master": skewed_master,
}
"""Functions that return a workload. Their arguments are parameters of a spec, but for ``seed`` and ``real_data``."""

_GIVEN_BY_THE_RUN = ("seed", "real_data")


class WorkloadChoice(NamedTuple):
    """A workload that is made when it is measured."""

    name: str
    arguments: dict[str, Any]

    def make(self, seed: int, real_data: Path | None) -> Workload:
        """Return the workload; one of real data needs their folder."""
        function = WORKLOADS[self.name]
        given: dict[str, Any] = {}
        if "seed" in signature(function).parameters:
            given["seed"] = seed
        if "real_data" in signature(function).parameters:
            if real_data is None:
                raise InvalidArgument(f"workload {self.name!r} needs real data: give their folder with --real-data")
            given["real_data"] = real_data
        return function(**self.arguments, **given)


def choose_workload(parameters: Mapping[str, Any]) -> WorkloadChoice:
    """Return the workload that ``parameters`` name, with those of its arguments that they have.

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
