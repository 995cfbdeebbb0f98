"""The demonstration as one HTML page with a picture."""

import base64
import html
from pathlib import Path

from semistream.bench.demo.picture import color_of, draw
from semistream.bench.demo.run import DemoResult, JoinRun
from semistream.bench.framework.provenance import Provenance
from semistream.core.sizes import format_bytes

__all__ = ["COLUMNS", "cells_of", "write_report"]

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>semistream demo</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; }}
  body {{ max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }}
  h1 {{ margin-bottom: 0; }}
  .verdict {{ display: inline-block; padding: .3rem .8rem; border-radius: .4rem; }}
  .verdict {{ color: white; background: {color}; }}
  table {{ border-collapse: collapse; margin: 1rem 0; }}
  th, td {{ padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }}
  th:first-child, td:first-child {{ text-align: left; }}
  .swatch {{ display: inline-block; width: .8rem; height: .8rem; margin-right: .5rem; border-radius: .2rem; }}
  img {{ max-width: 100%; }}
  footer {{ color: #777; font-size: .85rem; margin-top: 2rem; }}
</style>
<h1>semistream demo</h1>
<p>{introduction}</p>
<p class="verdict">{verdict}</p>
<table>{table}</table>
<img alt="Tuples answered over time, share from memory, memory held" src="data:image/png;base64,{picture}">
{notes}
<footer>{footer}</footer>
</html>
"""

COLUMNS = (
    *("", "tuples\nanswered", "\nrows out", "tuples/s\n(warm)", "from\nmemory"),
    *("budget\nheld", "pages\nread", "equals\nDuckDB", "without\na match"),
)


def cells_of(run: JoinRun, budget_bytes: int) -> tuple[str, ...]:
    """Return the figures of a run under `COLUMNS`; a dash for those that the join does not report."""
    metrics, memory_bytes, output = run.metrics, run.memory_bytes, run.output
    return (
        run.name,
        f"{run.timeline[-1].answered:,}",
        f"{output.rows:,}" if output else "-",
        f"{run.service_rate:,.0f}",
        f"{metrics.hit_ratio:.0%}" if metrics else "-",
        f"{memory_bytes / budget_bytes:.0%}" if memory_bytes is not None else "-",
        f"{metrics.pages_read:,}" if metrics else "-",
        "yes" if run.exact else "NO",
        f"{metrics.tuples_without_match:,}" if metrics else "-",
    )


def write_report(result: DemoResult, provenance: Provenance, path: Path) -> None:
    """Write the page."""
    rows = [_row("th", COLUMNS)]
    for run in result.runs:
        swatch = f'<span class="swatch" style="background: {color_of(run.name)}"></span>'
        rows.append(_row("td", cells_of(run, result.budget_bytes)).replace("<td>", f"<td>{swatch}", 1))
    page = _PAGE.format(
        color="#2a7f62" if result.exact else "#c44536",
        introduction=html.escape(_introduction(result)),
        verdict="Every output equals the batch join." if result.exact else "An output differs!",
        table="".join(rows),
        picture=base64.b64encode(draw(result)).decode(),
        notes="\n".join(f"<p>{html.escape(note)}</p>" for note in result.notes),
        footer=html.escape(_footer(provenance)),
    )
    path.write_text(page, encoding="utf-8")


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _introduction(result: DemoResult) -> str:
    spec = result.spec
    return (
        f"A stream of {spec.stream_tuples:,} sales with Zipf-distributed product keys (exponent "
        f"{spec.zipf_exponent:g}, {spec.missing_share:.0%} without a product) was left-joined with a table of "
        f"{spec.master_rows:,} products: {format_bytes(result.table_bytes)} on disk in {result.table_pages:,} pages, "
        f"staged in {result.stage_s:.1f} s, inside a memory budget of {format_bytes(result.budget_bytes)}. "
        "DuckDB joined the same sales in one batch, and the results were compared as multisets of rows."
    )


def _footer(provenance: Provenance) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in provenance.libraries.items())
    return (
        f"semistream {provenance.semistream}, {provenance.date}, {provenance.cpu}, {provenance.cores} cores, "
        f"Python {provenance.python}, {libraries}"
    )
