"""Draws the curves of the experiments: time, and tuples in the state, against outputs."""

from typing import TYPE_CHECKING, Any

from semistream.bench.punctuated.comparison import Curve
from semistream.bench.result_file import BenchResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = ["curves_height", "draw_curves"]

_COLORS = ("#4c72b0", "#dd8452", "#2a7f62", "#8a8a8a", "#b3273f", "#8c6bb1", "#1b2f5b")
_FIGURES = {"scheduling": "Fig. 8", "xjoin": "Fig. 9, 10", "purging": "Fig. 11", "choice": "choice"}
_HEIGHT = 2.9


def curves_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 0.3 + _HEIGHT * len({(cell["part"], cell.get("workload")) for cell in result.cells})


def draw_curves(figure: "SubFigure", result: BenchResult) -> None:
    """Draw a row for every experiment and pair of streams: time on the left, state on the right."""
    on_spark = [cell for cell in result.cells if cell["part"] == "spark"]
    curves = [Curve(**cell) for cell in result.cells if cell["part"] != "spark"]
    rows = list(dict.fromkeys((curve.part, curve.workload) for curve in curves))
    all_axes = figure.subplots(len(rows) + bool(on_spark), 2, squeeze=False)
    if on_spark:
        _draw_spark(all_axes[-1, 0], all_axes[-1, 1], on_spark)
        all_axes = all_axes[:-1]
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
        _dress((times, states), "rows of the output")


def _draw_spark(rates: "Axes", states: "Axes", courses: list[dict[str, Any]]) -> None:
    """Draw the smallest micro-batches, one line for each plan: tuples a second, and tuples in the state."""
    smallest = min(course["batch_tuples"] for course in courses)
    shown = {course["plan"]: course for course in courses if course["batch_tuples"] == smallest}
    for color, (plan, course) in zip(_COLORS, shown.items(), strict=False):
        tuples = [smallest * (number + 1) for number in range(len(course["batch_s"]))]
        rates.plot(
            tuples, [smallest / seconds for seconds in course["batch_s"]], color=color, linewidth=1.2, label=plan
        )
        states.plot(tuples, course["state_rows"], color=color, linewidth=1.2)
    states.set_yscale("symlog", linthresh=100)
    rates.set_title(f"Spark, auctions, batches of {smallest:,}: tuples a second", fontsize=8, loc="left")
    states.set_title("tuples in the state", fontsize=8, loc="left")
    rates.legend(fontsize=6, frameon=False)
    _dress((rates, states), "tuples that came")


def _dress(both: "tuple[Axes, Axes]", label: str) -> None:
    for axes in both:
        axes.set_xlabel(label, fontsize=7)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
