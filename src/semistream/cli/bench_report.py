"""How benchmarks print the figures that have targets."""

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.result_file import BenchResult

__all__ = ["print_entries"]

_VERDICTS = {True: "[green]met[/]", False: "[red]missed[/]", None: "-"}


def print_entries(result: BenchResult, target_size: str) -> None:
    """Print every figure beside its target, and what the figures are ratios of; nothing when there is none."""
    if not result.entries:
        return
    Console().print(_as_table(result))
    for line in dict.fromkeys(entry.ratio_of for entry in result.entries if entry.ratio_of):
        typer.echo(line)
    if not all(entry.judged for entry in result.entries):
        typer.echo(f"No verdict: the targets speak of the default size, {target_size}.")


def _as_table(result: BenchResult) -> Table:
    table = Table("figure", "value", "target", "", title=f"{result.benchmark}, {result.provenance.date}")
    for column in table.columns[1:3]:
        column.justify = "right"
    for entry in result.entries:
        table.add_row(entry.name, f"{entry.value:.3f}", f"{entry.bound} {entry.target:g}", _VERDICTS[entry.met])
    return table
