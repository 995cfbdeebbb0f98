"""Runs the benchmark of punctuated streams from beginning to end."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from semistream.bench.provenance import collect_provenance
from semistream.bench.punctuated.dict_join import bench_memory
from semistream.bench.punctuated.experiments import (
    Found,
    bench_choice,
    bench_purging,
    bench_scheduling,
    bench_xjoin,
)
from semistream.bench.punctuated.spec import PARTS, PunctuatedSpec
from semistream.bench.result_file import BenchResult, Entry

__all__ = ["run_punctuated"]

_EXPERIMENTS: dict[str, Callable[[PunctuatedSpec, Callable[[str], None]], Found]] = {
    "scheduling": bench_scheduling,
    "xjoin": bench_xjoin,
    "purging": bench_purging,
    "choice": bench_choice,
}


def run_punctuated(
    spec: PunctuatedSpec,
    data_dir: Path,
    report: Callable[[str], None] = lambda message: None,
    keep: Callable[[BenchResult], None] = lambda result: None,
) -> BenchResult:
    """Run all parts of ``spec``; the curves, and the courses of queries on Spark, are the cells of the result.

    Parameters
    ----------
    data_dir
        Where the streams for Spark are kept.
    report
        Is told what is being done, as it is done.
    keep
        Is given what has been found after every part.
    """
    provenance = collect_provenance(spec.seed)
    found: list[Entry] = []
    cells: list[dict[str, Any]] = []

    def result() -> BenchResult:
        judged = tuple(replace(entry, judged=spec.has_target_size) for entry in found)
        return BenchResult("punctuated", asdict(spec), provenance, judged, tuple(cells))

    for part in PARTS:
        if part in spec.parts:
            entries, part_cells = _measure(part, spec, data_dir, report)
            found += entries
            cells += part_cells
            keep(result())
    return result()


def _measure(
    part: str, spec: PunctuatedSpec, data_dir: Path, report: Callable[[str], None]
) -> tuple[list[Entry], list[dict[str, Any]]]:
    if part == "spark":
        from semistream.bench.punctuated.on_spark import bench_on_spark  # imports pyspark

        return bench_on_spark(spec, data_dir, report)
    if part == "memory":
        return bench_memory(spec, report), []
    entries, curves = _EXPERIMENTS[part](spec, report)
    return entries, [curve.as_cell() for curve in curves]
