"""Spec files: the measurements, axes and sizes of a benchmark at each scale.

Our benchmarks are in ``specs``, the figures of the papers in ``specs/papers``; both are read the same way.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Any

from semistream.bench.framework.extras import import_extra
from semistream.core.errors import InvalidArgument

__all__ = ["SCALES", "Axis", "Spec", "figure_ids", "load_spec", "read_toml", "spec_ids"]

SCALES = ("quick", "full", "laptop", "paper")
"""Seconds; the size of the targets; for figures minutes, and the papers' own sizes."""


@dataclass(frozen=True)
class Axis:
    """An axis; ``name`` is the parameter that varies along x.

    ``factor`` converts its values to ``unit``. ``labels`` are other labels, by the name of a group or a value.
    ``ticks`` name the places 0, 1, 2 and so on, if x is no number.
    """

    label: str
    name: str = ""
    unit: str = ""
    log: bool = False
    factor: float = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)
    ticks: tuple[str, ...] = ()

    def label_of(self, *shown: str) -> str:
        """Return the label with its unit; the first of ``shown`` that has a label of its own decides."""
        own = [self.labels[name] for name in shown if name in self.labels]
        label = own[0] if own else self.label
        return f"{label} ({self.unit})" if self.unit and not own else label

    def text(self, x: float) -> str:
        """Return a place on the axis as text."""
        is_tick = self.ticks and x == int(x) and 0 <= x < len(self.ticks)
        return self.ticks[int(x)] if is_tick else f"{x:,.0f}" if x == int(x) else f"{x:,.6g}"


@dataclass(frozen=True)
class Spec:
    """A benchmark or a figure of a paper.

    The id of a figure is the paper and its number there, such as S0-5a; ``place`` is the section that describes it. The
    kinds of measurements are in `semistream.bench.framework.runner`. ``series`` has the settings of every series by
    name, ``scales`` all parameters at each scale. ``has_lines`` says whether a line joins the points of a series.
    """

    id: str
    title: str
    kind: str
    about: str
    x: Axis
    y: Axis
    scales: Mapping[str, Mapping[str, Any]]
    series: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paper: str = ""
    place: str = ""
    needs_spark: bool = False
    has_lines: bool = True

    @property
    def is_figure(self) -> bool:
        return bool(self.paper)

    @property
    def scale_of_targets(self) -> str:
        """The default scale."""
        return "laptop" if self.is_figure else "full"

    def parameters(self, scale: str) -> dict[str, Any]:
        if scale not in self.scales:
            raise InvalidArgument(
                f"scale {scale!r} is unknown to {self.id}: use one of {', '.join(map(repr, self.scales))}"
            )
        return dict(self.scales[scale])

    def with_parameters(self, scale: str, given: Mapping[str, Any]) -> "Spec":
        """Return the spec with other values of some parameters at ``scale``; one value stands for a list of one."""
        known = self.parameters(scale)
        for name in given:
            if name not in known:
                raise InvalidArgument(f"parameter {name!r} is unknown to {self.id}: use one of {', '.join(known)}")
        values = {
            name: [value] if isinstance(known[name], list) and not isinstance(value, list) else value
            for name, value in given.items()
        }
        return replace(self, scales={**self.scales, scale: {**known, **values}})

    def has_size_of_targets(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a run with ``parameters`` has the size of the targets; lists may be shorter."""
        wanted = self.scales.get(self.scale_of_targets, {})

        def fits(value: Any, target: Any) -> bool:
            are_lists = isinstance(value, list) and isinstance(target, list)
            return value == target or (are_lists and bool(value) and all(each in target for each in value))

        return set(parameters) == set(wanted) and all(fits(value, wanted[name]) for name, value in parameters.items())

    def as_run(self, scale: str) -> dict[str, Any]:
        """Return the spec for a result file: with the parameters of one scale."""
        content = {name: value for name, value in asdict(self).items() if name != "scales"}
        as_read: dict[str, Any] = json.loads(json.dumps({**content, "parameters": self.parameters(scale)}))
        return as_read

    @staticmethod
    def from_run(content: Mapping[str, Any], scale: str) -> "Spec":
        """Return what `as_run` was called on, with that one scale."""
        # `lines` stands in older result files.
        parts = {name: value for name, value in content.items() if name not in ("parameters", "x", "y", "lines")}
        return Spec(**parts, x=_axis(content["x"]), y=_axis(content["y"]), scales={scale: content["parameters"]})


def spec_ids() -> list[str]:
    """Return our benchmarks by name."""
    return sorted(_names(""))


def figure_ids() -> list[str]:
    """Return the figures of the papers, paper by paper."""
    return sorted(_names("papers/"), key=_order)


def load_spec(spec_id: str) -> Spec:
    """Return the spec of a benchmark or a figure."""
    if spec_id in spec_ids():
        content, defaults = _read(f"{spec_id}.toml"), {}
    elif spec_id in figure_ids():
        content = _read(f"papers/{spec_id}.toml")
        defaults = _read("papers/defaults.toml").get(content.get("kind", ""), {})
    else:
        raise InvalidArgument(
            f"{spec_id!r} is no benchmark: use {', '.join(spec_ids())}, or a figure such as S0-5a; "
            "'semistream bench --list' shows them all"
        )
    try:
        scales = content.pop("scale")
        shared = content.pop("parameters", {})
        spec = Spec(
            **{**content, "x": _axis(content["x"]), "y": _axis(content["y"])},
            scales={
                scale: {**defaults.get(scale, {}), **shared, **scales[scale]} for scale in SCALES if scale in scales
            },
        )
    except (KeyError, TypeError) as error:
        raise InvalidArgument(f"the spec file of {spec_id} is not complete: {error}") from None
    if spec.id != spec_id:
        raise InvalidArgument(f"the spec file of {spec_id} says that it is {spec.id!r}: correct its id")
    return spec


def read_toml(text: str, source: str) -> dict[str, Any]:
    """Return the content of a TOML file; ``source`` names it in errors."""
    toml = import_extra("tomllib" if sys.version_info >= (3, 11) else "tomli", "bench", "reading spec files")
    try:
        content: dict[str, Any] = toml.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{source!r} is not TOML: {error}") from None
    return content


def _axis(content: Mapping[str, Any]) -> Axis:
    return Axis(**{**content, "ticks": tuple(content.get("ticks", ()))})


def _names(folder: str) -> list[str]:
    names = [path.name for path in (files("semistream.bench") / "specs" / folder).iterdir()]
    return [name.removesuffix(".toml") for name in names if name.endswith(".toml") and name != "defaults.toml"]


def _read(name: str) -> dict[str, Any]:
    return read_toml((files("semistream.bench") / "specs" / name).read_text(encoding="utf-8"), name)


def _order(figure_id: str) -> tuple[str, int, str]:
    """Return the sort key of a figure: the paper, then the number and the letter."""
    paper, _, figure = figure_id.partition("-")
    digits = "".join(character for character in figure if character.isdigit())
    return paper, int(digits or 0), figure
