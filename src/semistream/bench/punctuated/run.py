"""Runs the benchmark of punctuated streams from beginning to end."""

from collections.abc import Callable
from dataclasses import asdict, replace

from semistream.bench.provenance import collect_provenance
from semistream.bench.punctuated.comparison import Curve
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


def run_punctuated(spec: PunctuatedSpec, report: Callable[[str], None] = lambda message: None) -> BenchResult:
    """Run all parts of ``spec``; the curves are the cells of the result.

    Parameters
    ----------
    report
        Is told what is being done, as it is done.
    """
    provenance = collect_provenance(spec.seed)
    # A part on another runtime is one more name in PARTS and one more line here.
    measure: dict[str, Callable[[], Found]] = {
        "scheduling": lambda: bench_scheduling(spec, report),
        "xjoin": lambda: bench_xjoin(spec, report),
        "purging": lambda: bench_purging(spec, report),
        "choice": lambda: bench_choice(spec, report),
        "memory": lambda: (bench_memory(spec, report), []),
    }
    entries: list[Entry] = []
    curves: list[Curve] = []
    for part in PARTS:
        if part in spec.parts:
            found_entries, found_curves = measure[part]()
            entries += found_entries
            curves += found_curves
    judged = tuple(replace(entry, judged=spec.has_target_size) for entry in entries)
    return BenchResult("punctuated", asdict(spec), provenance, judged, tuple(curve.as_cell() for curve in curves))
