"""``semistream bench punctuated``: joins of two punctuated streams."""

from pathlib import Path
from typing import Annotated

import typer

from semistream.bench.punctuated import PunctuatedSpec, run_punctuated
from semistream.bench.punctuated.spec import PARTS
from semistream.bench.result_file import BenchResult, write_result
from semistream.cli.bench_report import print_entries
from semistream.cli.help_text import example
from semistream.cli.local_spark import require_local_spark
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling

__all__ = ["EXAMPLE", "punctuated"]

EXAMPLE = example("semistream bench punctuated --json --out punctuated.json")


def punctuated(
    news: Annotated[
        int, typer.Option(help="News items, each with ten accesses; as many auctions.")
    ] = PunctuatedSpec.news,
    memory_auctions: Annotated[
        int, typer.Option(help="Auctions of the part memory, each with ten bids.")
    ] = PunctuatedSpec.memory_auctions,
    repeats: Annotated[int, typer.Option(help="Runs of each measurement.")] = PunctuatedSpec.repeats,
    spark_tuples: Annotated[
        int, typer.Option(help="Auctions and bids of the part spark.")
    ] = PunctuatedSpec.spark_tuples,
    data_dir: Annotated[Path, typer.Option(help="Where the streams for Spark are kept: 0.2 GB.")] = Path("bench-data"),
    seed: Annotated[int, typer.Option(help="Seed of the streams.")] = PunctuatedSpec.seed,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Part to measure, of {', '.join(PARTS)}; can be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Result file, written after every part.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Measure MJoin's scheduling, purging and choices, and MJoin against XJoin, SHJ, plain Python and Spark's join.

    About 20 minutes. The part spark needs Java 17 or newer; leave it out by naming others with --only.
    """
    spec = PunctuatedSpec(
        news=news,
        memory_auctions=memory_auctions,
        spark_tuples=spark_tuples,
        repeats=repeats,
        seed=seed,
        parts=tuple(only) if only else PARTS,
    )
    if "spark" in spec.parts:
        require_local_spark("the part spark")
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite)

    def keep(result: BenchResult) -> None:
        if out is not None:
            write_result(result, out)

    with telling() as report:
        result = run_punctuated(spec, data_dir, report, keep)
    if as_json:
        typer.echo(result.to_json())
    else:
        print_entries(result, f"{PunctuatedSpec.news:,} news and {PunctuatedSpec.memory_auctions:,} auctions")
        for line in _crossovers(result):
            typer.echo(line)


def _crossovers(result: BenchResult) -> list[str]:
    lines = []
    for entry in result.entries:
        if "crossover_outputs" in entry.details:
            outputs = entry.details["crossover_outputs"]
            where = "never" if outputs is None else f"from {outputs:,.0f} outputs on"
            lines.append(f"{entry.name}: less time than XJoin {where} (in S4: from 7,500 outputs on)")
    return lines
