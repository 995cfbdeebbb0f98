"""Draws hit ratios: a group of bars per workload, a bar per policy, the offline optimum as a line above each."""

from typing import TYPE_CHECKING

from semistream.bench.cache.run import HitRatio
from semistream.bench.result_file import BenchResult

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

__all__ = ["draw_hit_ratios", "hit_ratios_height"]

_COLORS = ("#4c72b0", "#dd8452", "#2a7f62", "#8a8a8a")


def hit_ratios_height(result: BenchResult) -> float:
    """Return the height of the drawing in inches."""
    return 0.6 + 2.7 * len({cell["algorithm"] for cell in result.cells})


def draw_hit_ratios(figure: "SubFigure", result: BenchResult) -> None:
    """Draw the algorithms below each other."""
    found = [HitRatio(**cell) for cell in result.cells]
    names = list(dict.fromkeys(ratio.algorithm for ratio in found))
    workloads = list(dict.fromkeys(ratio.workload for ratio in found))
    policies = list(dict.fromkeys(ratio.policy for ratio in found))
    width = 0.8 / len(policies)
    all_axes = figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
    for axes, name in zip(all_axes, names, strict=True):
        for at, policy in enumerate(policies):
            for ratio in found:
                if (ratio.algorithm, ratio.policy) == (name, policy):
                    left = workloads.index(ratio.workload) - 0.4 + at * width
                    first = ratio.workload == workloads[0]
                    axes.bar(
                        left,
                        ratio.hit_ratio,
                        width * 0.9,
                        align="edge",
                        color=_COLORS[at % len(_COLORS)],
                        label=policy if first else None,
                    )
                    axes.hlines(ratio.optimum, left, left + width * 0.9, color="black", linewidth=1.2)
        axes.set_xticks(range(len(workloads)), workloads, fontsize=8)
        axes.set_ylim(0, 1)
        axes.set_title(f"{name}: share of tuples answered by the cache; line = offline optimum", fontsize=8, loc="left")
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].legend(fontsize=8, frameon=False)
