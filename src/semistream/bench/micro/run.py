"""Runs the micro-benchmark from beginning to end."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from semistream.bench.micro.multimap import bench_multimap
from semistream.bench.micro.page_scan import bench_page_scan
from semistream.bench.micro.resident_memory import bench_resident_memory
from semistream.bench.micro.service_rate import bench_service_rate
from semistream.bench.micro.spec import PARTS, MicroSpec
from semistream.bench.micro.staged import staged_table
from semistream.bench.provenance import collect_provenance
from semistream.bench.result_file import BenchResult, Entry

__all__ = ["run_micro"]


def run_micro(spec: MicroSpec, data_dir: Path, report: Callable[[str], None] = lambda message: None) -> BenchResult:
    """Run all measurements of ``spec`` and return what they found.

    Parameters
    ----------
    spec
        What to measure.
    data_dir
        Where the master table is, or is staged at the first run.
    report
        Is told what is being done, as it is done.
    """
    provenance = collect_provenance(spec.seed)
    report("staging the master table")
    table = staged_table(spec, data_dir, lambda rows: report(f"staging the master table: {rows:,} rows"))
    measure: dict[str, Callable[[], list[Entry]]] = {
        "page-scan": lambda: bench_page_scan(spec, table, report),
        "multimap": lambda: bench_multimap(spec, report),
        "service-rate": lambda: bench_service_rate(spec, table, report),
        "resident-memory": lambda: bench_resident_memory(spec, table, report),
    }
    found = [entry for part in PARTS if part in spec.parts for entry in measure[part]()]
    entries = tuple(replace(entry, judged=spec.has_target_size) for entry in found)
    return BenchResult("micro", asdict(spec), provenance, entries)
