"""``semistream stage``: Parquet to master table."""

import json
from pathlib import Path
from typing import Annotated

import typer

from semistream.cli.help_text import example
from semistream.cli.parquet_files import num_parquet_rows
from semistream.cli.progress import counting
from semistream.core.errors import InvalidArgument
from semistream.core.sizes import format_bytes
from semistream.storage import stage as stage_table

__all__ = ["EXAMPLE", "stage"]

EXAMPLE = example("semistream stage customers.parquet warehouse/customers --key custkey")


def stage(
    data: Annotated[Path, typer.Argument(help="Parquet file or folder.")],
    table: Annotated[Path, typer.Argument(help="Folder of the new table.")],
    key: Annotated[str, typer.Option(help="Key column, or several separated by commas.")],
    layout: Annotated[str, typer.Option(help="clustered (sorted, can be looked up) or heap.")] = "clustered",
    buckets: Annotated[int, typer.Option(help="Parts into which rows are divided by key.")] = 1,
    page_bytes: Annotated[str, typer.Option(help="Size of a page.")] = "64KB",
    memory: Annotated[str, typer.Option(help="What sorting may take.")] = "512MB",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write Parquet data as a new master table, in bounded memory."""
    if not data.exists():
        raise InvalidArgument(f"data={str(data)!r} does not exist: give a Parquet file or folder")
    with counting(num_parquet_rows(data), "staging rows") as progress:
        staged = stage_table(
            data,
            table,
            key=key.split(","),
            layout=layout,
            buckets=buckets,
            page_bytes=page_bytes,
            memory=memory,
            progress=progress,
        )
    if as_json:
        facts = ("path", "version", "key", "layout", "buckets", "num_rows", "num_pages", "num_bytes")
        typer.echo(json.dumps({name: getattr(staged, name) for name in facts}))
    else:
        typer.echo(
            f"{staged.path}: version {staged.version}, {staged.num_rows:,} rows in {staged.num_pages:,} "
            f"pages, {format_bytes(staged.num_bytes)}"
        )
