"""Draws a result file: every figure as a multiple of its target, and the rates of a grid. Nothing is measured here."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from semistream.bench.cache.plot import draw_hit_ratios, hit_ratios_height
from semistream.bench.extras import import_extra
from semistream.bench.operators.plot import draw_rates, rates_height
from semistream.bench.punctuated.plot import curves_height, draw_curves
from semistream.bench.result_file import BenchResult, Entry
from semistream.bench.spark.plot import draw_times, times_height
from semistream.bench.tuning.plot import draw_timelines, timelines_height
from semistream.bench.validation.plot import draw_scatter, scatter_height
from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = ["plot_result"]

_MET, _MISSED, _NOT_JUDGED = "#2a7f62", "#c44536", "#8a8a8a"


class _Drawing(NamedTuple):
    """How the cells of a benchmark are drawn."""

    height: Callable[[BenchResult], float]
    draw: "Callable[[SubFigure, BenchResult], None]"


_DRAWINGS = {
    "operators": _Drawing(rates_height, draw_rates),
    "cache": _Drawing(hit_ratios_height, draw_hit_ratios),
    "spark": _Drawing(times_height, draw_times),
    "punctuated": _Drawing(curves_height, draw_curves),
    "validation": _Drawing(scatter_height, draw_scatter),
    "tuning": _Drawing(timelines_height, draw_timelines),
}


def plot_result(result: BenchResult, path: str | os.PathLike[str]) -> None:
    """Write a picture; the suffix of ``path`` chooses its format."""
    import_extra("matplotlib", "bench", "plotting")
    from matplotlib.figure import Figure

    was_measured = any(cell.get("skipped") is None for cell in result.cells)
    drawing = _DRAWINGS.get(result.benchmark) if was_measured else None
    heights = [drawing.height(result)] if drawing is not None else []
    if result.entries:
        heights.append(1.6 + 0.28 * len(result.entries))
    if not heights:
        raise InvalidArgument("the result has no figures: there is nothing to draw")
    figure = Figure(figsize=(10, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    if drawing is not None:
        drawing.draw(parts[0], result)
    if result.entries:
        _draw_targets(parts[-1].subplots(), result.entries)
    provenance = result.provenance
    commit = (provenance.commit or "no commit")[:10] + ("" if provenance.commit_is_clean else " with changes")
    title = f"{result.benchmark}: {provenance.cpu}, {provenance.cores} cores, {commit}"
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    try:
        figure.savefig(Path(path), dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot write a picture to {os.fspath(path)!r}: {error}") from None


def _draw_targets(axes: "Axes", of: Sequence[Entry]) -> None:
    entries = list(reversed(of))
    margins = [_margin(entry) for entry in entries]
    axes.barh(range(len(entries)), margins, color=[_color(entry) for entry in entries], height=0.7)
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.set_xscale("log")
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.set_xlim(min(0.5, *margins) / 1.3, max(2.0, *margins) * 4)
    axes.set_ylim(-0.7, len(entries) - 0.3)
    axes.set_yticks(range(len(entries)), [entry.name for entry in entries], fontsize=9)
    for row, (entry, margin) in enumerate(zip(entries, margins, strict=True)):
        label = f" {entry.value:.3g} ({entry.bound} {entry.target:g})"
        axes.text(max(margin, 1.0), row, label, va="center", fontsize=8)
    axes.set_xlabel(
        "how far the target is met (1 = just met, to the right = better)"
        if all(entry.judged for entry in entries)
        else "multiple of the target (grey = no verdict: not the size that the target speaks of)"
    )
    axes.spines[["top", "right"]].set_visible(False)


def _color(entry: Entry) -> str:
    return {True: _MET, False: _MISSED, None: _NOT_JUDGED}[entry.met]


def _margin(entry: Entry) -> float:
    ratio = entry.value / entry.target if entry.bound == "at least" else entry.target / max(entry.value, 1e-9)
    return min(max(ratio, 0.01), 100.0)
