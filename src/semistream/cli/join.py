"""``semistream join``: Parquet stream and master table to Parquet."""

import json
import time
from pathlib import Path
from typing import Annotated, cast

import typer

from semistream.cli.arguments import example, parse_condition, parse_key, parse_options
from semistream.cli.parquet_files import ParquetStream, require_parquet_output, writing_parquet
from semistream.cli.progress import counting
from semistream.core.contract import Operator
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import How
from semistream.operators import algorithm_names
from semistream.runtime.local import operator, run
from semistream.storage import open_table

__all__ = ["EXAMPLE", "join"]

EXAMPLE = example(
    "semistream join orders.parquet --table warehouse/customers --on custkey --out enriched.parquet",
    "semistream join 2024/ --table t --on buyer=custkey --how left --memory 256MB --out out.parquet",
    "semistream join sales.parquet --table t --on id --condition 'valid_from <= ts < valid_to' --out out.parquet",
    "semistream join orders.parquet --table t --on id --algorithm chybridjoin --option cache_share=0.2 --out o.parquet",
)


def join(
    stream: Annotated[list[Path], typer.Argument(help="Parquet files or folders, read in this order as one stream.")],
    table: Annotated[Path, typer.Option(help="Folder of the master table.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    on: Annotated[str | None, typer.Option(help="Key: NAME, or STREAM=MASTER; several separated by commas.")] = None,
    condition: Annotated[
        str | None,
        typer.Option(
            help="Further condition: 'STREAM <= MASTER' (or <, >, >=), or 'MASTER <= STREAM < MASTER'; "
            "meshjoin takes one without --on."
        ),
    ] = None,
    null_is_open: Annotated[
        bool, typer.Option("--null-is-open", help="Read a NULL bound of a range condition as no bound.")
    ] = False,
    how: Annotated[str, typer.Option(help="inner, left, semi or anti.")] = "inner",
    algorithm: Annotated[str, typer.Option(help=f"One of {', '.join(algorithm_names())}, or auto.")] = "meshjoin",
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Setting of the algorithm as NAME=VALUE, such as cache_share=0.2 or shedding=keep; can be repeated. "
            "An unknown NAME is answered with the list of names."
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="The operator's budget.")] = "64MB",
    columns: Annotated[
        str | None, typer.Option(help="Master columns wanted, separated by commas; all by default.")
    ] = None,
    order: Annotated[str, typer.Option(help="any, or stream for output in stream order.")] = "any",
    overwrite: Annotated[bool, typer.Option(help="Replace an existing output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print metrics as JSON.")] = False,
) -> None:
    """Join a stream of Parquet files with a master table, in one process; on Spark use semistream.join in Python."""
    if condition is None and null_is_open:
        raise InvalidArgument("null_is_open goes with a range: give --condition, or leave it out")
    compared = None if condition is None else parse_condition(condition, null_is_open=null_is_open)
    if on is None and compared is None:
        raise InvalidArgument("the join has neither key nor condition: give --on or --condition")
    options = parse_options(algorithm, option or ())
    require_parquet_output(out, overwrite=overwrite)
    source = ParquetStream(stream)
    op = operator(
        algorithm,
        open_table(table),
        source.schema,
        on=None if on is None else parse_key(on),
        how=cast(How, how),  # checked by the operator
        condition=compared,
        columns=columns.split(",") if columns else None,
        memory=memory,
        order=order,
        **options,
    )
    started_s = time.perf_counter()
    with writing_parquet(out, op.spec.output_schema) as writer, counting(source.num_rows, "joining tuples") as progress:
        for batch in run(op, source):
            writer.write_batch(batch)
            progress(op.metrics.tuples_answered)
    _print_result(op, time.perf_counter() - started_s, as_json)


def _print_result(op: Operator, elapsed_s: float, as_json: bool) -> None:
    metrics, memory = op.metrics.as_dict(), op.memory()
    if as_json:
        held = {"budget_bytes": memory.budget_bytes, "components": memory.components}
        typer.echo(json.dumps({"elapsed_s": elapsed_s, "metrics": metrics, "memory": held}))
        return
    answered, rows = metrics["tuples_answered"], metrics["rows_out"]
    typer.echo(f"{answered:,} tuples answered, {rows:,} rows written in {elapsed_s:.1f} s")
    for name, count in metrics.items():
        if count:
            typer.echo(f"  {name.replace('_', ' '):24} {count:>15,}")
    typer.echo(f"memory {memory}")
