"""``semistream bench tuning``: a join that follows the arrival rate beside the best fixed one."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from semistream.bench.result_file import write_result
from semistream.bench.tuning import TuningSpec, run_tuning
from semistream.cli.bench_report import print_entries
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling

__all__ = ["EXAMPLE", "tuning"]

EXAMPLE = example("semistream bench tuning --json --out tuning.json")


def tuning(
    rows: Annotated[
        int | None, typer.Option(help="Rows of 120 bytes in the master table; 2,000,000 unless --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small table and few ticks: seconds, no verdicts.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of table, keys and bursts.")] = TuningSpec.seed,
    data_dir: Annotated[Path, typer.Option(help="Where the table is kept: 250 MB at the default size.")] = Path(
        "bench-data"
    ),
    out: Annotated[Path | None, typer.Option(help="Result file to write.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Replay a bursty stream on the clock of a 7200 rpm disk: memory of a self-tuned MESHJOIN and of a fixed one.

    About 20 minutes.
    """
    spec = replace(TuningSpec.quick() if quick else TuningSpec(), seed=seed)
    if rows is not None:
        spec = replace(spec, rows=rows)
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite)
    with telling() as report:
        result = run_tuning(spec, data_dir, report)
    if out is not None:
        write_result(result, out)
    if as_json:
        typer.echo(result.to_json())
    else:
        print_entries(result, f"{TuningSpec.rows:,} rows")
