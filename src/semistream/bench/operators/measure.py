"""Measures one cell: the steady state, then times at a lower arrival rate."""

import time
from typing import Any

from semistream.bench.operators.arrivals import measure_times
from semistream.bench.operators.cells import Cell, CellResult
from semistream.bench.operators.spec import OperatorsSpec
from semistream.bench.operators.steady import Effort, measure_steady
from semistream.bench.prepared_stream import PreparedStream
from semistream.core.errors import BudgetTooSmall
from semistream.cost.disk_profile import HDD
from semistream.cost.yardstick import Yardstick
from semistream.operators.step_operator import StepOperator
from semistream.runtime.local import operator
from semistream.storage import MasterTable, drop_pages
from semistream.workloads import Workload, synthetic

__all__ = ["endless_stream", "make_operator", "measure_cell"]


def make_operator(
    name: str, table: MasterTable, budget_bytes: int, workload: Workload | None = None, **options: Any
) -> StepOperator:
    """Return an operator for ``workload``, the synthetic one by default.

    It finds no page of the table in the page cache, and leaves none there.
    """
    drop_pages(table)
    workload = workload or synthetic(table.num_rows, zipf_exponent=0.0)
    schema = workload.stream_schema
    op = operator(name, table, schema, on=workload.key, memory=budget_bytes, io="drop_behind", **options)
    assert isinstance(op, StepOperator)
    return op


def endless_stream(rows: int, skew: float, seed: int) -> PreparedStream:
    """Return a stream for a table of ``rows`` rows; the same one for every operator."""
    return PreparedStream(synthetic(rows, zipf_exponent=skew).stream(seed))


def measure_cell(
    spec: OperatorsSpec,
    cell: Cell,
    table: MasterTable,
    commit: str | None,
    *,
    with_times: bool = True,
    yardstick: Yardstick | None = None,
    options: dict[str, Any] | None = None,
) -> CellResult:
    """Return what the operator of ``cell`` does; a budget that is too small for it is a cell without figures.

    Times of tuples that arrive more slowly take as long again, and are left out without ``with_times``.
    """
    began_s = time.perf_counter()
    budget_bytes = int(table.num_bytes * cell.memory_share)
    try:
        op = make_operator(cell.algorithm, table, budget_bytes, **options or {})
    except BudgetTooSmall as error:
        return CellResult(cell, commit, budget_bytes, skipped=str(error))
    with op:
        batches = endless_stream(cell.rows, cell.skew, spec.seed)
        steady = measure_steady(op, batches, table, _effort(spec, cell.rows), yardstick)
        times = None
        if with_times:
            arrivals_per_s = spec.arrival_share * steady.disks[HDD.name].tuples_per_s
            times = measure_times(op, batches, arrivals_per_s, spec.lookup_tuples // 5, cell.is_scan)
    work = steady.work
    counted = work.counted
    return CellResult(
        cell=cell,
        commit=commit,
        budget_bytes=budget_bytes,
        tuples=work.tuples,
        elapsed_s=work.elapsed_s,
        cpu_s=work.cpu_s,
        scans=counted.bytes_read / table.num_bytes,
        reads=counted.reads,
        seeks=counted.seeks,
        pages_read=counted.pages_read,
        bytes_read=counted.bytes_read,
        steps=counted.steps,
        waited_s=work.waited_s,
        yardstick_s=work.yardstick_s,
        tuples_per_s=steady.tuples_per_s,
        pages_per_1000_tuples=steady.pages_per_1000_tuples,
        cache_share=counted.cache_share,
        cpu_us_per_tuple=steady.cpu_us_per_tuple,
        peak_bytes=steady.peak.total_bytes,
        peak_components=steady.peak.components,
        disks=steady.disks,
        times=times,
        warm_up=steady.warm_up,
        wall_s=time.perf_counter() - began_s,
    )


def _effort(spec: OperatorsSpec, rows: int) -> Effort:
    return Effort(
        measured_windows=spec.scans(rows),
        lookup_tuples=spec.lookup_tuples,
        lookup_backlog_tuples=spec.lookup_backlog_tuples,
        share_tolerance=spec.share_tolerance,
        io_tolerance=spec.io_tolerance,
        most_warm_up_scans=spec.most_warm_up_scans,
        most_warm_up_tuples=spec.most_warm_up_tuples,
        least_measured_s=spec.least_measured_s,
        most_warm_up_s=spec.most_warm_up_s,
        most_measured_s=spec.most_measured_s,
    )
