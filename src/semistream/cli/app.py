"""The application with its commands; an error ends it with one line."""

import errno
import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from semistream import SemistreamError, __version__
from semistream.cli import advise, bench, demo, doctor, join, stage
from semistream.cli.arguments import example

__all__ = ["app"]


class _OneLineErrors(TyperGroup):
    """Ends a command with one line if it met a `SemistreamError` or a full disk; other errors keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SemistreamError as error:
            reason = str(error)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            reason = f"{os.strerror(error.errno)}: free some, or give another folder"
        typer.echo(f"semistream: {reason}", err=True)
        raise typer.Exit(1)


app = typer.Typer(
    cls=_OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=example("semistream demo"),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"semistream {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Exact joins of a stream with a disk-based table inside a fixed memory budget."""


app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("stage", epilog=stage.EXAMPLE)(stage.stage)
app.command("join", epilog=join.EXAMPLE)(join.join)
app.command("advise", epilog=advise.EXAMPLE)(advise.advise)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.command(
    "figure",
    help="Measure a figure of the papers and draw it; an interrupted run goes on where it stopped.",
    epilog=bench.FIGURE_EXAMPLE,
    context_settings=bench.PARAMETERS,
)(bench.run)
app.add_typer(bench.app, name="bench")
