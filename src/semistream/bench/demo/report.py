"""The demonstration as one HTML page, pictures included."""

import base64
import html
from pathlib import Path

from semistream.bench.demo.picture import color_of, draw
from semistream.bench.demo.run import DemoResult
from semistream.bench.provenance import Provenance
from semistream.core.sizes import format_bytes

__all__ = ["WARM_NOTE", "write_report"]

WARM_NOTE = (
    "The table was just written, so its pages come from the operating system's page cache: these are warm rates, "
    "and a table that has to come from the disk is read more slowly."
)
_CURVE_NOTE = (
    "MESHJOIN's curve is flat at first because a tuple is complete only when it has met every page: nothing is "
    "answered before the first full scan of the table. The share through the cache is of all tuples, those included "
    "that came while the cache was still empty."
)

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
{table}
<img alt="Tuples answered over time, share through the cache, memory" src="data:image/png;base64,{picture}">
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
        picture=base64.b64encode(draw(result)).decode(),
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
        f"{result.table_pages:,} pages, inside a memory budget of {budget}. INLJ and CINLJ got the "
        f"first {spec.tuples_for('inlj'):,} sales. DuckDB joined the same files in one batch, "
        "and the results were compared as multisets of rows."
    )


def _table(result: DemoResult) -> str:
    head = (
        "",
        "tuples",
        "rows out",
        "without a match",
        "tuples/s (warm)",
        "through the cache",
        "memory",
        "pages",
        "exact",
    )
    rows = [
        (
            f'<span class="swatch" style="background: {color_of(run.algorithm)}"></span>{run.algorithm.upper()}',
            f"{run.metrics.tuples_answered:,}",
            f"{run.metrics.rows_out:,}",
            f"{run.metrics.tuples_without_match:,}",
            f"{run.service_rate:,.0f}",
            f"{run.metrics.cache_share:.0%}",
            f"{run.memory_share:.0%} of the budget",
            f"{run.metrics.pages_read:,}",
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
