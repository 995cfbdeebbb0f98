"""The demonstration on Spark in words: lines for the terminal, and an HTML page."""

import html
from pathlib import Path

from semistream.bench.html_page import html_page, html_picture, html_table
from semistream.bench.provenance import Provenance
from semistream.bench.spark_demo.picture import draw
from semistream.bench.spark_demo.run import SparkDemoResult
from semistream.core.sizes import format_bytes

__all__ = ["facts_of", "write_report"]

_NOTE = (
    "Spark's own join reads the whole table in every micro-batch, so its time grows with the table; ours grows with "
    "the different keys of the micro-batch. The table was just written, so its pages come from the page cache."
)


def facts_of(result: SparkDemoResult) -> list[tuple[str, str]]:
    """Return what the demonstration did, as pairs of a name and a figure."""
    ours, theirs = result.beside["semistream"], result.beside["Spark's own join"]
    return [
        (
            "table",
            f"{result.spec.master_rows:,} products, {format_bytes(result.table_bytes)}, {result.table_pages:,} pages",
        ),
        ("staged by Spark in", f"{result.stage_s:.1f} s"),
        ("sales in, rows out", f"{result.rows_in:,}, {result.rows_out:,}"),
        ("micro-batches", f"{len(result.batches)}"),
        ("service rate", f"{result.service_rate:,.0f} sales per second of micro-batch time"),
        ("answered from the cache", f"{result.cache_share:.0%} of the sales, from an empty cache on"),
        (
            "memory held at most",
            f"{format_bytes(result.memory_bytes)} of {format_bytes(result.budget_bytes)} "
            f"({result.memory_bytes / result.budget_bytes:.0%})",
        ),
        (
            "the same rows unpaced",
            f"ours {ours.rows_per_s:,.0f} a second, Spark's own join {theirs.rows_per_s:,.0f}: "
            f"{ours.rows_per_s / theirs.rows_per_s:.1f} times as many",
        ),
        ("equals DuckDB's batch join", "yes" if result.exact else "NO"),
    ]


def write_report(result: SparkDemoResult, provenance: Provenance, path: Path) -> None:
    """Write the page."""
    spec = result.spec
    introduction = (
        f"{spec.sales:,} sales came in bursts, {spec.rate:,} a second on average, with Zipf-distributed product keys "
        f"(exponent {spec.skew:g}, {spec.missing_share:.0%} without a product). Spark Structured Streaming left-joined "
        f"them with a table of {spec.master_rows:,} products through semistream, in "
        f"{format_bytes(result.budget_bytes)} of memory: {spec.budget_share:.0%} of the table. DuckDB joined the same "
        "rows in one batch, and the results were compared as multisets."
    )
    verdict = "The output equals the batch join." if result.exact else "The output differs!"
    facts = [(html.escape(name), html.escape(figure)) for name, figure in facts_of(result)]
    description = "Sales and seconds of every micro-batch, share from the cache, memory, rates"
    body = "\n".join(
        (html_table(("", ""), facts), html_picture(draw(result), description), f"<p>{html.escape(_NOTE)}</p>")
    )
    path.write_text(html_page(introduction, verdict, result.exact, body, provenance), encoding="utf-8")
