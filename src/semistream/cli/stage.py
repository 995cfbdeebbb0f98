"""``semistream stage``: Parquet to master table."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from semistream.cli.arguments import example, require_folder_path
from semistream.cli.parquet_files import num_parquet_rows
from semistream.cli.progress import counting
from semistream.core.errors import InvalidArgument, TableExists, TableNotFound
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.storage import MasterTable, open_table
from semistream.storage import stage as stage_table

__all__ = ["EXAMPLE", "stage"]

EXAMPLE = example(
    "semistream stage customers.parquet warehouse/customers --key custkey",
    "semistream stage more-customers.parquet warehouse/customers --append",
)


def stage(
    data: Annotated[Path, typer.Argument(help="Parquet file or folder.")],
    table: Annotated[Path, typer.Argument(help="Folder of the table.")],
    key: Annotated[str | None, typer.Option(help="Key column of a new table, or several separated by commas.")] = None,
    layout: Annotated[
        str | None, typer.Option(help="clustered (sorted by key, for look-ups) or heap.", show_default="clustered")
    ] = None,
    buckets: Annotated[
        int | None, typer.Option(help="Number of parts to divide the rows into, by key.", show_default="1")
    ] = None,
    page_bytes: Annotated[
        str | None, typer.Option(help="Size of a page; 8KB is good for look-ups.", show_default="64KB")
    ] = None,
    memory: Annotated[str, typer.Option(help="Most memory that sorting may take.")] = "512MB",
    replace: Annotated[
        bool, typer.Option("--replace", help="Write a new version of an existing table, with this data alone.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Write a new version of an existing table, with this data added.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write Parquet data as a master table, in bounded memory: a new one, or a new version of an existing one."""
    if replace and append:
        raise InvalidArgument("--replace and --append exclude each other: give one of them")
    if not data.exists():
        raise InvalidArgument(f"data={str(data)!r} does not exist: give a Parquet file or folder")
    require_folder_path(table, "table")
    names = None if key is None else key.split(",")
    form = {"layout": layout, "buckets": buckets, "page_bytes": page_bytes}
    given: dict[str, Any] = {name: setting for name, setting in form.items() if setting is not None}
    with counting(num_parquet_rows(data), "staging rows") as progress:
        if replace or append:
            existing = open_table(table)
            _require_same_form(existing, names, given)
            write = existing.replace if replace else existing.append
            staged = write(data, memory=memory, progress=progress)
        elif names is None:
            raise InvalidArgument("a new table needs a key: give --key NAME")
        else:
            try:
                staged = stage_table(data, table, key=names, memory=memory, progress=progress, **given)
            except TableExists:
                raise TableExists(f"{os.fspath(table)!r} {_why_taken(table)}") from None
    if as_json:
        facts = ("path", "version", "key", "layout", "buckets", "num_rows", "num_pages", "num_bytes")
        typer.echo(json.dumps({name: getattr(staged, name) for name in facts}))
    else:
        typer.echo(
            f"{staged.path}: version {staged.version}, {staged.num_rows:,} rows in {staged.num_pages:,} "
            f"pages, {format_bytes(staged.num_bytes)}"
        )


def _require_same_form(table: MasterTable, key: list[str] | None, given: dict[str, Any]) -> None:
    """Raise `InvalidArgument` when an option contradicts the table that gets a new version."""
    wanted = dict(given)
    if "page_bytes" in given:
        wanted["page_bytes"] = parse_bytes(given["page_bytes"], "page_bytes")
    if key is not None:
        wanted["key"] = tuple(key)
    for name, setting in wanted.items():
        if getattr(table, name) != setting:
            raise InvalidArgument(
                f"{name}={setting!r} contradicts the table, which has {getattr(table, name)!r}: leave it out, "
                "or stage a new table"
            )


def _why_taken(table: Path) -> str:
    try:
        open_table(table)
    except TableNotFound:
        return "is not empty and holds no table: choose a new folder"
    return "holds a table: give --replace or --append, or choose a new folder"
