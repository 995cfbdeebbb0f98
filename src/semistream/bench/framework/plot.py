"""Draws a result file: a panel for each group and clock, and the targets. Nothing is measured here."""

import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from semistream.bench.framework.extras import import_extra
from semistream.bench.framework.measurement import VALUE, Point
from semistream.bench.framework.result_file import Result
from semistream.bench.framework.spec import Spec
from semistream.bench.framework.targets import Judged, judge_targets
from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = ["plot_result"]

_COLORS = (
    *("#4c72b0", "#c44536", "#2a7f62", "#dd8452", "#7b5ea7", "#8a8a8a", "#1b2f5b", "#b07aa1", "#937860", "#3f3f3f"),
    *("#d4a017", "#17a2b8", "#e377c2", "#6aa84f"),
)
_MARKERS = "osD^vPX*<>"
_WIDTH, _HEIGHT = 5.2, 3.4
_MOST_IN_A_PANEL = 6  # series in the legend of a panel; more get one legend for all panels
_CHARACTERS = 60  # of all ticks below a panel
_PREDICTED, _MEASURED = " predicted", " measured"
_VERDICT_COLORS = {True: "#2a7f62", False: "#c44536", None: "#8a8a8a"}


def plot_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a picture; the suffix of ``path`` chooses its format."""
    import_extra("matplotlib", "bench", "plotting")
    from matplotlib.figure import Figure

    spec = result.spec_as_run
    points = []
    for point in result.points:
        finite = {clock: value for clock, value in point.y.items() if math.isfinite(value)}
        if finite:
            points.append(replace(point, y=finite))
    if not points:
        raise InvalidArgument(f"the result of {result.benchmark} has no points: there is nothing to draw")
    panels = _panels(points)
    cells = [(group, clock) for group, clocks in panels.items() for clock in clocks]
    columns = min(_columns(panels), len(cells))
    rows = -(-len(cells) // columns)
    judged = [line for line in judge_targets(result) if line.value is not None and line.target.has_limit]
    heights = [_HEIGHT * rows + 1.3] + ([1.6 + 0.28 * len(judged)] if judged else [])
    figure = Figure(figsize=(max(6.0, _WIDTH * columns), sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    all_axes = parts[0].subplots(rows, columns, squeeze=False)
    styles = {name: at for at, name in enumerate(dict.fromkeys(_base(point.series) for point in points))}
    for axes, (group, clock) in zip(all_axes.flat, cells, strict=False):
        _draw_panel(axes, spec, [point for point in points if point.group == group], clock, styles)
    for axes in all_axes.flat[len(cells) :]:
        axes.set_visible(False)
    if len(styles) > _MOST_IN_A_PANEL:
        _draw_legend(parts[0], all_axes.flat)
    else:
        for axes in all_axes.flat[: len(cells)]:
            if axes.get_legend_handles_labels()[1]:
                axes.legend(fontsize=8, frameon=False)
    if judged:
        _draw_targets(parts[1].subplots(), judged)
    figure.suptitle(_heading(result, spec, 95 if columns > 1 else 60), fontsize=10, x=0.01, ha="left")
    try:
        figure.savefig(Path(path), dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot write a picture to {os.fspath(path)!r}: {error}") from None


def _base(series: str) -> str:
    """Return the name that a measured series and its prediction share."""
    return series.removesuffix(_PREDICTED).removesuffix(_MEASURED)


def _panels(points: list[Point]) -> dict[str, list[str]]:
    """Return the clocks of every group, in order of appearance."""
    panels: dict[str, dict[str, None]] = {}
    for point in points:
        panels.setdefault(point.group, {}).update(dict.fromkeys(point.y))
    return {group: list(clocks) for group, clocks in panels.items()}


def _columns(panels: dict[str, list[str]]) -> int:
    """Return the number of panels side by side; the two clocks of a group stand side by side."""
    clocks = max(len(clocks) for clocks in panels.values())
    if clocks <= 2 and len(panels) > 6:
        return 4
    return min(3, clocks) if clocks > 1 else 3 if len(panels) > 4 else 2


def _draw_panel(axes: "Axes", spec: Spec, points: list[Point], clock: str, styles: dict[str, int]) -> None:
    group = points[0].group
    title = ": ".join(part for part in (group, "" if clock == VALUE else clock) if part)
    axes.set_title(title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if len({point.x for point in points}) == 1 and spec.x.text(points[0].x) not in spec.x.ticks:
        _draw_bars(axes, spec, [point for point in points if clock in point.y], clock, styles)
        return
    for series in dict.fromkeys(point.series for point in points):
        line = sorted((point.x, point.y[clock]) for point in points if point.series == series and clock in point.y)
        if not line:
            continue
        xs, ys = zip(*line, strict=True)
        number = styles[_base(series)]
        marker = _MARKERS[number % len(_MARKERS)] if len(line) <= 40 else ""
        style = "none" if not spec.has_lines else "--" if series.endswith(_PREDICTED) else "-"
        color = _COLORS[number % len(_COLORS)]
        axes.plot(xs, ys, linestyle=style, color=color, marker=marker, markersize=4, label=series)
    shown = sorted({point.x for point in points})
    if spec.x.log and shown[0] > 0:
        axes.set_xscale("log")
    if spec.x.ticks or (spec.x.log and shown[0] > 0 and len(shown) <= 12):
        texts = [spec.x.text(x) for x in shown]
        is_crowded = len(texts) * max(map(len, texts)) > _CHARACTERS
        axes.set_xticks(shown, texts, rotation=25 if is_crowded else 0, ha="right" if is_crowded else "center")
        axes.minorticks_off()
    values = [point.y[clock] for point in points if clock in point.y]
    if spec.y.log and 0 < 2 * min(values) < max(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(min(0.0, *values), 1.06 * max(values) if max(values) > 0 else None)
    axes.set_xlabel(spec.x.label_of(group), fontsize=9)
    axes.set_ylabel(spec.y.label_of(clock, group), fontsize=9)
    axes.tick_params(which="both", labelsize=8)


def _draw_legend(figure: "SubFigure", all_axes: "Iterable[Axes]") -> None:
    """Draw one legend for all panels; a prediction is the dashed line of its series."""
    handles: dict[str, Artist] = {}
    has_predictions = False
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            has_predictions |= label.endswith(_PREDICTED)
            if not label.endswith(_PREDICTED):
                handles.setdefault(_base(label), handle)
    title = "dashed: predicted" if has_predictions else None
    figure.legend(
        handles.values(), handles, loc="outside upper center", ncols=5, fontsize=8, frameon=False, title=title
    )


def _draw_bars(axes: "Axes", spec: Spec, points: list[Point], clock: str, styles: dict[str, int]) -> None:
    """Draw series that have only one x."""
    values = [point.y[clock] for point in points]
    colors = [_COLORS[styles[_base(point.series)] % len(_COLORS)] for point in points]
    bars = axes.barh(range(len(points)), values, color=colors, height=0.6)
    axes.bar_label(bars, [f" {value:,.0f}" if abs(value) >= 1000 else f" {value:.3g}" for value in values], fontsize=8)
    axes.set_xlim(min(0.0, *values), 1.2 * max(values) if max(values) > 0 else None)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_yticks(range(len(points)), [point.series for point in points])
    x, group = points[0].x, points[0].group
    axes.set_xlabel(f"{spec.y.label_of(clock, group)}, at {spec.x.text(x)} {spec.x.label_of(group)}", fontsize=9)
    axes.tick_params(labelsize=8)


def _draw_targets(axes: "Axes", judged: Sequence[Judged]) -> None:
    """Draw every line as a multiple of its limit; it is met to the right of 1."""
    lines = list(reversed(judged))
    margins = [_margin(line) for line in lines]
    axes.barh(range(len(lines)), margins, color=[_VERDICT_COLORS[line.met] for line in lines], height=0.7)
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.set_xscale("log")
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.xaxis.set_minor_formatter("")
    axes.set_xlim(min(0.5, *margins) / 1.3, max(2.0, *margins) * 4)
    axes.set_ylim(-0.7, len(lines) - 0.3)
    axes.set_yticks(range(len(lines)), [line.name for line in lines], fontsize=8)
    for row, (line, margin) in enumerate(zip(lines, margins, strict=True)):
        axes.text(max(margin, 1.0), row, f" {line.value:.3g} ({line.target.bound})", va="center", fontsize=8)
    all_judged = all(line.met is not None for line in lines)
    remark = "1 = just met, to the right = better" if all_judged else "grey = no verdict: not the size of the target"
    axes.set_xlabel(f"multiple of the target ({remark})", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _margin(line: Judged) -> float:
    assert line.value is not None
    if math.isnan(line.value):
        return 0.01
    limit, value = line.target.limit, max(line.value, 1e-9)
    return min(max(value / limit if line.target.least is not None else limit / value, 0.01), 100.0)


def _heading(result: Result, spec: Spec, width: int) -> str:
    provenance = result.provenance
    commit = (provenance.commit or f"version {provenance.semistream}")[:10]
    about = f"The paper: {spec.about}" if spec.is_figure else spec.about
    title = f"{result.benchmark}: {spec.title} (scale {result.scale}{'' if result.is_complete else ', unfinished'})"
    return "\n".join([title, *textwrap.wrap(about, width), f"{provenance.cpu}, {provenance.cores} cores, {commit}"])
