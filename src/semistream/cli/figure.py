"""``semistream figure``: measure a figure of the papers, or draw its result file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.figures.figure_result import FigureResult, read_figure, write_figure
from semistream.bench.figures.plot import plot_figure
from semistream.bench.figures.runner import FigureRun, run_figure
from semistream.bench.figures.spec import SCALES, FigureSpec, figure_ids, load_figure
from semistream.bench.figures.store import MeasurementStore
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import estimating
from semistream.core.errors import InvalidArgument, SemistreamError

__all__ = ["EXAMPLE", "figure"]

EXAMPLE = example(
    "semistream figure --list",
    "semistream figure S0-5a --scale laptop",
    "semistream figure all --scale ci",
    "semistream figure plot bench-data/figures/S0-5a-laptop.json --out S0-5a.png",
)

_INTERRUPTED = 130


def figure(
    figure_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Figure, such as S0-5a; 'all'; or 'plot' to draw RESULT.")
    ] = None,
    result: Annotated[Path | None, typer.Argument(metavar="[RESULT]", help="Result file to draw with 'plot'.")] = None,
    scale: Annotated[
        str, typer.Option(help=f"How large, of {', '.join(SCALES)}: seconds, minutes, or the paper's sizes.")
    ] = "laptop",
    data_dir: Annotated[
        Path, typer.Option(help="Where tables, finished measurements and results are kept: 25 GB at scale paper.")
    ] = Path("bench-data"),
    real_data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets, for figures that need them.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Result file [default: DATA_DIR/figures/ID-SCALE.json]; the picture of 'plot'."),
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot/--no-plot", help="Draw the result beside the result file as well.")
    ] = True,
    plot_only: Annotated[bool, typer.Option("--plot-only", help="Draw what was measured; measure nothing.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of tables and streams.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew: replace the result file, and measure everything again.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
    list_figures: Annotated[bool, typer.Option("--list", help="Say which figures there are.")] = False,
) -> None:
    """Measure a figure of the papers and draw it; an interrupted run goes on where it stopped."""
    if list_figures:
        _print_figures()
        return
    if figure_id is None:
        raise InvalidArgument("which figure is not said: give its id; 'semistream figure --list' shows them all")
    if figure_id == "plot":
        _draw(result, out)
        return
    if result is not None:
        raise InvalidArgument(f"{str(result)!r} follows the figure: give a result file only after 'plot'")
    specs = [load_figure(name) for name in (figure_ids() if figure_id == "all" else [figure_id])]
    for spec in specs:
        spec.parameters(scale)  # an unknown scale raises, naming those that there are
    if figure_id == "all" and (out is not None or as_json):
        raise InvalidArgument("--out and --json speak of one figure: leave them out for all")
    require_folder_path(data_dir, "data_dir")
    paths = [out or data_dir / "figures" / f"{spec.id}-{scale}.json" for spec in specs]
    if plot_only:
        for path in paths:
            _plot(read_figure(path), path)
    else:
        run = FigureRun(data_dir, _real_data(real_data), seed, measure_again=overwrite)
        _run_all(specs, scale, run, paths, plot, as_json)


def _run_all(
    specs: Sequence[FigureSpec], scale: str, run: FigureRun, paths: Sequence[Path], plot: bool, as_json: bool
) -> None:
    """Run the figures; one that lacks its data does not keep the others from being run."""
    store = run.store()
    failed = []
    for spec, path in zip(specs, paths, strict=True):
        try:
            result = _run_one(spec, scale, run, path, store)
        except SemistreamError as error:
            if len(specs) == 1:
                raise
            typer.echo(f"semistream: figure {spec.id}: {error}", err=True)
            failed.append(spec.id)
            continue
        if as_json:
            typer.echo(result.to_json())
        else:
            _print(result)
            typer.echo(f"{path} written")
        if plot:
            _plot(result, path, quiet=as_json)
    if failed:
        raise InvalidArgument(f"{len(failed)} of {len(specs)} figures failed as said above: {', '.join(failed)}")


def _run_one(spec: FigureSpec, scale: str, run: FigureRun, path: Path, store: MeasurementStore) -> FigureResult:
    if path.parent.exists() or path.parent != run.data_dir / "figures":
        require_output_path(path, overwrite=True)
    resumed = read_figure(path) if path.exists() and not run.measure_again else None
    try:
        with estimating() as tell:
            keeping = run._replace(tell=tell, keep=lambda result: write_figure(result, path))
            return run_figure(spec, scale, keeping, resumed, store)
    except KeyboardInterrupt:
        where = f"what is finished is kept in {path}" if path.exists() else "nothing was finished"
        typer.echo(f"semistream: interrupted, {where}: the same command without --overwrite goes on", err=True)
        raise typer.Exit(_INTERRUPTED) from None


def _plot(result: FigureResult, path: Path, quiet: bool = False) -> None:
    picture = path.with_suffix(".png")
    plot_figure(result, picture)
    if not quiet:
        typer.echo(f"{picture} written")


def _draw(result: Path | None, out: Path | None) -> None:
    if result is None or out is None:
        raise InvalidArgument("'plot' needs a result file and --out: semistream figure plot RESULT --out PICTURE")
    require_output_path(out, overwrite=True)
    plot_figure(read_figure(result), out)
    typer.echo(f"{out} written")


def _real_data(given: Path | None) -> Path | None:
    if given is not None and not given.is_dir():
        raise InvalidArgument(f"real_data={str(given)!r} is not a folder: give the one with the real data sets")
    if given is None:
        beside = Path("..") / "shared" / "data"
        return beside if beside.is_dir() else None
    return given


def _print_figures() -> None:
    table = Table("figure", "title", "the paper's claim", box=None, pad_edge=False)
    for name in figure_ids():
        spec = load_figure(name)
        table.add_row(spec.id, spec.title, spec.claim)
    Console().print(table)


def _print(result: FigureResult) -> None:
    spec = result.figure_spec
    points = result.points
    clocks = list(dict.fromkeys(clock for point in points for clock in point.y))
    has_groups = any(point.group for point in points)
    table = Table("series", spec.x.label_of(), *clocks, title=f"{spec.id}: {spec.title}, {result.scale}", box=None)
    if has_groups:
        table.add_column("group")
    for column in table.columns[1 : 2 + len(clocks)]:
        column.justify = "right"
    for point in points:
        values = [f"{point.y[clock]:,.6g}" if clock in point.y else "-" for clock in clocks]
        table.add_row(point.series, f"{point.x:g}", *values, *([point.group] if has_groups else []))
    Console().print(table)
    typer.echo(f"The paper: {spec.claim}")
