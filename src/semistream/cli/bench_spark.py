"""``semistream bench spark``: our join on Spark beside every plan that Spark can be made to run."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.result_file import BenchResult, write_result
from semistream.bench.spark.cells import PlanResult
from semistream.bench.spark.spec import QUICK, SparkSpec
from semistream.cli.bench_report import print_entries
from semistream.cli.help_text import example
from semistream.cli.local_spark import require_local_spark
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling

__all__ = ["EXAMPLE", "spark"]

EXAMPLE = example(
    "semistream bench spark --json --out spark.json",
    "semistream bench spark --rows 20000000 --batch-rows 100000",
    "semistream bench spark --quick",
)


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def spark(
    rows: Annotated[
        list[int] | None,
        typer.Option(
            help="Rows of 120 bytes in the master table; can be repeated.", show_default=_listed(SparkSpec.rows)
        ),
    ] = None,
    batch_rows: Annotated[
        list[int] | None,
        typer.Option(
            help="Rows of a micro-batch; can be repeated, largest first.", show_default=_listed(SparkSpec.batch_rows)
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small tables, in minutes and without verdicts.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of tables and streams.")] = SparkSpec.seed,
    data_dir: Annotated[
        Path, typer.Option(help="Where tables and streams are kept: 40 GB at the default sizes.")
    ] = Path("bench-data"),
    out: Annotated[Path | None, typer.Option(help="Result file, written after every plan.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Measure the time of a micro-batch on local Spark: our join, Spark's own joins, and passing rows through.

    The default sizes take about an hour, tables included, which are made once. Needs Java 17 or newer.
    """
    require_local_spark("the benchmark on Spark")
    from semistream.bench.spark.run import run_spark

    given = {"rows": rows, "batch_rows": batch_rows}
    axes: dict[str, Any] = {name: tuple(values) for name, values in given.items() if values}
    spec = replace(QUICK if quick else SparkSpec(), seed=seed, **axes)
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite)

    def keep(result: BenchResult) -> None:
        if out is not None:
            write_result(result, out)

    with telling() as report:
        result = run_spark(spec, data_dir, report, keep)
    keep(result)
    if as_json:
        typer.echo(result.to_json())
    else:
        Console().print(_table(result))
        print_entries(result, "the default sizes")


def _table(result: BenchResult) -> Table:
    table = Table("master rows", "batch", "plan", "median s", "batches", "note")
    for cell in result.cells:
        found = PlanResult(**cell)
        note = ("cold" if found.is_cold else "") if found.failure is None else found.failure[:60]
        seconds = f"{found.median_s:.3f}" if found.batch_s else "-"
        table.add_row(f"{found.rows:,}", f"{found.batch_rows:,}", found.plan, seconds, str(len(found.batch_s)), note)
    return table
