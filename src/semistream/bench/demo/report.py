"""The demonstration as one HTML page, pictures included."""

import html
from pathlib import Path

from semistream.bench.demo.picture import color_of, draw
from semistream.bench.demo.run import DemoResult
from semistream.bench.html_page import html_page, html_picture, html_table
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


def write_report(result: DemoResult, provenance: Provenance, path: Path) -> None:
    """Write the page."""
    verdict = "Every output equals the batch join." if result.exact else "An output differs!"
    body = "\n".join(
        (
            _table(result),
            html_picture(draw(result), "Tuples answered over time, share through the cache, memory"),
            f"<p>{html.escape(_CURVE_NOTE)}</p>",
            f"<p>{html.escape(WARM_NOTE)}</p>",
        )
    )
    path.write_text(html_page(_introduction(result), verdict, result.exact, body, provenance), encoding="utf-8")


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
    return html_table(head, rows)
