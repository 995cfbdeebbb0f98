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


def run_punctuated(
    spec: PunctuatedSpec, data_dir: Path, report: Callable[[str], None] = lambda message: None
) -> BenchResult:
    """Run all parts of ``spec``; the curves, and the courses of queries on Spark, are the cells of the result.

    Parameters
    ----------
    data_dir
        Where the streams for Spark are kept.
    report
        Is told what is being done, as it is done.
    """
    provenance = collect_provenance(spec.seed)
    measure: dict[str, Callable[[], Found]] = {
        "scheduling": lambda: bench_scheduling(spec, report),
        "xjoin": lambda: bench_xjoin(spec, report),
        "purging": lambda: bench_purging(spec, report),
        "choice": lambda: bench_choice(spec, report),
        "memory": lambda: (bench_memory(spec, report), []),
    }
    entries: list[Entry] = []
    cells: list[dict[str, Any]] = []
    for part in PARTS:
        if part in spec.parts and part in measure:
            found, curves = measure[part]()
            entries += found
            cells += [curve.as_cell() for curve in curves]
    if "spark" in spec.parts:
        from semistream.bench.punctuated.on_spark import bench_on_spark  # imports pyspark

        found, courses = bench_on_spark(spec, data_dir, report)
        entries += found
        cells += courses
    judged = tuple(replace(entry, judged=spec.has_target_size) for entry in entries)
    return BenchResult("punctuated", asdict(spec), provenance, judged, tuple(cells))
