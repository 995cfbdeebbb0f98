"""``semistream demo``: the whole way from generated data to a checked join, with a report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from semistream.bench.demo import WARM_NOTE, DemoResult, DemoSpec, run_demo, write_report
from semistream.bench.provenance import collect_provenance
from semistream.cli.help_text import example
from semistream.cli.local_spark import require_local_spark
from semistream.cli.output_path import require_folder_path
from semistream.cli.progress import stderr
from semistream.core.sizes import format_bytes

__all__ = ["EXAMPLE", "demo"]

EXAMPLE = example("semistream demo --out demo-output", "semistream demo --local")

_Tell = Callable[[str, int, int], None]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo-output"),
    local: Annotated[
        bool, typer.Option("--local", help="Without Spark: every algorithm in one process instead.")
    ] = False,
    master_rows: Annotated[int, typer.Option(help="Rows of the master table.")] = DemoSpec.master_rows,
    stream_tuples: Annotated[int, typer.Option(help="Tuples of the stream.")] = DemoSpec.stream_tuples,
    lookup_tuples: Annotated[
        int, typer.Option(help="With --local: how many of them INLJ and CINLJ get.")
    ] = DemoSpec.lookup_tuples,
    seed: Annotated[int, typer.Option(help="Seed of table and stream.")] = DemoSpec.seed,
) -> None:
    """Generate a table and a bursty stream, join them on local Spark, and check against DuckDB.

    Spark needs Java 17 or newer; --local does without.
    """
    require_folder_path(out, "out")
    if local:
        _local(
            DemoSpec(master_rows=master_rows, stream_tuples=stream_tuples, lookup_tuples=lookup_tuples, seed=seed), out
        )
    else:
        _on_spark(master_rows, stream_tuples, seed, out)


@contextmanager
def _bars() -> Iterator[tuple[_Tell, Callable[[str], None]]]:
    """Show progress; yields what is told how far a thing is, and what prints a line above the bars."""
    percentage = TextColumn("{task.percentage:>4.0f}%")
    columns = (TextColumn("{task.description:36}"), BarColumn(), percentage, TimeElapsedColumn())
    with Progress(*columns, console=stderr) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total)

        yield progress, lambda line: bars.console.print(line, highlight=False)


def _finish(exact: bool, report: Path) -> None:
    typer.echo(f"Report: {report}")
    if not exact:
        typer.echo("semistream: an output differs from DuckDB's batch join: please report it", err=True)
        raise typer.Exit(1)


def _on_spark(master_rows: int, stream_tuples: int, seed: int, out: Path) -> None:
    require_local_spark("the demonstration on Spark (--local runs without it)")
    from semistream.bench.spark_demo.report import facts_of
    from semistream.bench.spark_demo.report import write_report as write_spark_report
    from semistream.bench.spark_demo.run import SparkDemoSpec, run_spark_demo

    spec = SparkDemoSpec(master_rows=master_rows, sales=stream_tuples, seed=seed)
    provenance = collect_provenance(seed)
    with _bars() as (progress, tell):
        result = run_spark_demo(spec, out, progress, tell)
    report = out / "report.html"
    write_spark_report(result, provenance, report)
    table = Table(box=SIMPLE_HEAD, show_edge=False, show_header=False)
    for name, figure in facts_of(result):
        table.add_row(name, figure)
    Console().print(table)
    _finish(result.exact, report)


def _local(spec: DemoSpec, out: Path) -> None:
    provenance = collect_provenance(spec.seed)
    with _bars() as (progress, _):
        result = run_demo(spec, out, progress)
    report = out / "report.html"
    write_report(result, provenance, report)
    _print(result)
    typer.echo(WARM_NOTE)
    _finish(result.exact, report)


def _print(result: DemoResult) -> None:
    budget = format_bytes(result.runs[0].memory.budget_bytes)
    title = f"{result.spec.master_rows:,} products ({format_bytes(result.table_bytes)}), left join in {budget}"
    columns = ("", "tuples\nanswered", "\nrows out", "tuples/s\n(warm)", "through\ncache", "budget\nheld")
    table = Table(*columns, "pages\nread", "equals\nDuckDB", title=title, box=SIMPLE_HEAD, show_edge=False)
    table.padding = (0, 1, 0, 0)
    for position, column in enumerate(table.columns):
        column.no_wrap = True
        column.justify = "right" if position else "left"
    for run in result.runs:
        table.add_row(
            run.algorithm.upper(),
            f"{run.metrics.tuples_answered:,}",
            f"{run.metrics.rows_out:,}",
            f"{run.service_rate:,.0f}",
            f"{run.metrics.cache_share:.0%}",
            f"{run.memory_share:.0%}",
            f"{run.metrics.pages_read:,}",
            "yes" if run.exact else "NO",
        )
    Console().print(table)
