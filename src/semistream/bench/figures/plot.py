"""Draws the result file of a figure. Nothing is measured here."""

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from semistream.bench.extras import import_extra
from semistream.bench.figures.figure_result import FigureResult
from semistream.bench.figures.point import Point
from semistream.bench.figures.spec import FigureSpec
from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_figure"]

_COLORS = ("#4c72b0", "#c44536", "#2a7f62", "#dd8452", "#7b5ea7", "#8a8a8a", "#1b2f5b", "#b07aa1")
_MARKERS = "osD^vPX*"
_WIDTH, _HEIGHT = 5.2, 3.4


def plot_figure(result: FigureResult, path: str | os.PathLike[str]) -> None:
    """Write a picture with a panel for each clock and group; the suffix of ``path`` chooses its format."""
    import_extra("matplotlib", "bench", "plotting")
    from matplotlib.figure import Figure

    spec = result.figure_spec
    points = [point for point in result.points if point.y]
    if not points:
        raise InvalidArgument(f"the result of figure {result.figure} has no points: there is nothing to draw")
    panels = _panels(points)
    columns = min(3, max(len(clocks) for clocks in panels.values()) * (1 if len(panels) > 1 else 2))
    cells = [(group, clock) for group, clocks in panels.items() for clock in clocks]
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    figure = Figure(figsize=(max(6.0, _WIDTH * columns), _HEIGHT * rows + 1.3), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False)
    styles = {series: number for number, series in enumerate(dict.fromkeys(point.series for point in points))}
    for axes, (group, clock) in zip(all_axes.flat, cells, strict=False):
        _draw_panel(axes, spec, [point for point in points if point.group == group], clock, styles)
    for axes in all_axes.flat[len(cells) :]:
        axes.set_visible(False)
    figure.suptitle(_heading(result, spec, 95 if columns > 1 else 60), fontsize=10, x=0.01, ha="left")
    try:
        figure.savefig(Path(path), dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot write a picture to {os.fspath(path)!r}: {error}") from None


def _panels(points: list[Point]) -> dict[str, list[str]]:
    """Return the clocks of every group, in the order in which they came."""
    panels: dict[str, dict[str, None]] = {}
    for point in points:
        panels.setdefault(point.group, {}).update(dict.fromkeys(point.y))
    return {group: list(clocks) for group, clocks in panels.items()}


def _draw_panel(axes: "Axes", spec: FigureSpec, points: list[Point], clock: str, styles: dict[str, int]) -> None:
    for series, number in styles.items():
        line = sorted((point.x, point.y[clock]) for point in points if point.series == series and clock in point.y)
        if not line:
            continue
        xs, ys = zip(*line, strict=True)
        marker = _MARKERS[number % len(_MARKERS)] if len(line) <= 60 else ""
        axes.plot(xs, ys, color=_COLORS[number % len(_COLORS)], marker=marker, markersize=4, label=series)
    shown = sorted({point.x for point in points})
    if spec.x.log and shown[0] > 0:
        axes.set_xscale("log")
        if len(shown) <= 12:
            axes.set_xticks(shown, [f"{x:g}" for x in shown])
            axes.minorticks_off()
    if spec.y.log and all(point.y.get(clock, 1) > 0 for point in points):
        axes.set_yscale("log")
    else:
        values = [point.y[clock] for point in points if clock in point.y]
        axes.set_ylim(min(0.0, *values), 1.06 * max(values) if max(values) > 0 else None)
    group = points[0].group
    title = ": ".join(part for part in (group, "" if clock == "value" else clock) if part)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(spec.x.label_of(group), fontsize=9)
    axes.set_ylabel(spec.y.label_of(group), fontsize=9)
    axes.tick_params(which="both", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)


def _heading(result: FigureResult, spec: FigureSpec, width: int) -> str:
    provenance = result.provenance
    commit = (provenance.commit or f"version {provenance.semistream}")[:10]
    lines = [
        f"{result.figure}: {spec.title} (scale {result.scale}{'' if result.is_complete else ', unfinished'})",
        *textwrap.wrap(f"The paper: {spec.claim}", width),
        f"{provenance.cpu}, {provenance.cores} cores, {commit}",
    ]
    return "\n".join(lines)
