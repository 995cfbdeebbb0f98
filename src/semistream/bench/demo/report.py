"""The demonstration as one HTML page, pictures included."""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from semistream.bench.demo.run import DemoResult, JoinRun
from semistream.bench.extras import import_extra
from semistream.bench.provenance import Provenance
from semistream.core.sizes import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["WARM_NOTE", "write_report"]

WARM_NOTE = (
    "The table was just written, so its pages come from the operating system's page cache: these are warm rates, "
    "and a table that has to come from the disk is read more slowly."
)
_CURVE_NOTE = (
    "MESHJOIN's curve is flat at first because a tuple is complete only when it has met every page: nothing is "
    "answered before the first full scan of the table."
)

_RUN_COLORS = {"meshjoin": "#1b6ca8", "hybridjoin": "#3a9d5d", "inlj": "#d98324"}
_OTHER_RUN_COLOR = "#666666"
# Neither the blue nor the orange of the algorithms: a component belongs to both.
_COMPONENT_COLORS = ("#6a4c93", "#b79fd6", "#2a7f62", "#8fc9a8", "#8c3b60", "#d99bb8", "#6b705c")
_REST, _REST_COLOR = "other", "#b8b8b8"

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>semistream demo</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; }}
  body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
  h1 {{ margin-bottom: 0; }}
  .verdict {{ display: inline-block; padding: .3rem .8rem; border-radius: .4rem; }}
  .verdict {{ color: white; background: {color}; }}
  table {{ border-collapse: collapse; margin: 1rem 0; }}
  th, td {{ padding: .3rem .9rem; text-align: right; border-bottom: 1px solid #ddd; }}
  th:first-child, td:first-child {{ text-align: left; }}
  img {{ max-width: 100%; }}
  footer {{ color: #777; font-size: .85rem; margin-top: 2rem; }}
</style>
<h1>semistream demo</h1>
<p>{introduction}</p>
<p class="verdict">{verdict}</p>
{table}
<img alt="Tuples answered over time, and memory by component" src="data:image/png;base64,{picture}">
<p>{curve_note}</p>
<p>{warm_note}</p>
<footer>{footer}</footer>
</html>
"""


def write_report(result: DemoResult, provenance: Provenance, path: Path) -> None:
    """Write the page."""
    verdict = "Every output equals the batch join." if result.exact else "An output differs!"
    page = _PAGE.format(
        color="#2a7f62" if result.exact else "#c44536",
        introduction=html.escape(_introduction(result)),
        verdict=verdict,
        table=_table(result),
        picture=base64.b64encode(_picture(result)).decode(),
        curve_note=html.escape(_CURVE_NOTE),
        warm_note=html.escape(WARM_NOTE),
        footer=html.escape(_footer(provenance)),
    )
    path.write_text(page, encoding="utf-8")


def _introduction(result: DemoResult) -> str:
    spec = result.spec
    budget = format_bytes(result.runs[0].memory.budget_bytes)
    return (
        f"A stream of {spec.stream_tuples:,} sales with Zipf-distributed product keys (exponent "
        f"{spec.zipf_exponent:g}, {spec.missing_share:.0%} without a product) was left-joined with a table "
        f"of {spec.master_rows:,} products: {format_bytes(result.table_bytes)} on disk in "
        f"{result.table_pages:,} pages, inside a memory budget of {budget}. INLJ got the first "
        f"{min(spec.lookup_tuples, spec.stream_tuples):,} sales. DuckDB joined the same files in one batch, "
        "and the results were compared as multisets of rows."
    )


def _table(result: DemoResult) -> str:
    head = ("", "tuples", "rows out", "without a match", "tuples/s (warm)", "pages read", "memory used", "exact")
    rows = [
        (
            run.algorithm.upper(),
            f"{run.metrics.tuples_answered:,}",
            f"{run.metrics.rows_out:,}",
            f"{run.metrics.tuples_without_match:,}",
            f"{run.service_rate:,.0f}",
            f"{run.metrics.pages_read:,}",
            f"{run.memory.total_bytes / run.memory.budget_bytes:.0%} of the budget",
            "yes" if run.exact else "NO",
        )
        for run in result.runs
    ]
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _footer(provenance: Provenance) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in provenance.libraries.items())
    return (
        f"semistream {provenance.semistream}, {provenance.date}, {provenance.cpu}, {provenance.cores} cores, "
        f"Python {provenance.python}, {libraries}"
    )


def _picture(result: DemoResult) -> bytes:
    import_extra("matplotlib", "bench", "the report's picture")
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=(11, 4.2), layout="constrained")
    over_time, memory = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_timeline(over_time, result)
    _draw_memory(memory, result)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()


def _draw_timeline(axes: "Axes", result: DemoResult) -> None:
    longest_s = max(run.busy_s for run in result.runs)
    for run in result.runs:
        color = _RUN_COLORS.get(run.algorithm, _OTHER_RUN_COLOR)
        seconds, answered = zip(*run.timeline, strict=True)
        axes.plot(seconds, answered, color=color, linewidth=2, label=run.algorithm.upper())
        at_right = run.busy_s > longest_s * 0.6
        axes.annotate(
            f"{run.algorithm.upper()}: {run.service_rate:,.0f} tuples/s",
            (run.busy_s, answered[-1]),
            xytext=(-6 if at_right else 8, 7 if at_right else -4),
            textcoords="offset points",
            ha="right" if at_right else "left",
            color=color,
            fontsize=10,
        )
    axes.set_xlim(0, longest_s * 1.03)
    axes.set_ylim(0, max(run.metrics.tuples_answered for run in result.runs) * 1.12)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("seconds inside the operator")
    axes.set_title("Tuples answered over time", loc="left", fontsize=12)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_memory(axes: "Axes", result: DemoResult) -> None:
    names = list(dict.fromkeys(name for run in result.runs for name in _large_components(run)))
    names.sort(key=lambda name: name == _REST)
    bars = [run.algorithm.upper() for run in result.runs]
    start = [0.0] * len(bars)
    for number, name in enumerate(names):
        widths = [_large_components(run).get(name, 0) / 2**20 for run in result.runs]
        color = _REST_COLOR if name == _REST else _COMPONENT_COLORS[number % len(_COMPONENT_COLORS)]
        axes.barh(bars, widths, left=start, color=color, height=0.45, label=name)
        start = [before + width for before, width in zip(start, widths, strict=True)]
    budget_mb = result.runs[0].memory.budget_bytes / 2**20
    axes.axvline(budget_mb, color="#c44536", linewidth=1.6, linestyle="--")
    axes.annotate(
        f"budget {budget_mb:.0f} MB ",
        (budget_mb, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-2, -12),
        textcoords="offset points",
        ha="right",
        color="#c44536",
        fontsize=9,
    )
    axes.set_xlim(0, budget_mb * 1.08)
    axes.set_ylim(-0.5, len(bars) - 0.2)
    axes.set_xlabel("MB at the highest point")
    axes.set_title("Memory by component", loc="left", fontsize=12)
    axes.legend(ncols=3, fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    axes.spines[["top", "right"]].set_visible(False)


def _large_components(run: JoinRun) -> dict[str, int]:
    """Return the components that can be seen in a bar; the others together."""
    least_bytes = run.memory.budget_bytes // 100
    components = {name: size for name, size in run.memory.components.items() if size >= least_bytes}
    rest = run.memory.total_bytes - sum(components.values())
    return {**components, _REST: rest} if rest else components
