"""Writes the reproduction report from result files: nothing is measured here."""

from collections.abc import Iterable, Mapping, Sequence
from os.path import relpath
from pathlib import Path

from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.result_file import Result, read_result, write_whole
from semistream.bench.framework.spec import SCALES, figure_ids, load_spec, read_toml
from semistream.bench.framework.tables import origin
from semistream.bench.reproduction.claim import DISK_CLOCK, MACHINE_CLOCK, JudgedFigure, Verdict, judge
from semistream.core.errors import InvalidArgument

__all__ = ["write_report"]

_PAPERS = {
    "S0": "SSBJ: Naeem et al., A Memory-Optimal Many-To-Many Semi-Stream Join",
    "S1": "HYBRIDJOIN: Naeem et al., HYBRIDJOIN for Near-Real-Time Data Warehousing",
    "S2": "Front stage and load shedding: Naeem et al., Skewed Distributions in Semi-Stream Joins",
    "S3": "MESHJOIN: Polyzotis et al., Supporting Streaming Updates in an Active Data Warehouse",
    "S4": "MJoin: Ding et al., MJoin: A Metadata-Aware Stream Join Operator",
}
_SHOWN_SCALES = ("laptop", "paper")


def write_report(results: Sequence[Path], page: Path) -> list[JudgedFigure]:
    """Write the report to ``page``, and a picture beside every result file.

    People find out why a figure is not reproduced: ``reasons.toml`` beside the page has a text for a figure's id, or
    for id and scale such as ``S0-5a-paper``.
    """
    judged = {path: judge(result) for path, result in _newest(results)}
    if not judged:
        raise InvalidArgument("there are no result files to report on: measure figures with 'semistream figure all'")
    reasons_file = page.with_name("reasons.toml")
    reasons = read_toml(reasons_file.read_text(encoding="utf-8"), reasons_file.name) if reasons_file.exists() else {}
    pictures: dict[str, str] = {}
    for path, figure in judged.items():
        if any(point.y for point in figure.result.points):
            plot_result(figure.result, path.with_suffix(".png"))
            pictures[figure.result.name] = Path(relpath(path.with_suffix(".png"), page.parent)).as_posix()
    found = list(judged.values())
    write_whole(page, "\n\n".join(_paragraphs(found, reasons, pictures)) + "\n")
    return found


def _newest(paths: Sequence[Path]) -> list[tuple[Path, Result]]:
    """Return the results in the papers' order, small scales first; of two for one figure and scale the later."""
    found: dict[str, tuple[Path, Result]] = {}
    for path in paths:
        result = read_result(path)
        known = found.get(result.name)
        if result.benchmark in figure_ids() and (known is None or known[1].provenance.date < result.provenance.date):
            found[result.name] = path, result
    order = {figure: number for number, figure in enumerate(figure_ids())}
    return sorted(found.values(), key=lambda each: (order[each[1].benchmark], SCALES.index(each[1].scale)))


def _paragraphs(
    judged: Sequence[JudgedFigure], reasons: Mapping[str, str], pictures: Mapping[str, str]
) -> Iterable[str]:
    yield "# Reproduction of the papers' figures"
    yield (
        "Written by `semistream bench report` from the result files in `results/`; do not edit. Every figure was "
        "measured with `semistream figure ID --scale SCALE`: `laptop` is R of about a million rows, `paper` the "
        f"paper's own size. Verdicts are on the clock of a {DISK_CLOCK} (counted seeks and bytes, as the papers' "
        "machines had it), and beside it on the machine that measured."
    )
    yield (
        "**Reproduced**: the shape holds, and a number lies within 25% of the paper's, with at least half of its gain. "
        "**In direction**: the same side wins, by another factor, and by at least 2%. A figure is as good as its "
        "weakest claim. The rules are in "
        "`src/semistream/bench/reproduction/claim.py`, the claims in `src/semistream/bench/claims`."
    )
    yield from _summary(judged)
    for paper, title in _PAPERS.items():
        figures = [figure for figure in judged if figure.result.benchmark.startswith(f"{paper}-")]
        if figures:
            yield f"## {paper}: {title}"
            for figure in figures:
                yield from _section(figure, reasons, pictures)
    known = {figure.result.benchmark for figure in judged if figure.result.scale in _SHOWN_SCALES}
    missing = [figure for figure in figure_ids() if figure not in known]
    if missing:
        yield "## Not measured"
        yield f"{', '.join(missing)}."


def _summary(judged: Sequence[JudgedFigure]) -> Iterable[str]:
    for scale in _SHOWN_SCALES:
        verdicts = [figure.on_disk for figure in judged if figure.result.scale == scale]
        if verdicts:
            counts = [f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict if verdict in verdicts]
            yield f"At scale `{scale}`, {len(verdicts)} figures: {', '.join(counts)}."
    rows = []
    for figure in judged:
        result = figure.result
        link = f"[{result.benchmark}](#{result.name.lower()})"
        machine = figure.on_machine.value if figure.has_clocks else "the same"
        rows.append((link, result.scale, load_spec(result.benchmark).title, figure.on_disk.value, machine))
    yield _table(("figure", "scale", "shows", DISK_CLOCK, MACHINE_CLOCK), rows)


def _section(figure: JudgedFigure, reasons: Mapping[str, str], pictures: Mapping[str, str]) -> Iterable[str]:
    result, spec = figure.result, load_spec(figure.result.benchmark)
    yield f"### {result.name}"
    unfinished = "" if result.is_complete else " The run is not finished."
    yield f"{spec.title}. {spec.paper}, {spec.place}: {spec.about}{unfinished}"
    rows = []
    for each in figure.claims:
        disk, machine = each.on_disk, each.on_machine
        rows.append((each.claim.text, disk.ours, disk.verdict.value, machine.ours, machine.verdict.value))
    if figure.has_clocks:
        yield _table(("the paper", DISK_CLOCK, "verdict", MACHINE_CLOCK, "verdict"), rows)
    else:
        yield _table(("the paper", "ours", "verdict"), [row[:3] for row in rows])
    reason = reasons.get(result.name, reasons.get(result.benchmark))
    if figure.on_disk is not Verdict.REPRODUCED:
        yield f"Why: {(reason or 'Not examined.').strip()}"
    elif reason is not None:
        yield f"Note: {reason.strip()}"
    if result.name in pictures:
        yield f"![{result.name}]({pictures[result.name]})"
    yield origin(result.provenance)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
