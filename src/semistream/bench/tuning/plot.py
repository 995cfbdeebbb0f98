"""Draws a bursty stream and what both joins hold of it over time."""

from typing import TYPE_CHECKING, Any

from semistream.bench.result_file import BenchResult

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

__all__ = ["draw_timelines", "timelines_height"]

_COLORS = {"fixed": "#8a8a8a", "self-tuned": "#2a7f62"}


def timelines_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 5.5


def draw_timelines(figure: "SubFigure", result: BenchResult) -> None:
    """Draw rate, memory and waiting tuples below each other, time scales side by side."""
    kinds = list(dict.fromkeys(cell["bursts"] for cell in result.cells))
    all_axes = figure.subplots(3, len(kinds), squeeze=False, sharex="col")
    for column, kind in enumerate(kinds):
        cells = [cell for cell in result.cells if cell["bursts"] == kind]
        _draw_lines(all_axes[:, column], kind, cells)
    all_axes[1][0].legend(fontsize=8, frameon=False)


def _draw_lines(axes: Any, kind: str, cells: list[dict[str, Any]]) -> None:
    rate, memory, outside = axes
    rate.plot(cells[0]["at_s"], cells[0]["arrivals_per_s"], color="#4c72b0", linewidth=0.9)
    rate.set_title(f"{kind} bursts: tuples that arrive per second", fontsize=8, loc="left")
    for cell in cells:
        color = _COLORS[cell["join"]]
        megabytes = [held / 2**20 for held in cell["memory_bytes"]]
        memory.plot(cell["at_s"], megabytes, color=color, linewidth=1.1, label=cell["join"])
        outside.plot(cell["at_s"], cell["waiting_outside"], color=color, linewidth=0.9)
    memory.set_title("memory, MB", fontsize=8, loc="left")
    outside.set_title("tuples that wait outside for room", fontsize=8, loc="left")
    outside.set_xlabel("seconds on the 7200 rpm disk", fontsize=8)
    for each in axes:
        each.set_ylim(bottom=0)
        each.tick_params(labelsize=7)
        each.spines[["top", "right"]].set_visible(False)
