"""``semistream bench`` and ``semistream figure``: measure, draw, report."""

import math
from collections.abc import Sequence
from copy import copy
from glob import escape
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from typer.core import TyperGroup

from semistream.bench.framework.measurement import VALUE
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.result_file import Result, read_result, write_result
from semistream.bench.framework.runner import Run, run_spec
from semistream.bench.framework.spec import Spec, figure_ids, load_spec, spec_ids
from semistream.bench.framework.store import MeasurementStore
from semistream.bench.framework.tables import Table, fill_page, points_table, targets_table
from semistream.bench.framework.targets import targets_of
from semistream.bench.reproduction.claim import Verdict
from semistream.bench.reproduction.report import write_report
from semistream.cli.arguments import example, require_folder_path, require_output_path
from semistream.cli.local_spark import require_local_spark
from semistream.cli.progress import estimating
from semistream.core.errors import InvalidArgument, SemistreamError

__all__ = ["FIGURE_EXAMPLE", "PARAMETERS", "app", "run"]

FIGURE_EXAMPLE = example(
    "semistream figure --list", "semistream figure S0-5a --scale laptop", "semistream figure all --quick"
)
PARAMETERS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Unknown options are parameters of the spec."""

_EXAMPLE = example(
    "semistream bench --list",
    "semistream bench micro --quick",
    "semistream bench spark --rows 20000000",
    "semistream bench operators --only SSBJ --out ssbj.json",
    "semistream bench plot bench-data/results/micro.json --out micro.png",
)
_INTERRUPTED = 130


class _Benchmarks(TyperGroup):
    """Reads the name of a benchmark or figure as the command ``run`` with that name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not args or args[0] in self.commands or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        _, command, rest = super().resolve_command(ctx, ["run", *args])
        if command is not None and "--help" in args and args[0] in (*spec_ids(), *figure_ids()):
            command = copy(command)
            command.help, command.epilog = _help_of(load_spec(args[0])), example(f"semistream bench {args[0]} --quick")
        return args[0], command, rest


def _help_of(spec: Spec) -> str:
    """Return the description of a spec, and the options that set its parameters."""
    known = spec.parameters(spec.scale_of_targets)
    texts = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in known.items()}
    options = [f"  --{name.replace('_', '-')} {text}" for name, text in texts.items()]
    heading = f"Parameters are options too, at scale {spec.scale_of_targets} with these values:"
    return "\n".join([f"{spec.title}.", "", spec.about, "", heading, "", "\b", *options])


app = typer.Typer(
    cls=_Benchmarks,
    help="Run benchmarks and figures by name, and draw and report their result files.",
    invoke_without_command=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    subcommand_metavar="NAME|COMMAND [OPTIONS]...",
    epilog=_EXAMPLE,
)


@app.callback()
def _bench(list_all: Annotated[bool, typer.Option("--list", help="List all benchmarks and figures.")] = False) -> None:
    if list_all:
        _print_specs([*spec_ids(), *figure_ids()])
        raise typer.Exit


@app.command("run", hidden=True, context_settings=PARAMETERS, epilog=_EXAMPLE)
def run(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Name of a benchmark or figure, or 'all'.")] = None,
    scale: Annotated[str | None, typer.Option(help="Size: quick or full; for figures quick, laptop or paper.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The same as --scale quick: seconds, and without verdicts.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure only what has this in its name, such as a series; repeatable.")
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Folder for tables, finished measurements and results: up to 65 GB at full size.")
    ] = Path("bench-data"),
    real_data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets, for figures that need them.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of tables and streams.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Result file [default: DATA_DIR/results/NAME.json].")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew: replace the result file, and measure everything again.")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Also draw the result beside the result file.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the names.")] = False,
) -> None:
    """Measure and draw a benchmark or a figure of the papers; an interrupted run goes on where it stopped.

    Other options set parameters of its spec file, such as --rows 20000000; lists are separated by commas.
    """
    known = figure_ids() if context.command.name == "figure" else spec_ids()
    if list_all:
        _print_specs(known)
        return
    if name is None:
        raise InvalidArgument("the name is missing: give one; --list shows them all")
    if quick and scale not in (None, "quick"):
        raise InvalidArgument(f"--quick and --scale {scale} are two scales: give one of them")
    names = known if name == "all" else [name]
    settings = Run(data_dir, _real_data(real_data), seed, tuple(only or ()), measure_again=overwrite)
    if len(names) > 1 and (out is not None or as_json):
        raise InvalidArgument("--out and --json speak of one benchmark: leave them out for all")
    specs = []
    for each in names:
        spec = load_spec(each)
        if len(names) == 1:
            _require_spark(spec)
        here = "quick" if quick else scale or spec.scale_of_targets
        specs.append((spec.with_parameters(here, _parameters(spec.parameters(here), context.args)), here))
    _make_folder(data_dir)
    store = settings.store()
    failed = []
    for spec, here in specs:
        try:
            _run_one(spec, here, settings, store, out, plot, as_json)
        except SemistreamError as error:
            if len(specs) == 1:
                raise
            typer.echo(f"semistream: {spec.id}: {error}", err=True)
            failed.append(spec.id)
    if failed:
        raise InvalidArgument(f"{len(failed)} of {len(specs)} failed, see above: {', '.join(failed)}")


@app.command("plot", epilog=example("semistream bench plot bench-data/results/micro.json --out micro.png"))
def _plot(
    result: Annotated[Path, typer.Argument(help="Result file.")],
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.")],
) -> None:
    """Draw a result file; nothing is measured again."""
    require_output_path(out, overwrite=True)
    plot_result(read_result(result), out)
    typer.echo(f"{out} written")


@app.command("report", epilog=example("semistream bench report bench-data/results --out docs/reproduction/README.md"))
def _report(
    results: Annotated[Path, typer.Argument(help="Folder with result files of figures; pictures are drawn into it.")],
    out: Annotated[Path, typer.Option(help="Page to write; reasons.toml beside it is read.")],
) -> None:
    """Write the reproduction report: the papers' claims beside the measured figures, with verdicts."""
    if not results.is_dir():
        raise InvalidArgument(f"{str(results)!r} is not a folder: give the folder of the result files")
    require_output_path(out, overwrite=True)
    judged = write_report(sorted(results.glob("*.json")), out)
    for verdict in Verdict:
        names = [found.result.name for found in judged if found.on_disk is verdict]
        if names:
            typer.echo(f"{len(names):3} {verdict.value}: {', '.join(names)}")
    typer.echo(f"{out} written")


@app.command("fill", epilog=example("semistream bench fill README.md docs/benchmarks.md"))
def _fill(
    pages: Annotated[
        list[Path], typer.Argument(help="Markdown pages; they name result files relative to the working folder.")
    ],
) -> None:
    """Fill the tables of figures in pages again, from the result files that the pages name."""
    for page in pages:
        typer.echo(f"{page}: {fill_page(page, Path())} tables written")


def _make_folder(path: Path) -> None:
    require_folder_path(path, "data_dir")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(f"cannot make the folder {str(path)!r}: {error.strerror}") from None


def _run_one(
    spec: Spec, scale: str, run: Run, store: MeasurementStore, out: Path | None, plot: bool, as_json: bool
) -> None:
    _require_spark(spec)
    path = out or run.data_dir / "results" / f"{spec.id}{'' if scale == 'full' else f'-{scale}'}.json"
    picture = path.with_suffix(".png")
    if plot and picture == path:
        raise InvalidArgument(f"out={str(path)!r} is where the picture goes: give the result file a name in .json")
    if out is not None:
        require_output_path(path, overwrite=True)
    resumed = read_result(path) if path.exists() and not run.measure_again else None
    try:
        with estimating() as tell:
            keeping = run._replace(tell=tell, keep=lambda result: write_result(result, path))
            result = run_spec(spec, scale, keeping, resumed, store)
    except KeyboardInterrupt:
        where = f"what is finished is kept in {path}" if path.exists() else "nothing was finished"
        typer.echo(f"semistream: interrupted, {where}: the same command without --overwrite goes on", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if plot:
        plot_result(result, picture)
    if as_json:
        typer.echo(result.to_json())
        return
    _print(result)
    typer.echo(f"{path}{f' and {picture}' if plot else ''} written")


def _require_spark(spec: Spec) -> None:
    if spec.needs_spark:
        require_local_spark(f"the benchmark {spec.id} on Spark")


def _parameters(known: dict[str, Any], extra: Sequence[str]) -> dict[str, Any]:
    """Read unknown options as parameters: ``--rows 1000`` or ``--rows=1000``."""
    given: dict[str, Any] = {}
    texts = list(extra)
    while texts:
        name, has_value, value = texts.pop(0).partition("=")
        if not name.startswith("--") or (not has_value and not texts):
            raise InvalidArgument(f"{name!r} cannot be read: set a parameter as --NAME VALUE, such as --rows 1000")
        name = name.removeprefix("--").replace("-", "_")
        if name not in known:
            raise InvalidArgument(f"option --{name} is unknown: parameters of this spec are {', '.join(known)}")
        given[name] = _value(name, value if has_value else texts.pop(0), known[name])
    return given


def _value(name: str, text: str, known: Any) -> Any:
    """Return ``text`` as a value of the type of ``known``."""
    if isinstance(known, list):
        return [_value(name, part.strip(), known[0] if known else "") for part in text.split(",")]
    if isinstance(known, bool):
        if text not in ("true", "false"):
            raise InvalidArgument(f"{name}={text!r} is neither true nor false: give one of them")
        return text == "true"
    if isinstance(known, int | float):
        try:
            number = type(known)(text.replace("_", ""))
            if not math.isfinite(number):
                raise ValueError
            return number
        except (OverflowError, ValueError):
            kind = "a whole number" if isinstance(known, int) else "a number"
            raise InvalidArgument(f"{name}={text!r} is not {kind}: give one") from None
    if not isinstance(known, str):
        raise InvalidArgument(f"{name} is a table of the spec and no option: change the spec file")
    return text


def _real_data(given: Path | None) -> Path | None:
    beside = Path("..") / "shared" / "data"
    if given is None:
        return beside if beside.is_dir() else None
    if not given.is_dir():
        raise InvalidArgument(f"real_data={str(given)!r} is not a folder: give the folder of the real data sets")
    return given


def _print_specs(names: Sequence[str]) -> None:
    _print_table(Table(["name", "title"], [[name, load_spec(name).title] for name in names], 2))


def _print(result: Result) -> None:
    spec = result.spec_as_run
    for group, shown in dict.fromkeys((point.group, name) for point in result.points for name in point.y):
        title = ", ".join(part for part in (spec.id, group, "" if shown == VALUE else shown) if part)
        _print_table(points_table(result, shown, escape(group)), f"{title}: {spec.y.label_of(shown, group)}")
    targets = targets_table(result)
    if targets.rows:
        _print_table(targets, f"{spec.id}: targets")
    if targets_of(spec.id) and not load_spec(spec.id).has_size_of_targets(spec.parameters(result.scale)):
        typer.echo("No verdict: the targets speak of the full size.")
    elif targets.rows and not result.is_complete:
        typer.echo(f"The run is not finished, {len(result.missing)} measurements are missing: some verdicts are open.")
    typer.echo(f"The paper: {spec.about}" if spec.is_figure else spec.about)


def _print_table(content: Table, title: str | None = None) -> None:
    table = RichTable(*content.head, title=title, box=None, pad_edge=False)
    for column in table.columns[content.names :]:
        column.justify = "right"
    for row in content.rows:
        table.add_row(*row)
    Console(markup=False).print(table)  # brackets in names are no markup
