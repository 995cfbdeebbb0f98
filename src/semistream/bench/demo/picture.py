"""The demonstration as a picture: tuples answered over time, share through the cache, memory by component."""

import io
from typing import TYPE_CHECKING

from semistream.bench.demo.run import DemoResult, JoinRun
from semistream.bench.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["color_of", "draw"]

# A hue for each join, and its lighter shade for the same join behind a cache.
_RUN_COLORS = {
    "meshjoin": "#14588c",
    "cmeshjoin": "#5ba7dd",
    "hybridjoin": "#237a3f",
    "chybridjoin": "#6cc486",
    "inlj": "#c26a10",
    "cinlj": "#f0ab5c",
    "ssbj": "#b3273f",
    "sweepjoin": "#7d4fa8",
}
_OTHER_RUN_COLOR = "#666666"
# None of the algorithms' colours: a component belongs to several.
_COMPONENT_COLORS = ("#6a4c93", "#b79fd6", "#2f8f8b", "#9fd6d2", "#8c3b60", "#d99bb8", "#6b705c", "#c8b88a", "#8a5a44")
_REST, _REST_COLOR = "other", "#b8b8b8"


def color_of(algorithm: str) -> str:
    """Return the colour that an algorithm has in the whole report."""
    return _RUN_COLORS.get(algorithm, _OTHER_RUN_COLOR)


def draw(result: DemoResult) -> bytes:
    """Return the picture as PNG."""
    import_extra("matplotlib", "bench", "the report's picture")
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=(11.5, 8), layout="constrained")
    panels = figure.subplot_mosaic([["time", "time"], ["cache", "memory"]], width_ratios=(1, 1.5))
    _draw_timeline(panels["time"], result)
    _draw_cache(panels["cache"], result)
    _draw_memory(panels["memory"], result)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()


def _draw_timeline(axes: "Axes", result: DemoResult) -> None:
    for run in result.runs:
        seconds, answered = zip(*run.timeline, strict=True)
        label = f"{run.algorithm.upper()}: {run.service_rate:,.0f} tuples/s"
        axes.plot(seconds, answered, color=color_of(run.algorithm), linewidth=2, label=label)
        axes.plot(seconds[-1:], answered[-1:], color=color_of(run.algorithm), marker="o", markersize=5)
    axes.set_xlim(0, max(run.busy_s for run in result.runs) * 1.03)
    axes.set_ylim(0, max(run.metrics.tuples_answered for run in result.runs) * 1.05)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("seconds inside the operator")
    axes.set_title("Tuples answered over time", loc="left", fontsize=12)
    axes.legend(fontsize=9, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    _tidy(axes)


def _draw_cache(axes: "Axes", result: DemoResult) -> None:
    names = [run.algorithm.upper() for run in result.runs]
    shares = [100 * run.metrics.cache_share for run in result.runs]
    bars = axes.barh(names, shares, color=[color_of(run.algorithm) for run in result.runs], height=0.55)
    axes.bar_label(bars, [f"{share:.0f}%" if share else "no cache" for share in shares], padding=4, fontsize=9)
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    axes.set_xlabel("% of the answered tuples")
    axes.set_title("Share through the cache", loc="left", fontsize=12)
    _tidy(axes)


def _draw_memory(axes: "Axes", result: DemoResult) -> None:
    names = list(dict.fromkeys(name for run in result.runs for name in _large_components(run)))
    names.sort(key=lambda name: name == _REST)
    bars = [run.algorithm.upper() for run in result.runs]
    start = [0.0] * len(bars)
    for number, name in enumerate(names):
        widths = [_large_components(run).get(name, 0) / 2**20 for run in result.runs]
        color = _REST_COLOR if name == _REST else _COMPONENT_COLORS[number % len(_COMPONENT_COLORS)]
        axes.barh(bars, widths, left=start, color=color, height=0.55, label=name)
        start = [before + width for before, width in zip(start, widths, strict=True)]
    budget_mb = result.runs[0].memory.budget_bytes / 2**20
    axes.axvline(budget_mb, color="#222222", linewidth=1.4, linestyle="--")
    axes.set_xlim(0, budget_mb * 1.05)
    axes.invert_yaxis()
    axes.set_xlabel(f"MB at the highest point, of a budget of {budget_mb:.3g} MB (dashed)")
    axes.set_title("Memory by component", loc="left", fontsize=12)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    _tidy(axes)


def _tidy(axes: "Axes") -> None:
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _large_components(run: JoinRun) -> dict[str, int]:
    """Return the components that can be seen in a bar; the others together."""
    least_bytes = run.memory.budget_bytes // 100
    components = {name: size for name, size in run.memory.components.items() if size >= least_bytes}
    rest = run.memory.total_bytes - sum(components.values())
    return {**components, _REST: rest} if rest else components
