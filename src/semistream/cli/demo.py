"""``semistream demo``: generated data, a join checked against DuckDB, and a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from semistream.bench.demo import DemoResult, DemoSpec, run_demo, write_report
from semistream.bench.demo.local_backend import local_backend
from semistream.bench.demo.report import COLUMNS, cells_of
from semistream.bench.demo.run import OpenBackend
from semistream.bench.demo.workload import Progress as DemoProgress
from semistream.bench.framework.provenance import collect_provenance
from semistream.cli.arguments import example, require_folder_path
from semistream.cli.local_spark import require_local_spark
from semistream.cli.progress import stderr
from semistream.core.sizes import format_bytes

__all__ = ["EXAMPLE", "demo"]

EXAMPLE = example("semistream demo --out demo-output", "semistream demo --local")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo-output"),
    local: Annotated[
        bool, typer.Option("--local", help="Without Spark: every algorithm in one process instead.")
    ] = False,
    master_rows: Annotated[int, typer.Option(help="Rows of the master table.")] = DemoSpec.master_rows,
    stream_tuples: Annotated[int, typer.Option(help="Tuples of the stream.")] = DemoSpec.stream_tuples,
    lookup_tuples: Annotated[
        int, typer.Option(help="With --local: the number of them for INLJ and CINLJ.")
    ] = DemoSpec.lookup_tuples,
    seed: Annotated[int, typer.Option(help="Seed of table and stream.")] = DemoSpec.seed,
) -> None:
    """Generate a table and a bursty stream, join them on local Spark, and check against DuckDB.

    Spark needs Java 17 or newer; --local does without.
    """
    require_folder_path(out, "out")
    spec = DemoSpec(master_rows=master_rows, stream_tuples=stream_tuples, lookup_tuples=lookup_tuples, seed=seed)
    open_backend: OpenBackend = local_backend
    if not local:
        require_local_spark("the demonstration on Spark (--local runs without it)")
        from semistream.bench.demo.spark_backend import spark_backend

        open_backend = spark_backend
    provenance = collect_provenance(seed)
    with _bars() as progress:
        result = run_demo(spec, out, open_backend, progress)
    report = out / "report.html"
    write_report(result, provenance, report)
    _print(result)
    typer.echo(f"Report: {report}")
    if not result.exact:
        typer.echo("semistream: an output differs from DuckDB's batch join: please report it", err=True)
        raise typer.Exit(1)


@contextmanager
def _bars() -> Iterator[DemoProgress]:
    percentage = TextColumn("{task.percentage:>4.0f}%")
    columns = (TextColumn("{task.description:38}"), BarColumn(), percentage, TimeElapsedColumn())
    with Progress(*columns, console=stderr) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int, line: str = "") -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total)
            if line:
                bars.console.print(line, highlight=False)

        yield progress


def _print(result: DemoResult) -> None:
    budget = format_bytes(result.budget_bytes)
    title = f"{result.spec.master_rows:,} products ({format_bytes(result.table_bytes)}), left join in {budget}"
    # The last column does not fit into a terminal of 80 columns.
    table = Table(*COLUMNS[:-1], title=title, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(table.columns):
        column.no_wrap = position > 0
        column.justify = "right" if position else "left"
    for run in result.runs:
        table.add_row(*cells_of(run, result.budget_bytes)[:-1])
    console = Console()
    console.print(table)
    for note in result.notes:
        console.print(note, highlight=False)
