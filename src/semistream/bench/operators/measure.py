"""Measures one cell: warm-up to the steady state, a fixed amount of work, then times at a lower arrival rate."""

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from semistream.bench.feeder import PreparedStream
from semistream.bench.operators.arrivals import measure_times
from semistream.bench.operators.cells import Cell, CellResult, DiskClock, WarmUp
from semistream.bench.operators.saturated import Saturated, Work
from semistream.bench.operators.spec import OperatorsSpec
from semistream.core.errors import BudgetTooSmall
from semistream.cost.disk_profile import HDD, PROFILES, DiskProfile
from semistream.operators.step_operator import StepOperator
from semistream.runtime.local import operator
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA, stream

__all__ = ["endless_stream", "make_operator", "measure_cell"]

_ENDLESS = 1 << 50


def make_operator(name: str, table: MasterTable, budget_bytes: int, **options: Any) -> StepOperator:
    """Return an operator that leaves nothing of the table in the page cache."""
    op = operator(name, table, STREAM_SCHEMA, on="key", memory=budget_bytes, io="drop_behind", **options)
    assert isinstance(op, StepOperator)
    return op


def endless_stream(rows: int, skew: float, seed: int) -> PreparedStream:
    """Return a stream for a table of ``rows`` rows; the same one for every operator."""
    return PreparedStream(stream(_ENDLESS, key_domain=rows, zipf_exponent=skew, seed=seed))


def measure_cell(
    spec: OperatorsSpec, cell: Cell, table: MasterTable, commit: str | None, *, with_times: bool = True
) -> CellResult:
    """Return what the operator of ``cell`` does; a budget that is too small for it is a cell without figures.

    Times of tuples that arrive more slowly take as long again, and are left out without ``with_times``.
    """
    began_s = time.perf_counter()
    budget_bytes = int(table.num_bytes * cell.memory_share)
    try:
        op = make_operator(cell.algorithm, table, budget_bytes)
    except BudgetTooSmall as error:
        return CellResult(cell, commit, budget_bytes, skipped=str(error))
    with op:
        batches = endless_stream(cell.rows, cell.skew, spec.seed)
        saturated = Saturated(op, batches, spec.lookup_backlog_tuples if cell.is_lookup else None)
        warm_up = _warm_up(spec, cell, saturated, table)
        if cell.is_lookup:
            work = saturated.run(tuples=spec.lookup_tuples, most_s=spec.most_measured_s)
        else:
            work = saturated.run(bytes_read=_measured_bytes(spec, cell, table), most_s=spec.most_measured_s)
        disks = {profile.name: _disk_clock(profile, work) for profile in PROFILES}
        times = None
        if with_times:
            arrivals_per_s = spec.arrival_share * disks[HDD.name].tuples_per_s
            times = measure_times(op, batches, arrivals_per_s, spec.lookup_tuples // 5, cell.is_scan)
    counted = work.counted
    return CellResult(
        cell=cell,
        commit=commit,
        budget_bytes=budget_bytes,
        tuples=work.tuples,
        elapsed_s=work.elapsed_s,
        cpu_s=work.cpu_s,
        scans=counted.bytes_read / table.num_bytes,
        seeks=counted.seeks,
        pages_read=counted.pages_read,
        bytes_read=counted.bytes_read,
        steps=counted.steps,
        waited_s=work.waited_s,
        tuples_per_s=work.tuples / work.elapsed_s,
        pages_per_1000_tuples=1000 * counted.pages_read / max(1, work.tuples),
        cache_share=counted.cache_share,
        cpu_us_per_tuple=1e6 * work.cpu_s / max(1, work.tuples),
        peak_bytes=saturated.peak.total_bytes,
        peak_components=saturated.peak.components,
        disks=disks,
        times=times,
        warm_up=warm_up,
        wall_s=time.perf_counter() - began_s,
    )


def _warm_up(spec: OperatorsSpec, cell: Cell, saturated: Saturated, table: MasterTable) -> WarmUp:
    """Run until two successive windows of work agree: three once tuples go through a cache, which fills slowly."""
    began_s = time.perf_counter()
    windows: list[Work] = []
    is_steady = False
    for bytes_read, tuples in _windows(spec, cell, table):
        left_s = spec.most_warm_up_s - (time.perf_counter() - began_s)
        windows.append(saturated.run(bytes_read=bytes_read, tuples=tuples, most_s=left_s))
        if time.perf_counter() - began_s >= spec.most_warm_up_s:
            break  # a window that time cut short says nothing
        is_steady = _agree(windows, spec)
        if is_steady:
            break
    return WarmUp(
        tuples=sum(window.tuples for window in windows),
        seconds=time.perf_counter() - began_s,
        is_steady=is_steady,
        cache_shares=[round(window.counted.cache_share, 4) for window in windows],
    )


def _windows(spec: OperatorsSpec, cell: Cell, table: MasterTable) -> Iterator[tuple[int | None, int | None]]:
    """Yield the work of successive windows, as bytes or tuples, until there is no more to be done in warm-up."""
    if cell.is_lookup:
        done, tuples = 0, spec.lookup_tuples // 2
        while done < spec.most_warm_up_tuples:
            yield None, tuples
            done, tuples = done + tuples, 2 * tuples
    else:
        most_bytes = spec.most_warm_up_scans * table.num_bytes // (1 if cell.is_scan else 2)
        for _ in range(max(1, most_bytes // _window_bytes(cell, table))):
            yield _window_bytes(cell, table), None


def _window_bytes(cell: Cell, table: MasterTable) -> int:
    if cell.algorithm == "ssbj" and cell.is_scan:
        return 3 * table.num_bytes  # keys move to its cache in every third scan only
    # A tuple waits for a whole scan, but for its partition about half as long.
    return table.num_bytes if cell.is_scan else table.num_bytes // 2


def _measured_bytes(spec: OperatorsSpec, cell: Cell, table: MasterTable) -> int:
    scans_bytes = spec.scans(cell.rows) * _window_bytes(cell, table)
    # A window of SWEEPJOIN reads up to the whole table, and windows shrink and grow again: several are a mean.
    return 8 * scans_bytes if cell.algorithm == "sweepjoin" else scans_bytes


def _agree(windows: list[Work], spec: OperatorsSpec) -> bool:
    wanted = 3 if windows[-1].counted.tuples_through_cache else 2
    return len(windows) >= wanted and all(
        before.tuples > 0
        and abs(after.counted.cache_share - before.counted.cache_share) < spec.share_tolerance
        and abs(after.bytes_per_tuple - before.bytes_per_tuple) <= spec.io_tolerance * before.bytes_per_tuple
        for before, after in pairwise(windows[-wanted:])
    )


def _disk_clock(profile: DiskProfile, work: Work) -> DiskClock:
    # An operator that read nothing at all is charged one seek, so that its rate is a number.
    io_s = max(profile.seek_s, profile.io_s(work.counted.seeks, work.counted.bytes_read))
    return DiskClock(io_s, work.tuples / io_s, work.tuples / (io_s + work.cpu_s))
