"""The application with its commands; an error ends it with one line."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from semistream import SemistreamError, __version__
from semistream.cli import advise, bench, demo, doctor, join, stage
from semistream.cli.arguments import example

__all__ = ["app"]


class _OneLineErrors(TyperGroup):
    """Ends a command that met a `SemistreamError` with one line; other errors keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SemistreamError as error:
            typer.echo(f"semistream: {error}", err=True)
            raise typer.Exit(1) from None


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
