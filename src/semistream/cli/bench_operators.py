"""``semistream bench operators``: every algorithm over table sizes, skews and budgets."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.operators import QUICK, OperatorsSpec, run_operators
from semistream.bench.operators.cells import CellResult
from semistream.bench.result_file import BenchResult, read_result, write_result
from semistream.cli.bench_report import print_entries
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling
from semistream.core.errors import InvalidArgument
from semistream.core.sizes import format_bytes
from semistream.cost.disk_profile import HDD

__all__ = ["EXAMPLE", "operators"]

EXAMPLE = example(
    "semistream bench operators --json --out operators.json",
    "semistream bench operators --out operators.json --resume",
    "semistream bench operators --quick --algorithm meshjoin --algorithm hybridjoin",
)

_LEGEND = f"""\
M: budget as a share of the table. disk/s: stream tuples per second on the {HDD.name}, by counted seeks and bytes alone.
here/s: on this machine, with * before the steady state was reached. pages: loads per 1,000 stream tuples.
cache: share answered through the cache. CPU: microseconds per stream tuple. proc. and wait: mean processing and
waiting time per tuple on the disk's clock, at {OperatorsSpec.arrival_share:.0%} of disk/s."""


def operators(
    rows: Annotated[
        list[int] | None, typer.Option(help="Rows of 120 bytes in the master table; can be repeated.")
    ] = None,
    skew: Annotated[list[float] | None, typer.Option(help="Zipf exponent of the stream; can be repeated.")] = None,
    memory: Annotated[
        list[float] | None, typer.Option(help="Budget as a share of the table, such as 0.05; can be repeated.")
    ] = None,
    algorithm: Annotated[list[str] | None, typer.Option(help="Algorithm to run; can be repeated.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small grid, in under a minute and without verdicts.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of tables and streams.")] = OperatorsSpec.seed,
    data_dir: Annotated[Path, typer.Option(help="Where the tables are kept: 5.3 GB at the default sizes.")] = Path(
        "bench-data"
    ),
    out: Annotated[Path | None, typer.Option(help="Result file, written after every cell of the grid.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cells of --out that this commit measured, and measure the rest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Measure service rates, page loads, cache shares, memory, and times per tuple of all operators.

    Rates are given on two clocks: what this machine took, and the counted reads on a 7200 rpm disk, by I/O alone.
    """
    given = {"rows": rows, "skews": skew, "memory_shares": memory, "algorithms": algorithm}
    axes: dict[str, Any] = {name: tuple(values) for name, values in given.items() if values}
    spec = replace(QUICK if quick else OperatorsSpec(), seed=seed, **axes)
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite or resume)
    resumed = _to_resume(out) if resume else None

    def keep(result: BenchResult) -> None:
        if out is not None:
            write_result(result, out)

    with telling() as report:
        result = run_operators(spec, data_dir, report, keep, resumed)
    keep(result)
    if as_json:
        typer.echo(result.to_json())
    else:
        for table in _tables(result):
            Console().print(table)
        typer.echo(_LEGEND)
        print_entries(result, " and ".join(f"{size:,} rows" for size in OperatorsSpec.rows))


def _to_resume(out: Path | None) -> BenchResult | None:
    if out is None:
        raise InvalidArgument("--resume needs --out: the result file whose cells are kept")
    return read_result(out) if out.exists() else None


def _tables(result: BenchResult) -> Iterator[Table]:
    """Yield a table for every size and skew."""
    results = [CellResult.from_dict(content) for content in result.cells]
    for rows, skew in dict.fromkeys((found.cell.rows, found.cell.skew) for found in results):
        columns = ("algorithm", "on", "M", "disk/s", "here/s", "pages", "cache", "CPU", "peak", "proc.", "wait")
        table = Table(*columns, title=f"{rows:,} rows, skew {skew:g}", box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for position, column in enumerate(table.columns):
            column.no_wrap = True
            column.justify = "left" if position < 2 else "right"
        for found in results:
            if (found.cell.rows, found.cell.skew) == (rows, skew):
                table.add_row(*_row(found))
        yield table


def _row(found: CellResult) -> list[str]:
    names = [found.cell.algorithm, found.cell.layout[:5], f"{100 * found.cell.memory_share:.2g}%"]
    if found.skipped is not None:
        return [*names, "too small"]
    is_steady = found.warm_up is not None and found.warm_up.is_steady
    return [
        *names,
        _short(found.disk(HDD.name).tuples_per_s),
        _short(found.tuples_per_s) + ("" if is_steady else "*"),
        _short(found.pages_per_1000_tuples),
        f"{found.cache_share:.0%}",
        _short(found.cpu_us_per_tuple),
        format_bytes(found.peak_bytes),
        _seconds(None if found.times is None else found.times.processing_s),
        _seconds(None if found.times is None else found.times.waiting_s),
    ]


def _short(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2g}s"
