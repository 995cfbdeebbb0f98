"""``semistream advise``: algorithm, memory and page size for a table and a rate."""

import json
import math
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.advice_plot import draw_advice
from semistream.cli.arguments import example, parse_key, require_output_path
from semistream.cli.parquet_files import ParquetStream
from semistream.cli.progress import telling
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import How
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.cost.advice.advice import Advice, Alternative
from semistream.cost.advice.advisor import advise as find_advice
from semistream.cost.calibration.calibrate import calibrate as measure
from semistream.cost.calibration.calibration_file import CLOCK_NAMES, save_calibration
from semistream.storage import open_table

__all__ = ["EXAMPLE", "advise"]

EXAMPLE = example(
    "semistream advise warehouse/customers --rate 50000 --sample orders.parquet --calibrate",
    "semistream advise warehouse/customers --memory 256MB --skew 0.8 --missing-share 0.05",
    "semistream advise warehouse/customers --rate 5000 --memory 64MB --clock hdd --plot advice.png",
    "semistream advise warehouse/customers --on buyer=custkey --memory 1GB --json",
)

_MOST_LINES = 12
_WIDE_ENOUGH = 200  # without a terminal, no line is cut


def advise(
    table: Annotated[Path, typer.Argument(help="Folder of the master table.")],
    rate: Annotated[float | None, typer.Option(help="Tuples per second that the join must keep up with.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of the join, such as 256MB.")] = None,
    on: Annotated[
        str | None,
        typer.Option(help="Key: NAME, or STREAM=MASTER; several separated by commas. The table's key by default."),
    ] = None,
    how: Annotated[str, typer.Option(help="inner, left, semi or anti.")] = "inner",
    columns: Annotated[
        str | None, typer.Option(help="Master columns wanted, separated by commas; all by default.")
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(help="Parquet file or folder with tuples of the stream: skew and missing keys are estimated."),
    ] = None,
    skew: Annotated[float | None, typer.Option(help="Zipf exponent of the stream's keys, such as 1.")] = None,
    missing_share: Annotated[float | None, typer.Option(help="Share of tuples without a row, from 0 to 1.")] = None,
    clock: Annotated[str, typer.Option(help=f"Hardware to predict times for: {', '.join(CLOCK_NAMES)}.")] = "machine",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine on the table first; takes a few minutes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw rate against memory into this PNG or SVG file.")] = None,
) -> None:
    """Recommend algorithm, layout, page size, settings and memory for a join, by the cost models."""
    if rate is None and memory is None:
        raise InvalidArgument("advice needs a rate or a memory: give --rate, --memory or both")
    if plot is not None:
        require_output_path(plot, overwrite=True)
        if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InvalidArgument(f"plot={str(plot)!r} is not a picture: name it .png, .svg or .pdf")
    if calibrate and clock != "machine":
        raise InvalidArgument(f"--calibrate measures this machine, and --clock {clock} is another: leave one out")
    opened = open_table(table)
    tuples = None if sample is None else ParquetStream([sample])
    keys = None if on is None else parse_key(on)
    with telling() as tell:
        if calibrate:
            memory_bytes = None if memory is None else parse_bytes(memory, "memory")
            has_key = tuples is not None and set(opened.key) <= set(tuples.schema.names)
            schema = tuples.schema if tuples is not None and has_key else None
            save_calibration(measure(opened, memory_bytes=memory_bytes, stream_schema=schema, progress=tell))
        advice = find_advice(
            opened,
            sample=tuples,
            on=keys,
            how=cast(How, how),  # checked by the advisor
            columns=columns.split(",") if columns else None,
            rate=rate,
            memory=memory,
            clock=clock,
            skew=skew,
            missing_share=missing_share,
            progress=tell,
        )
        if plot is not None:
            tell(f"drawing {plot}")
            draw_advice(advice, plot)
    if as_json:
        typer.echo(json.dumps(advice.as_dict()))
    else:
        _print(advice)


def _print(advice: Advice) -> None:
    best = advice.recommended
    staged = f"staged again with --buckets {advice.buckets} for Spark" if best.stage_again else "as it is"
    typer.echo(f"Recommended: {best}, {staged}, {_with_what(best)}.")
    typer.echo(advice.why)
    if advice.stream is not None:
        typer.echo(f"The sample: {advice.stream}.")
    if advice.assumptions:
        typer.echo(f"Assumed: {'; '.join(advice.assumptions)}.")
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in best.prediction.plan.memory.items())
    typer.echo(f"Memory: {parts}.")
    out = Console()
    Console(width=out.width if out.is_terminal else _WIDE_ENOUGH).print(_as_table(advice))
    if len(advice.alternatives) > _MOST_LINES:
        typer.echo(f"{len(advice.alternatives) - _MOST_LINES} more with --json.")
    for name, why in advice.left_out.items():
        typer.echo(f"Without {name}: {why}.")


def _with_what(alternative: Alternative) -> str:
    settings = ", ".join(f"{name}={value:g}" for name, value in alternative.settings.items())
    clock, budget_bytes = alternative.prediction.clock, alternative.prediction.budget_bytes
    text = f"{settings}: " if settings else ""
    text += f"{_rate(alternative.tuples_per_s)} tuples/s on {clock} with {format_bytes(budget_bytes)}"
    if alternative.least_memory_bytes is not None and alternative.least_memory_bytes < budget_bytes:
        text += f"; {format_bytes(alternative.least_memory_bytes)} do for the rate asked for"
    return text


def _as_table(advice: Advice) -> Table:
    table = Table(title=None, box=None, pad_edge=False)
    table.add_column("algorithm")
    table.add_column("layout")
    for title in ("pages", "tuples/s", "memory", "least memory", "cached", "waiting", "processing"):
        table.add_column(title, justify="right")
    table.add_column("good settings")
    for each in advice.alternatives[:_MOST_LINES]:
        times = each.prediction.times
        table.add_row(
            each.algorithm,
            each.layout + ("" if each.stage_again else " (as it is)"),
            format_bytes(each.page_bytes),
            _rate(each.tuples_per_s) + (" !" if each.meets_rate is False else ""),
            format_bytes(each.prediction.plan.memory_bytes),
            "" if each.least_memory_bytes is None else format_bytes(each.least_memory_bytes),
            f"{each.cache_share:.0%}",
            "" if times is None else _seconds(times.waiting_s),
            "" if times is None else _seconds(times.processing_s),
            ", ".join(f"{name} {low:g}-{high:g}" for name, (low, high) in each.good_settings.items()),
        )
    return table


def _rate(tuples_per_s: float) -> str:
    return f"{tuples_per_s:,.0f}" if math.isfinite(tuples_per_s) else "no limit"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
