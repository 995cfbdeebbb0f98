"""Draws the rates of a result file: one small picture per skew and clock, rate over memory."""

from typing import TYPE_CHECKING

from semistream.bench.operators.cells import CellResult
from semistream.bench.result_file import BenchResult
from semistream.cost.disk_profile import HDD

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import SubFigure

__all__ = ["COLORS", "draw_rates", "rates_height"]

COLORS = {
    "meshjoin": "#4c72b0",
    "cmeshjoin": "#1b2f5b",
    "hybridjoin": "#dd8452",
    "chybridjoin": "#8c3b0f",
    "inlj": "#8a8a8a",
    "cinlj": "#3f3f3f",
    "ssbj": "#2a7f62",
    "sweepjoin": "#b3273f",
}
"""By algorithm, in all drawings."""

_STYLES = {"heap": "-", "clustered": "--"}
_HEIGHT = 2.7


def rates_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 0.6 + _HEIGHT * 2 * len({cell["cell"]["rows"] for cell in result.cells})


def draw_rates(figure: "SubFigure", result: BenchResult) -> None:
    """Draw both clocks of every table below each other, skews side by side."""
    results = [found for found in map(CellResult.from_dict, result.cells) if found.skipped is None]
    sizes = list(dict.fromkeys(found.cell.rows for found in results))
    skews = sorted({found.cell.skew for found in results})
    shares_shown = sorted({100 * share for share in result.spec["memory_shares"]})
    all_axes = figure.subplots(2 * len(sizes), len(skews), squeeze=False, sharex=True, sharey="row")
    for at, rows in enumerate(sizes):
        for clock, label in enumerate((f"{HDD.name}, I/O", "this machine")):
            for axes, skew in zip(all_axes[2 * at + clock], skews, strict=True):
                lines = _lines(
                    [found for found in results if (found.cell.rows, found.cell.skew) == (rows, skew)], clock
                )
                for (name, layout), points in lines.items():
                    shares, rates = zip(*points, strict=True)
                    color = COLORS.get(name, "#b07aa1")
                    axes.plot(
                        shares, rates, _STYLES[layout], color=color, marker="o", markersize=3, label=f"{name}, {layout}"
                    )
                axes.set_xscale("log")
                axes.set_yscale("log")
                axes.spines[["top", "right"]].set_visible(False)
                axes.set_title(f"{rows:,} rows, skew {skew:g}: {label}", fontsize=8, loc="left")
                axes.set_xticks(shares_shown, [f"{share:g}" for share in shares_shown])
                axes.minorticks_off()
                axes.tick_params(labelsize=7)
            all_axes[2 * at + clock][0].set_ylabel("tuples per second", fontsize=8)
    for axes in all_axes[-1]:
        axes.set_xlabel("memory, % of the table", fontsize=8)
    handles: dict[str, Artist] = {}
    for axes in all_axes.flat:
        handles.update(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)


def _lines(results: list[CellResult], clock: int) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return (memory in percent, rate) of every algorithm and layout, by rising memory."""
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for found in sorted(results, key=lambda found: found.cell.memory_share):
        rate = found.tuples_per_s if clock else found.disk(HDD.name).tuples_per_s
        point = (100 * found.cell.memory_share, rate)
        lines.setdefault((found.cell.algorithm, found.cell.layout), []).append(point)
    return lines
