"""The demonstration as a picture: answers over time, share from memory, memory by component."""

import io
from typing import TYPE_CHECKING

from semistream.bench.demo.run import DemoResult, JoinRun
from semistream.bench.framework.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["color_of", "draw"]

# A hue for each join, and its lighter shade for the same join behind a cache.
_RUN_COLORS = {
    "MESHJOIN": "#14588c",
    "CMESHJOIN": "#5ba7dd",
    "HYBRIDJOIN": "#237a3f",
    "CHYBRIDJOIN": "#6cc486",
    "INLJ": "#c26a10",
    "CINLJ": "#f0ab5c",
    "SSBJ": "#b3273f",
    "SWEEPJOIN": "#7d4fa8",
    "semistream, live": "#b3273f",
    "semistream": "#14588c",
}
_OTHER_RUN_COLOR = "#777777"
# Other colours than those of the runs, because several runs have the same component. Neighbours differ in hue.
_COMPONENT_COLORS = (
    *("#6a4c93", "#b79fd6", "#2f8f8b", "#9fd6d2", "#8c3b60", "#d99bb8", "#6b705c", "#c8b88a"),
    *("#8a5a44", "#d9a38a", "#3d5a80", "#98b4d4", "#a3b18a", "#e0c341", "#4a4e69", "#c9ada7"),
)
_REST, _REST_COLOR = "other", "#b8b8b8"
_MARKED_POINTS = 60  # a shorter timeline, of micro-batches, marks its points


def color_of(name: str) -> str:
    """Return the colour of a run in the whole report."""
    return _RUN_COLORS.get(name, _OTHER_RUN_COLOR)


def draw(result: DemoResult) -> bytes:
    """Return the picture as PNG."""
    import_extra("matplotlib", "bench", "the report's picture")
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=(11.5, 8), layout="constrained")
    panels = figure.subplot_mosaic([["time", "time"], ["hits", "memory"]], width_ratios=(1, 1.3))
    _draw_timeline(panels["time"], result)
    _draw_hits(panels["hits"], result)
    _draw_memory(panels["memory"], result)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()


def _draw_timeline(axes: "Axes", result: DemoResult) -> None:
    for run in result.runs:
        seconds = [point.seconds for point in run.timeline]
        answered = [point.answered for point in run.timeline]
        label = f"{run.name}: {run.service_rate:,.0f} tuples/s"
        marker = "." if len(seconds) < _MARKED_POINTS else ""
        axes.plot(seconds, answered, color=color_of(run.name), linewidth=2, label=label, marker=marker)
        axes.plot(seconds[-1:], answered[-1:], color=color_of(run.name), marker="o", markersize=5)
    if any(run.paced for run in result.runs):
        step = max(1, result.spec.stream_tuples // 500)
        happened_s = result.spec.arrivals.times_s(0, result.spec.stream_tuples)[::step]
        arrived = range(0, result.spec.stream_tuples, step)
        axes.plot(happened_s, arrived, color="#222222", linewidth=1, linestyle=":", label="sales of the live stream")
    axes.legend(fontsize=9, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _finish(axes, "Tuples answered over time", "seconds")


def _draw_hits(axes: "Axes", result: DemoResult) -> None:
    for run in result.runs:
        points = [point for point in run.timeline if point.answered]
        if points[-1].from_memory:
            shares = [100 * point.from_memory / point.answered for point in points]
            axes.plot([point.answered for point in points], shares, color=color_of(run.name), linewidth=2)
            axes.plot(points[-1].answered, shares[-1], color=color_of(run.name), marker="o", markersize=5)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 104)  # a line at 100 shows whole
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=4)
    _finish(axes, "From memory, % so far", "tuples answered")


def _draw_memory(axes: "Axes", result: DemoResult) -> None:
    runs = [run for run in result.runs if run.components]  # the others do not report them
    bars = [run.name for run in runs]
    shown = [_large_components(run, result.budget_bytes) for run in runs]
    names = sorted({name: None for components in shown for name in components}, key=lambda name: name == _REST)
    start = [0.0] * len(bars)
    for number, name in enumerate(names):
        color = _REST_COLOR if name == _REST else _COMPONENT_COLORS[number % len(_COMPONENT_COLORS)]
        widths = [components.get(name, 0) / 2**20 for components in shown]
        axes.barh(bars, widths, left=start, color=color, height=0.55, label=name)
        start = [before + width for before, width in zip(start, widths, strict=True)]
    budget_mb = result.budget_bytes / 2**20
    axes.axvline(budget_mb, color="#222222", linewidth=1.4, linestyle="--")
    axes.set_xlim(0, budget_mb * 1.05)
    axes.invert_yaxis()
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    _finish(axes, "Memory by component", f"MB at the highest point, of a budget of {budget_mb:.3g} MB (dashed)")


def _large_components(run: JoinRun, budget_bytes: int) -> dict[str, int]:
    """Return the components that are visible in a bar, and the sum of the others."""
    large = {name: size for name, size in run.components.items() if size >= budget_bytes // 100}
    rest = sum(run.components.values()) - sum(large.values())
    return {**large, _REST: rest} if rest else large


def _finish(axes: "Axes", title: str, xlabel: str) -> None:
    axes.set_title(title, loc="left", fontsize=12)
    axes.set_xlabel(xlabel)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
