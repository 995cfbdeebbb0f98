"""Draws a result file: every figure as a multiple of its target. Nothing is measured here."""

import os
from pathlib import Path

from semistream.bench.extras import import_extra
from semistream.bench.result_file import BenchResult, Entry
from semistream.core.errors import InvalidArgument

__all__ = ["plot_result"]

_MET, _MISSED, _NOT_JUDGED = "#2a7f62", "#c44536", "#8a8a8a"


def plot_result(result: BenchResult, path: str | os.PathLike[str]) -> None:
    """Write a picture; the suffix of ``path`` chooses its format."""
    import_extra("matplotlib", "bench", "plotting")
    from matplotlib.figure import Figure

    if not result.entries:
        raise InvalidArgument("the result has no figures: there is nothing to draw")
    entries = list(reversed(result.entries))
    margins = [_margin(entry) for entry in entries]
    figure = Figure(figsize=(10, 1.6 + 0.28 * len(entries)), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(entries)), margins, color=[_color(entry) for entry in entries], height=0.7)
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.set_xscale("log")
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
    provenance = result.provenance
    commit = (provenance.commit or "no commit")[:10] + ("" if provenance.commit_is_clean else " with changes")
    axes.set_title(f"{result.benchmark}: {provenance.cpu}, {provenance.cores} cores, {commit}", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(Path(path), dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot write a picture to {os.fspath(path)!r}: {error}") from None


def _color(entry: Entry) -> str:
    return {True: _MET, False: _MISSED, None: _NOT_JUDGED}[entry.met]


def _margin(entry: Entry) -> float:
    ratio = entry.value / entry.target if entry.bound == "at least" else entry.target / max(entry.value, 1e-9)
    return min(max(ratio, 0.01), 100.0)
