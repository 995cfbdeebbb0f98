"""``semistream bench``: run a benchmark, or plot a result file."""

from pathlib import Path
from typing import Annotated

import typer

from semistream.bench.micro import MicroSpec, run_micro
from semistream.bench.micro.spec import PARTS
from semistream.bench.plot import plot_result
from semistream.bench.result_file import read_result, write_result
from semistream.cli.bench_cache import EXAMPLE as CACHE_EXAMPLE
from semistream.cli.bench_cache import cache
from semistream.cli.bench_operators import EXAMPLE as OPERATORS_EXAMPLE
from semistream.cli.bench_operators import operators
from semistream.cli.bench_punctuated import EXAMPLE as PUNCTUATED_EXAMPLE
from semistream.cli.bench_punctuated import punctuated
from semistream.cli.bench_report import print_entries
from semistream.cli.bench_reproduction import EXAMPLE as REPRODUCTION_EXAMPLE
from semistream.cli.bench_reproduction import reproduction
from semistream.cli.bench_spark import EXAMPLE as SPARK_EXAMPLE
from semistream.cli.bench_spark import spark
from semistream.cli.bench_tuning import EXAMPLE as TUNING_EXAMPLE
from semistream.cli.bench_tuning import tuning
from semistream.cli.bench_validation import EXAMPLE as VALIDATION_EXAMPLE
from semistream.cli.bench_validation import validation
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling

__all__ = ["app"]

app = typer.Typer(
    help="Run benchmarks, and plot their result files.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=example("semistream bench micro --out result.json", "semistream bench plot result.json --out result.png"),
)


@app.command("micro", epilog=example("semistream bench micro --json --out result.json"))
def micro(
    rows: Annotated[int, typer.Option(help="Rows of 120 bytes in the master table.")] = MicroSpec.rows,
    seed: Annotated[int, typer.Option(help="Seed of table and stream.")] = MicroSpec.seed,
    repeats: Annotated[int, typer.Option(help="Runs of each measurement.")] = MicroSpec.repeats,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Part to measure, of {', '.join(PARTS)}; can be repeated.")
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="Where the table is kept: 2.4 GB at the default size.")] = Path(
        "bench-data"
    ),
    out: Annotated[Path | None, typer.Option(help="Result file to write.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Measure page scans, multi-map kernels, MESHJOIN's service rate and resident memory."""
    spec = MicroSpec(rows=rows, seed=seed, repeats=repeats, parts=tuple(only) if only else PARTS)
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite)
    with telling() as report:
        result = run_micro(spec, data_dir, report)
    if out is not None:
        write_result(result, out)
    if as_json:
        typer.echo(result.to_json())
    else:
        print_entries(result, f"{MicroSpec.rows:,} rows")


app.command("operators", epilog=OPERATORS_EXAMPLE)(operators)
app.command("cache", epilog=CACHE_EXAMPLE)(cache)
app.command("spark", epilog=SPARK_EXAMPLE)(spark)
app.command("punctuated", epilog=PUNCTUATED_EXAMPLE)(punctuated)
app.command("validation", epilog=VALIDATION_EXAMPLE)(validation)
app.command("reproduction", epilog=REPRODUCTION_EXAMPLE)(reproduction)
app.command("tuning", epilog=TUNING_EXAMPLE)(tuning)


@app.command("plot", epilog=example("semistream bench plot result.json --out result.png"))
def plot(
    result: Annotated[Path, typer.Argument(help="Result file, from --out of a benchmark.")],
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.")],
) -> None:
    """Draw the figures of a result file against their targets; nothing is measured again."""
    require_output_path(out, overwrite=True)
    plot_result(read_result(result), out)
    typer.echo(f"{out} written")
