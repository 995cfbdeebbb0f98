"""The spec files of the figures: what each shows, what the paper claims, and how large it is at each scale."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from types import ModuleType
from typing import Any

from semistream.bench.extras import import_extra
from semistream.core.errors import InvalidArgument

__all__ = ["SCALES", "Axis", "FigureSpec", "figure_ids", "load_figure"]

SCALES = ("ci", "laptop", "paper")
"""Seconds, minutes, and the papers' own sizes."""

_SPECS = "specs"
_DEFAULTS = "defaults.toml"


@dataclass(frozen=True)
class Axis:
    """An axis of a figure.

    Attributes
    ----------
    name
        Of the parameter that varies along it; the y axis has none.
    factor
        What its values are multiplied by, so that they are in ``unit``.
    labels
        Instead of ``label``, for groups that show something else.
    """

    label: str
    name: str = ""
    unit: str = ""
    log: bool = False
    factor: float = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)

    def label_of(self, group: str = "") -> str:
        """Return the label with its unit."""
        label = self.labels.get(group, self.label)
        return f"{label} ({self.unit})" if self.unit else label


@dataclass(frozen=True)
class FigureSpec:
    """A figure of a paper, as it is measured here.

    Attributes
    ----------
    id
        The paper and the figure's number there, such as S0-5a.
    lines
        Where the paper describes it.
    kind
        Which measurements it is made of; see `semistream.bench.figures.kinds`.
    claim
        What the paper says it shows.
    series
        The settings of every series, by its name.
    scales
        The parameters at each scale, those included that all scales share.

    Examples
    --------
    >>> load_figure("S0-5a").x.label_of()
    'memory (% of R)'
    """

    id: str
    paper: str
    lines: str
    title: str
    kind: str
    claim: str
    x: Axis
    y: Axis
    series: Mapping[str, Mapping[str, Any]]
    scales: Mapping[str, Mapping[str, Any]]

    def parameters(self, scale: str) -> dict[str, Any]:
        """Return the parameters at ``scale``."""
        if scale not in self.scales:
            raise InvalidArgument(f"scale {scale!r} is unknown: use one of {', '.join(map(repr, self.scales))}")
        return dict(self.scales[scale])

    def as_run(self, scale: str) -> dict[str, Any]:
        """Return the spec as it stands in a result file: with the parameters of one scale."""
        content = {name: value for name, value in asdict(self).items() if name != "scales"}
        return {**content, "parameters": self.parameters(scale)}

    @staticmethod
    def from_run(content: Mapping[str, Any], scale: str) -> "FigureSpec":
        """Return what `as_run` was called on, with that one scale."""
        parts = {name: value for name, value in content.items() if name not in ("parameters", "x", "y")}
        return FigureSpec(
            **parts, x=Axis(**content["x"]), y=Axis(**content["y"]), scales={scale: content["parameters"]}
        )


def figure_ids() -> list[str]:
    """Return the figures that there are, paper by paper.

    Examples
    --------
    >>> "S0-5a" in figure_ids()
    True
    """
    names = [entry.name for entry in _folder().iterdir() if entry.name.endswith(".toml") and entry.name != _DEFAULTS]
    return sorted((name.removesuffix(".toml") for name in names), key=_order)


def load_figure(figure_id: str) -> FigureSpec:
    """Return the spec of a figure."""
    if figure_id not in figure_ids():
        raise InvalidArgument(f"figure {figure_id!r} is unknown: use one of {', '.join(figure_ids())}")
    content = _read(f"{figure_id}.toml")
    defaults = _read(_DEFAULTS).get(content.get("kind", ""), {})
    try:
        scales = content.pop("scale")
        shared = content.pop("parameters", {})
        spec = FigureSpec(
            **{**content, "x": Axis(**content["x"]), "y": Axis(**content["y"])},
            scales={scale: {**defaults.get(scale, {}), **shared, **scales[scale]} for scale in SCALES},
        )
    except (KeyError, TypeError) as error:
        raise InvalidArgument(f"the spec file of figure {figure_id} is not complete: {error}") from None
    if spec.id != figure_id:
        raise InvalidArgument(f"the spec file of figure {figure_id} says that it is {spec.id!r}: correct its id")
    return spec


def _folder() -> Any:
    return files("semistream.bench.figures") / _SPECS


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = _toml().loads((_folder() / name).read_text(encoding="utf-8"))
    return content


def _toml() -> ModuleType:
    return import_extra("tomllib" if sys.version_info >= (3, 11) else "tomli", "bench", "reading the figures' specs")


def _order(figure_id: str) -> tuple[str, int, str]:
    """Return what figures are sorted by: the paper, then the number and the letter."""
    paper, _, figure = figure_id.partition("-")
    digits = "".join(character for character in figure if character.isdigit())
    return paper, int(digits or 0), figure
