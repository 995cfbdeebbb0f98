"""``semistream bench reproduction``: the report that holds measured figures against the papers' claims."""

from pathlib import Path
from typing import Annotated

import typer

from semistream.bench.reproduction.report import write_report
from semistream.bench.reproduction.verdict import Verdict
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path
from semistream.core.errors import InvalidArgument

__all__ = ["EXAMPLE", "reproduction"]

EXAMPLE = example("semistream bench reproduction bench-data/figures --out docs/reproduction")


def reproduction(
    results: Annotated[Path, typer.Argument(help="Folder with result files of 'semistream figure'.")],
    out: Annotated[Path, typer.Option(help="Folder of the report; reasons.toml in it is read.")],
) -> None:
    """Write the reproduction report: the papers' claims beside what was measured, with verdicts."""
    if not results.is_dir():
        raise InvalidArgument(f"{str(results)!r} is not a folder: give that of the result files")
    require_folder_path(out, "out")
    judged = write_report(sorted(results.glob("*.json")), out)
    for verdict in Verdict:
        names = [f"{found.result.figure} ({found.result.scale})" for found in judged if found.on_disk is verdict]
        if names:
            typer.echo(f"{len(names):3} {verdict.value}: {', '.join(names)}")
    typer.echo(f"{out / 'README.md'} written")
