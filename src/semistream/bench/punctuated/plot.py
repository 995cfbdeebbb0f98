"""Draws the curves of the experiments: time, and tuples in the state, against outputs."""

from typing import TYPE_CHECKING

from semistream.bench.punctuated.comparison import Curve
from semistream.bench.result_file import BenchResult

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

__all__ = ["curves_height", "draw_curves"]

_COLORS = ("#4c72b0", "#dd8452", "#2a7f62", "#8a8a8a", "#b3273f", "#8c6bb1", "#1b2f5b")
_FIGURES = {"scheduling": "Fig. 8", "xjoin": "Fig. 9, 10", "purging": "Fig. 11", "choice": "choice"}
_HEIGHT = 2.9


def curves_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 0.3 + _HEIGHT * len({(cell["part"], cell["workload"]) for cell in result.cells})


def draw_curves(figure: "SubFigure", result: BenchResult) -> None:
    """Draw a row for every experiment and pair of streams: time on the left, state on the right."""
    curves = [Curve(**cell) for cell in result.cells]
    rows = list(dict.fromkeys((curve.part, curve.workload) for curve in curves))
    all_axes = figure.subplots(len(rows), 2, squeeze=False)
    for (part, workload), (times, states) in zip(rows, all_axes, strict=True):
        shown = [curve for curve in curves if (curve.part, curve.workload) == (part, workload)]
        for color, curve in zip(_COLORS, shown, strict=False):
            times.plot(curve.outputs, curve.seconds, color=color, linewidth=1.2, label=curve.setting)
            states.plot(curve.outputs, curve.state_tuples, color=color, linewidth=1.2)
        if part != "xjoin":  # where curves cross is seen on an even scale
            times.set_yscale("log")
        times.set_title(f"{_FIGURES.get(part, part)}, {workload}: seconds", fontsize=8, loc="left")
        states.set_title("tuples in the state", fontsize=8, loc="left")
        times.legend(fontsize=6, frameon=False)
        for axes in (times, states):
            axes.set_xlabel("rows of the output", fontsize=7)
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
