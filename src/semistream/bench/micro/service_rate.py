"""MESHJOIN's service rate on a cold table against its bound: a window of tuples per raw scan of R."""

import time
from collections.abc import Callable
from itertools import cycle
from statistics import median

from semistream.bench.micro.mesh import meshjoin_with_share
from semistream.bench.micro.raw_scan import (
    disk_bytes_read,
    fastest_block_bytes,
    raw_scan_s,
    table_files,
)
from semistream.bench.micro.spec import MicroSpec
from semistream.bench.result_file import Entry
from semistream.operators.feeder import Feeder
from semistream.operators.meshjoin import Meshjoin
from semistream.storage import MasterTable, drop_pages
from semistream.workloads import stream

__all__ = ["bench_service_rate"]

_TARGET = 0.6
_RATIO_OF = "service rate: tuples answered per second / the bound, one window of tuples per plain cold scan of R"
_STREAM_TUPLES = 4_000_000


def bench_service_rate(spec: MicroSpec, table: MasterTable, report: Callable[[str], None]) -> list[Entry]:
    """Return one entry per budget."""
    paths = table_files(table)
    report("service rate: choosing the block size of plain reading")
    block_bytes = fastest_block_bytes(paths, cold=True)
    tuples = min(_STREAM_TUPLES, spec.rows)
    batches = list(stream(tuples, key_domain=spec.rows, seed=spec.seed))

    def scan_s() -> float:
        return raw_scan_s(paths, block_bytes, cold=True)

    return [_measure(spec, table, share, scan_s, Feeder(cycle(batches)), report) for share in spec.budget_shares]


def _measure(
    spec: MicroSpec,
    table: MasterTable,
    share: float,
    scan_s: Callable[[], float],
    feeder: Feeder,
    report: Callable[[str], None],
) -> Entry:
    name = f"MESHJOIN service rate, cold, memory {share:.0%} of R"
    raw_s, cycle_s, answered, rows_out, from_disk = [], [], [], [], []
    with meshjoin_with_share(table, share, "drop_behind") as op:
        report(f"{name}: filling the window")
        _run_cycle(op, feeder)
        for repeat in range(spec.repeats):
            report(f"{name}: scan {repeat + 1} of {spec.repeats}")
            raw_s.append(scan_s())
            drop_pages(table)
            disk_before = disk_bytes_read()
            before = op.metrics.tuples_answered
            started_s = time.perf_counter()
            rows_out.append(_run_cycle(op, feeder))
            cycle_s.append(time.perf_counter() - started_s)
            answered.append(op.metrics.tuples_answered - before)
            disk_after = disk_bytes_read()
            if disk_before is not None and disk_after is not None:
                from_disk.append((disk_after - disk_before) / table.num_bytes)
        memory = op.memory()
        rate = median(tuples / s for tuples, s in zip(answered, cycle_s, strict=True))
        bound = op.window_capacity_tuples / median(raw_s)
        details = {
            "ratio_of_fastest_runs": max(answered) / min(cycle_s) / (op.window_capacity_tuples / min(raw_s)),
            "tuples_per_s": round(rate),
            "bound_tuples_per_s": round(bound),
            "rows_out_per_s": round(median(rows / s for rows, s in zip(rows_out, cycle_s, strict=True))),
            "hS_tuples": op.window_capacity_tuples,
            "w_tuples": op.w,
            "b_pages": op.b,
            "iterations_per_cycle": op.iterations_per_cycle,
            "raw_scan_s": raw_s,
            "cycle_s": cycle_s,
            "share_read_from_disk": from_disk,
            "answered_per_cycle": answered,
            "budget_bytes": memory.budget_bytes,
            "memory_bytes": memory.components,
            "table_bytes": table.num_bytes,
        }
    return Entry(name, rate / bound, _TARGET, "at least", details, _RATIO_OF)


def _run_cycle(op: Meshjoin, feeder: Feeder) -> int:
    """Step through one scan of R with the stream buffer kept full, and return the rows that came out."""
    rows = 0
    for _ in range(op.iterations_per_cycle):
        feeder.fill(op)
        rows += sum(batch.num_rows for batch in op.step())
    return rows
