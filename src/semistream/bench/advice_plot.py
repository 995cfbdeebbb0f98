"""Draws advice: the predicted rate of every algorithm against memory, with the recommendation marked."""

import math
import os
from pathlib import Path

import numpy as np

from semistream.bench.framework.extras import import_extra
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.advice.advice import Advice, Alternative
from semistream.cost.advice.tuner import highest_rate
from semistream.cost.clock import Clock

__all__ = ["draw_advice"]

_POINTS = 9
_SPAN = 8.0  # from an eighth to eight times the recommended memory, or to the given memory


def draw_advice(advice: Advice, path: Path) -> None:
    """Write a picture: one line for each algorithm on its best form of the table."""
    figure_module = import_extra("matplotlib.figure", "bench", "drawing advice")
    figure = figure_module.Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    best = advice.recommended
    marked_bytes = best.least_memory_bytes or best.prediction.budget_bytes
    most_bytes = max(marked_bytes * _SPAN, (advice.memory_bytes or 0) * 1.5)
    memories = np.geomspace(marked_bytes / _SPAN, most_bytes, _POINTS).astype(int).tolist()
    for each in _best_of_each_algorithm(advice):
        points = _curve(each, memories, advice.clock_used)
        if points:
            label = f"{each.algorithm}, {each.layout}, {each.page_bytes // 1024} KB pages"
            axes.plot(*zip(*points, strict=True), marker=".", label=label)
    marked = highest_rate(best.algorithm, best.case, marked_bytes, advice.clock_used).tuples_per_s
    if math.isfinite(marked):
        axes.plot([marked_bytes / 2**20], [marked], "*", color="black", markersize=14, label="recommended")
    if advice.rate is not None:
        axes.axhline(advice.rate, color="gray", linestyle="--", linewidth=1, label="rate asked for")
    if advice.memory_bytes is not None:
        axes.axvline(advice.memory_bytes / 2**20, color="gray", linestyle=":", linewidth=1, label="memory given")
    axes.set(xscale="log", yscale="log", xlabel="memory (MB)", ylabel=f"tuples/s, predicted for {advice.clock}")
    axes.set_title(f"{best}", fontsize=10, loc="left")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InvalidArgument(f"cannot write {os.fspath(path)!r}: {error.strerror or type(error).__name__}") from None


def _best_of_each_algorithm(advice: Advice) -> list[Alternative]:
    first: dict[str, Alternative] = {}
    for each in advice.alternatives:
        first.setdefault(each.algorithm, each)
    return list(first.values())


def _curve(alternative: Alternative, memories: list[int], clock: Clock) -> list[tuple[float, float]]:
    """Return (megabytes, tuples per second) where the algorithm can run and its rate has a limit."""
    points = []
    for memory_bytes in memories:
        try:
            rate = highest_rate(alternative.algorithm, alternative.case, memory_bytes, clock).tuples_per_s
        except BudgetTooSmall:
            continue
        if math.isfinite(rate):
            points.append((memory_bytes / 2**20, rate))
    return points
