"""Draws the times of a result file: one small picture per table, seconds a micro-batch over its rows."""

import statistics
from typing import TYPE_CHECKING

from semistream.bench.result_file import BenchResult

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

__all__ = ["draw_times", "times_height"]

_OURS_COLOR = "#c44536"
_COLORS = ("#8a8a8a", "#b5b5b5", "#4c72b0", "#dd8452", "#2a7f62", "#8172b3", "#937860")


def times_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 3.8


def draw_times(figure: "SubFigure", result: BenchResult) -> None:
    """Draw the tables side by side."""
    warm = [cell for cell in result.cells if cell["batch_s"] and not cell["is_cold"]]
    sizes = sorted({cell["rows"] for cell in warm})
    plans = list(dict.fromkeys(cell["plan"] for cell in warm))
    colors = dict(zip([plan for plan in plans if plan != "semistream"], _COLORS, strict=False))
    all_axes = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    for axes, rows in zip(all_axes, sizes, strict=True):
        for plan in plans:
            points = sorted(
                (cell["batch_rows"], statistics.median(cell["batch_s"]))
                for cell in warm
                if (cell["plan"], cell["rows"]) == (plan, rows)
            )
            if points:
                color = colors.get(plan, _OURS_COLOR)
                style = ":" if plan.startswith("identity") else "-"
                axes.plot(*zip(*points, strict=True), style, color=color, marker="o", markersize=3, label=plan)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"{rows:,} master rows", fontsize=9, loc="left")
        axes.set_xlabel("rows of a micro-batch", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].set_ylabel("seconds a micro-batch", fontsize=8)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=8, frameon=False)
