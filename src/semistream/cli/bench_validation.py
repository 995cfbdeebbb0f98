"""``semistream bench validation``: the cost models against what is measured."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.result_file import BenchResult, read_result, write_result
from semistream.bench.validation import DEFAULT, QUICK, run_validation
from semistream.bench.validation.cells import CLOCKS, ValidatedCell
from semistream.cli.bench_report import print_entries
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling
from semistream.core.errors import InvalidArgument

__all__ = ["EXAMPLE", "validation"]

EXAMPLE = example(
    "semistream bench validation --json --out validation.json",
    "semistream bench validation --out validation.json --resume",
    "semistream bench validation --quick --algorithm meshjoin --algorithm hybridjoin",
)


def validation(
    rows: Annotated[
        list[int] | None, typer.Option(help="Rows of 120 bytes in the master table; can be repeated.")
    ] = None,
    skew: Annotated[list[float] | None, typer.Option(help="Zipf exponent of the stream; can be repeated.")] = None,
    memory: Annotated[
        list[float] | None, typer.Option(help="Budget as a share of the table, such as 0.05; can be repeated.")
    ] = None,
    algorithm: Annotated[list[str] | None, typer.Option(help="Algorithm to run; can be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small grid, without verdicts.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of tables and streams.")] = DEFAULT.seed,
    data_dir: Annotated[Path, typer.Option(help="Where the tables are kept: 0.5 GB at the default size.")] = Path(
        "bench-data"
    ),
    out: Annotated[Path | None, typer.Option(help="Result file, written after every cell of the grid.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cells of --out that this commit measured, and measure the rest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Compare predicted with measured rates and loop costs of all operators, and the choices that follow from them.

    Cost factors are measured first, on the same tables, with other budgets and skews than the grid has.
    """
    given = {"rows": rows, "skews": skew, "memory_shares": memory, "algorithms": algorithm}
    axes: dict[str, Any] = {name: tuple(values) for name, values in given.items() if values}
    spec = replace(QUICK if quick else DEFAULT, seed=seed, **axes)
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite or resume)
    if resume and out is None:
        raise InvalidArgument("--resume needs --out: the result file whose cells are kept")
    resumed = read_result(out) if resume and out is not None and out.exists() else None

    def keep(result: BenchResult) -> None:
        if out is not None:
            write_result(result, out)

    with telling() as report:
        result = run_validation(spec, data_dir, report, keep, resumed)
    keep(result)
    if as_json:
        typer.echo(result.to_json())
    else:
        Console().print(_table(result))
        print_entries(result, f"{DEFAULT.rows[0]:,} rows, with all skews, budgets and algorithms")


def _table(result: BenchResult) -> Table:
    """Return predicted / measured rate of every operator, by skew and memory, on both clocks."""
    cells = [ValidatedCell.from_dict(content) for content in result.cells]
    table = Table("algorithm", "skew", "M", "advised for", *(f"rate, {clock}" for clock in CLOCKS), box=None)
    table.title = "predicted / measured"
    for found in cells:
        cell = found.cell
        ratios = [_ratio(found, clock) for clock in CLOCKS]
        share = f"{100 * cell.memory_share:.3g}%"
        table.add_row(str(found), f"{cell.skew:g}", share, found.advised_on or "", *ratios)
    return table


def _ratio(found: ValidatedCell, clock: str) -> str:
    if found.errors(clock) is None:
        return "too small" if found.measured_cell.skipped is not None else "no prediction"
    return f"{found.predicted[clock].tuples_per_s / found.measured[clock].tuples_per_s:.2f}"
