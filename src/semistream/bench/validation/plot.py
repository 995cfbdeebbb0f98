"""Draws predicted against measured: a small picture for loop cost and rate on each clock."""

from typing import TYPE_CHECKING

from semistream.bench.operators.plot import COLORS
from semistream.bench.result_file import BenchResult
from semistream.bench.validation.cells import CLOCKS, ValidatedCell

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = ["draw_scatter", "scatter_height"]

_MARKERS = {"heap": "o", "clustered": "^"}
_BOUND = 1.4  # of the worst error


def scatter_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 8.6


def draw_scatter(figure: "SubFigure", result: BenchResult) -> None:
    """Draw a point for every cell that was both measured and predicted; on the line both are equal."""
    cells = [ValidatedCell.from_dict(content) for content in result.cells]
    all_axes = figure.subplots(len(CLOCKS), 2, squeeze=False)
    for row, clock in zip(all_axes, CLOCKS, strict=True):
        for axes, what, unit in zip(row, ("tuples_per_s", "loop_s"), ("tuples per second", "s per loop"), strict=True):
            _draw(axes, [cell for cell in cells if cell.errors(clock)], clock, what)
            axes.set_title(f"{unit}, {clock}", fontsize=8, loc="left")
            axes.set_xlabel(f"measured, {unit}", fontsize=8)
            axes.set_ylabel(f"predicted, {unit}", fontsize=8)
    handles: dict[str, Artist] = {}
    for axes in all_axes.flat:
        handles.update(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)


def _draw(axes: "Axes", cells: list[ValidatedCell], clock: str, what: str) -> None:
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for found in cells:
        pair = (getattr(found.measured[clock], what), getattr(found.predicted[clock], what))
        points.setdefault((found.cell.algorithm, found.cell.layout), []).append(pair)
    for (name, layout), pairs in points.items():
        measured, predicted = zip(*pairs, strict=True)
        color = COLORS.get(name, "#b07aa1")
        axes.scatter(measured, predicted, s=14, color=color, marker=_MARKERS[layout], label=f"{name}, {layout}")
    values = [value for pairs in points.values() for pair in pairs for value in pair]
    if values:
        ends = [min(values) / 1.5, max(values) * 1.5]
        axes.plot(ends, ends, color="black", linewidth=0.8)
        axes.fill_between(ends, [end / _BOUND for end in ends], [end * _BOUND for end in ends], color="#00000012")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
