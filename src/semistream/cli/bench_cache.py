"""``semistream bench cache``: hit ratios of the front stage's cache policies."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semistream.bench.cache import CacheSpec, run_cache
from semistream.bench.cache.run import HitRatio
from semistream.bench.cache.spec import POLICIES, WORKLOADS
from semistream.bench.result_file import BenchResult, write_result
from semistream.cli.help_text import example
from semistream.cli.output_path import require_folder_path, require_output_path
from semistream.cli.progress import telling

__all__ = ["EXAMPLE", "cache"]

EXAMPLE = example("semistream bench cache --json --out cache.json")

_LEGEND = """\
optimum: the share of the most frequent keys of the measured part, as many as the cache holds; by interval: the same for
a cache that holds the best keys of each interval of the locality stream."""


def cache(
    rows: Annotated[int, typer.Option(help="Rows of 120 bytes in the master table.")] = CacheSpec.rows,
    memory: Annotated[float, typer.Option(help="Budget as a share of the table.")] = CacheSpec.memory_share,
    cache_share: Annotated[float, typer.Option(help="The operators' option cache_share.")] = CacheSpec.cache_share,
    tuples: Annotated[
        int, typer.Option(help="Stream tuples of the warm-up, and as many measured.")
    ] = CacheSpec.measured_tuples,
    workload: Annotated[
        list[str] | None, typer.Option(help=f"Stream, of {', '.join(WORKLOADS)}; can be repeated.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"Policy to measure, of {', '.join(POLICIES)}; can be repeated.")
    ] = None,
    algorithm: Annotated[list[str] | None, typer.Option(help="Algorithm to run; can be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of table and streams.")] = CacheSpec.seed,
    data_dir: Annotated[Path, typer.Option(help="Where the table is kept: 250 MB at the default size.")] = Path(
        "bench-data"
    ),
    out: Annotated[Path | None, typer.Option(help="Result file to write.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing result file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result file to stdout.")] = False,
) -> None:
    """Measure how many tuples each cache policy answers, against the offline optimum at equal memory."""
    spec = CacheSpec(
        rows=rows,
        memory_share=memory,
        cache_share=cache_share,
        warm_up_tuples=tuples,
        measured_tuples=tuples,
        workloads=tuple(workload or WORKLOADS),
        policies=tuple(policy or POLICIES),
        algorithms=tuple(algorithm or CacheSpec.algorithms),
        seed=seed,
    )
    require_folder_path(data_dir, "data_dir")
    if out is not None:
        require_output_path(out, overwrite=overwrite)
    with telling() as report:
        result = run_cache(spec, data_dir, report)
    if out is not None:
        write_result(result, out)
    if as_json:
        typer.echo(result.to_json())
    else:
        Console().print(_as_table(result))
        typer.echo(_LEGEND)


def _as_table(result: BenchResult) -> Table:
    table = Table("algorithm", "stream", "policy", "hits", "optimum", "by interval", "keys", box=None, pad_edge=False)
    for column in table.columns[3:]:
        column.justify = "right"
    for ratio in (HitRatio(**cell) for cell in result.cells):
        table.add_row(
            ratio.algorithm,
            ratio.workload,
            ratio.policy,
            f"{ratio.hit_ratio:.1%}",
            f"{ratio.optimum:.1%}",
            "" if ratio.interval_optimum is None else f"{ratio.interval_optimum:.1%}",
            f"{ratio.capacity_keys:,}",
        )
    return table
