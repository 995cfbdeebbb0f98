"""Writes the reproduction report from result files: nothing is measured here."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from semistream.bench.extras import import_extra
from semistream.bench.figures.figure_result import FigureResult, read_figure, write_whole
from semistream.bench.figures.plot import plot_figure
from semistream.bench.figures.spec import SCALES, figure_ids, load_figure
from semistream.bench.provenance import Provenance
from semistream.bench.reproduction.judged import DISK_CLOCK, MACHINE_CLOCK, JudgedFigure, judge
from semistream.bench.reproduction.verdict import Verdict
from semistream.core.errors import InvalidArgument

__all__ = ["write_report"]

_PAPERS = {
    "S0": "SSBJ: Naeem et al., A Memory-Optimal Many-To-Many Semi-Stream Join",
    "S1": "HYBRIDJOIN: Naeem et al., HYBRIDJOIN for Near-Real-Time Data Warehousing",
    "S2": "Front stage and load shedding: Naeem et al., Skewed Distributions in Semi-Stream Joins",
    "S3": "MESHJOIN: Polyzotis et al., Supporting Streaming Updates in an Active Data Warehouse",
    "S4": "MJoin: Ding et al., MJoin: A Metadata-Aware Stream Join Operator",
}
_REASONS = "reasons.toml"
_NO_REASON = "Not examined."
_SHOWN_SCALES = ("laptop", "paper")


def write_report(results: Sequence[Path], folder: Path) -> list[JudgedFigure]:
    """Write ``README.md``, a picture of every figure and the result files themselves into ``folder``.

    Why a figure is not reproduced is a finding of people: it is read from ``reasons.toml`` in the same folder, which
    has a text for a figure's id, or for id and scale such as ``S0-5a-paper``.
    """
    judged = [judge(result) for result in _newest(results)]
    if not judged:
        raise InvalidArgument("there are no result files to report on: measure figures with 'semistream figure all'")
    reasons = _reasons(folder / _REASONS)
    for figure in judged:
        name = _name(figure.result)
        write_whole(folder / "results" / f"{name}.json", figure.result.to_json() + "\n")
        (folder / "figures").mkdir(exist_ok=True)
        if any(point.y for point in figure.result.points):
            plot_figure(figure.result, folder / "figures" / f"{name}.png")
    write_whole(folder / "README.md", "\n".join(_text(judged, reasons)) + "\n")
    return judged


def _newest(paths: Sequence[Path]) -> Iterable[FigureResult]:
    """Return the results in the papers' order, small scales first; of two for one figure and scale the later."""
    found: dict[tuple[str, str], FigureResult] = {}
    for path in paths:
        result = read_figure(path)
        known = found.get((result.figure, result.scale))
        if known is None or known.provenance.date < result.provenance.date:
            found[result.figure, result.scale] = result
    order = {figure: number for number, figure in enumerate(figure_ids())}
    names = sorted(found, key=lambda name: (order.get(name[0], len(order)), SCALES.index(name[1])))
    return [found[name] for name in names]


def _reasons(path: Path) -> Mapping[str, str]:
    if not path.exists():
        return {}
    toml: Any = import_extra("tomllib" if sys.version_info >= (3, 11) else "tomli", "bench", "reading reasons")
    try:
        content: dict[str, str] = toml.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidArgument(f"{os.fspath(path)!r} is not TOML: {error}") from None
    return content


def _name(result: FigureResult) -> str:
    return f"{result.figure}-{result.scale}"


def _text(judged: Sequence[JudgedFigure], reasons: Mapping[str, str]) -> Iterable[str]:
    yield "# Reproduction of the papers' figures"
    yield ""
    yield (
        "Written by `semistream bench reproduction` from the result files in `results/`; do not edit. Every figure was "
        "measured with `semistream figure ID --scale SCALE`: `laptop` is R of about a million rows, `paper` the "
        f"paper's own size. Verdicts are on the clock of a {DISK_CLOCK} (counted seeks and bytes, as the papers' "
        "machines had it), and beside it on the machine that measured."
    )
    yield ""
    yield (
        "**Reproduced**: the shape holds, and a number lies within 25% of the paper's, with at least half of its gain. "
        "**In direction**: the same side wins, by another factor, and by at least 2%. A figure is as good as its "
        "weakest claim. The rules are in "
        "`src/semistream/bench/reproduction/claim.py`, the claims beside it."
    )
    yield ""
    yield from _summary(judged)
    for paper, title in _PAPERS.items():
        figures = [figure for figure in judged if figure.result.figure.startswith(f"{paper}-")]
        if figures:
            yield f"## {paper}: {title}"
            yield ""
            for figure in figures:
                yield from _section(figure, reasons)
    yield from _missing(judged)


def _summary(judged: Sequence[JudgedFigure]) -> Iterable[str]:
    for scale in _SHOWN_SCALES:
        figures = [figure for figure in judged if figure.result.scale == scale]
        if figures:
            counts = ", ".join(
                f"{sum(figure.on_disk is verdict for figure in figures)} {verdict.value}"
                for verdict in Verdict
                if any(figure.on_disk is verdict for figure in figures)
            )
            yield f"At scale `{scale}`, {len(figures)} figures: {counts}."
            yield ""
    yield f"| figure | scale | shows | {DISK_CLOCK} | {MACHINE_CLOCK} |"
    yield "|---|---|---|---|---|"
    for figure in judged:
        result = figure.result
        link = f"[{result.figure}](#{_anchor(result)})"
        machine = figure.on_machine.value if figure.has_clocks else "the same"
        yield f"| {link} | {result.scale} | {load_figure(result.figure).title} | {figure.on_disk.value} | {machine} |"
    yield ""


def _anchor(result: FigureResult) -> str:
    return f"{result.figure}-{result.scale}".lower()


def _section(figure: JudgedFigure, reasons: Mapping[str, str]) -> Iterable[str]:
    result, spec = figure.result, load_figure(figure.result.figure)
    yield f"### {_name(result)}"
    yield ""
    unfinished = "" if result.is_complete else " The run is not finished."
    yield f"{spec.title}. {spec.paper} ll. {spec.lines}: {spec.claim}{unfinished}"
    yield ""
    if figure.has_clocks:
        yield f"| the paper | {DISK_CLOCK} | verdict | {MACHINE_CLOCK} | verdict |"
        yield "|---|---|---|---|---|"
        for judged in figure.claims:
            disk, machine = judged.on_disk, judged.on_machine
            cells = (judged.claim.text, disk.ours, disk.verdict.value, machine.ours, machine.verdict.value)
            yield f"| {' | '.join(cells)} |"
    else:
        yield "| the paper | ours | verdict |"
        yield "|---|---|---|"
        for judged in figure.claims:
            yield f"| {judged.claim.text} | {judged.on_disk.ours} | {judged.on_disk.verdict.value} |"
    yield ""
    reason = reasons.get(_name(result), reasons.get(result.figure))
    if figure.on_disk is not Verdict.REPRODUCED:
        yield f"Why: {(reason or _NO_REASON).strip()}"
        yield ""
    elif reason is not None:
        yield f"Note: {reason.strip()}"
        yield ""
    yield f"![{_name(result)}](figures/{_name(result)}.png)"
    yield ""
    yield _origin(result.provenance)
    yield ""


def _origin(provenance: Provenance) -> str:
    commit = (provenance.commit or f"version {provenance.semistream}")[:10]
    changes = "" if provenance.commit_is_clean in (True, None) else " with changes"
    memory_gib = provenance.memory_bytes / 2**30
    return (
        f"{provenance.date[:10]}, commit {commit}{changes}, {provenance.cpu}, {provenance.cores} cores, "
        f"{memory_gib:.0f} GiB, load {provenance.load_average:g} before it, seed {provenance.seed}."
    )


def _missing(judged: Sequence[JudgedFigure]) -> Iterable[str]:
    known = {figure.result.figure for figure in judged if figure.result.scale in _SHOWN_SCALES}
    missing = [figure for figure in figure_ids() if figure not in known]
    if missing:
        yield "## Not measured"
        yield ""
        yield f"{', '.join(missing)}."
