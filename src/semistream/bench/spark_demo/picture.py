"""The demonstration on Spark as a picture: the stream and the batches, the cache, memory, and Spark's own join."""

import io
from typing import TYPE_CHECKING

from semistream.bench.extras import import_extra
from semistream.bench.spark_demo.run import SparkDemoResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

_OURS, _THEIRS, _PAGES = "#b3273f", "#8a8a8a", "#14588c"
_COMPONENTS = ("#6a4c93", "#b79fd6", "#2f8f8b", "#9fd6d2", "#8c3b60", "#d99bb8", "#6b705c", "#c8b88a")


def draw(result: SparkDemoResult) -> bytes:
    """Return the picture as PNG."""
    import_extra("matplotlib", "bench", "the report's picture")
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=(11.5, 8), layout="constrained")
    panels = figure.subplot_mosaic(
        [["stream", "stream"], ["cache", "memory"], ["beside", "memory"]], width_ratios=(1.4, 1)
    )
    _draw_stream(panels["stream"], result)
    _draw_cache(panels["cache"], result)
    _draw_memory(panels["memory"], result)
    _draw_beside(panels["beside"], result)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()


def _plain(axes: "Axes", title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _draw_stream(axes: "Axes", result: SparkDemoResult) -> None:
    ends = [batch.ended_s for batch in result.batches]
    axes.bar(ends, [batch.rows for batch in result.batches], width=0.35, color=_OURS, label="sales in the micro-batch")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("seconds", fontsize=8)
    times = axes.twinx()
    times.plot(ends, [batch.busy_s for batch in result.batches], color=_PAGES, marker="o", markersize=3)
    times.set_ylim(bottom=0)
    times.set_ylabel("seconds a micro-batch", fontsize=8, color=_PAGES)
    times.spines["top"].set_visible(False)
    _plain(axes, "The bursty stream, micro-batch by micro-batch")


def _draw_cache(axes: "Axes", result: SparkDemoResult) -> None:
    batches = range(len(result.batches))
    axes.plot(
        batches, [100 * batch.metrics.hit_ratio for batch in result.batches], color=_OURS, marker="o", markersize=3
    )
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of sales", fontsize=8)
    axes.set_xlabel("micro-batch", fontsize=8)
    _plain(axes, "Answered from the cache")


def _draw_memory(axes: "Axes", result: SparkDemoResult) -> None:
    fullest = max(result.batches, key=lambda batch: sum(task.memory_bytes for task in batch.metrics.tasks))
    parts: dict[str, int] = {}
    for task in fullest.metrics.tasks:
        for name, size in task.memory.items():
            parts[name] = parts.get(name, 0) + size
    bottom = 0.0
    for (name, size), color in zip(sorted(parts.items(), key=lambda part: -part[1]), _COMPONENTS * 3, strict=False):
        axes.bar([0], [size / 1e6], bottom=bottom, width=0.5, color=color, label=f"{name}: {size / 1e6:.1f} MB")
        bottom += size / 1e6
    axes.axhline(result.budget_bytes / 1e6, color="black", linewidth=1.2)
    axes.text(0.3, result.budget_bytes / 1e6, "budget", va="bottom", ha="left", fontsize=8)
    axes.set_xlim(-0.4, 0.9)
    axes.set_xticks([])
    axes.set_ylabel("MB of the executor", fontsize=8)
    axes.legend(fontsize=7, frameon=False, loc="center right")
    _plain(axes, "Memory where it was highest")


def _draw_beside(axes: "Axes", result: SparkDemoResult) -> None:
    names = list(reversed(result.beside))
    rates = [result.beside[name].rows_per_s for name in names]
    axes.barh(names, rates, color=[_OURS if name == "semistream" else _THEIRS for name in names], height=0.6)
    for row, rate in enumerate(rates):
        axes.text(rate, row, f" {rate:,.0f}", va="center", fontsize=8)
    axes.set_xlim(0, max(rates) * 1.25)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("sales per second, the same rows as fast as they are taken", fontsize=8)
    _plain(axes, "Beside Spark's own join with the Parquet table")
