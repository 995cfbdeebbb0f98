"""An operator in its steady state: warm-up until successive windows of work agree, then a fixed amount of work."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from semistream.bench.measurements.joins.saturated import PreparedStream, Saturated, Work
from semistream.core.budget import MemoryReport
from semistream.cost.calibration.yardstick import Yardstick
from semistream.cost.clock import HDD, MACHINE, PROFILES
from semistream.operators.driver import StepOperator
from semistream.runtime.local import operator
from semistream.storage import MasterTable, drop_pages
from semistream.workloads import Workload, synthetic

__all__ = ["Effort", "SteadyState", "WarmUp", "is_lookup", "is_scan", "make_operator", "measure_steady"]

_MOST_PARTS = 9


def is_lookup(algorithm: str) -> bool:
    """Whether the algorithm reads a page for every tuple, and so answers only a few thousand a second."""
    return algorithm in ("inlj", "cinlj")


def is_scan(algorithm: str, layout: str) -> bool:
    """Whether the algorithm reads the table from end to end; others read a partition at a time."""
    return algorithm in ("meshjoin", "cmeshjoin") or layout == "heap"


def make_operator(
    name: str, table: MasterTable, budget_bytes: int, workload: Workload | None = None, **options: Any
) -> StepOperator:
    """Return an operator for ``workload``, the synthetic one by default.

    It finds no page of the table in the page cache, and leaves none.
    """
    drop_pages(table)
    workload = workload or synthetic(table.num_rows, zipf_exponent=0.0)
    options = {"on": workload.key, "memory": budget_bytes, "io": "drop_behind", **options}
    return operator(name, table, workload.stream_schema, **options)


@dataclass(frozen=True)
class WarmUp:
    """The way to the steady state."""

    tuples: int
    seconds: float
    is_steady: bool  # reached in time
    cache_shares: list[float]  # through the cache, in successive windows of work


class DiskClock(NamedTuple):
    """The counted reads of the measured part on a disk of a profile."""

    io_s: float
    tuples_per_s: float  # by I/O alone
    tuples_per_s_with_cpu: float  # with this machine's CPU time added, without overlap


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The amount of work of warm-up and measurement.

    A window is a scan; three scans for SSBJ, which moves keys in every third; half a scan's worth of partitions for
    operators that read one at a time.
    """

    measured_windows: int = 1
    lookup_tuples: int = 10_000  # to measure with, for operators that look every tuple up
    lookup_backlog_tuples: int = 4096
    share_tolerance: float = 0.005  # warm: the share through the cache changes by less from window to window,
    io_tolerance: float = 0.01  # and so do the bytes per tuple
    most_warm_up_scans: int = 15
    most_warm_up_tuples: int = 635_000  # instead, for look-ups
    least_measured_s: float = 0.0  # the measurement is repeated for so long; the one of median speed counts
    most_warm_up_s: float = 600.0  # the emergency brake
    most_measured_s: float = 120.0


@dataclass(frozen=True)
class SteadyState:
    """The work of a warm operator."""

    work: Work
    warm_up: WarmUp
    peak: MemoryReport  # the largest after any step, including the warm-up

    @property
    def rates(self) -> dict[str, float]:
        """Tuples per second on this machine without other work, and on the 7200 rpm disk by I/O alone."""
        machine_rate = self.work.tuples / self.work.undisturbed_s
        return {MACHINE: machine_rate, HDD.name: self.disks[HDD.name].tuples_per_s}

    @property
    def disks(self) -> dict[str, DiskClock]:
        """The counted reads on the disk of each profile, by its name."""
        work, found = self.work, {}
        for profile in PROFILES:
            # An operator that read nothing is charged one seek, so that its rate is a number.
            io_s = max(profile.seek_s, profile.io_s(work.counted.seeks, work.counted.bytes_read))
            found[profile.name] = DiskClock(io_s, work.tuples / io_s, work.tuples / (io_s + work.cpu_s))
        return found


def measure_steady(
    op: StepOperator,
    batches: PreparedStream,
    table: MasterTable,
    effort: Effort,
    yardstick: Yardstick | None = None,
) -> SteadyState:
    """Measure ``op`` while it never lacks tuples; it is left open, warm and with a backlog."""
    name = op.name
    saturated = Saturated(op, batches, effort.lookup_backlog_tuples if is_lookup(name) else None)
    warm_up = _warm_up(effort, name, saturated, table)
    amount: dict[str, Any] = {"tuples": effort.lookup_tuples}
    if not is_lookup(name):
        # A window of SWEEPJOIN reads up to the whole table, and windows shrink and grow: the mean takes several.
        windows = effort.measured_windows * (8 if name == "sweepjoin" else 1)
        amount = {"bytes_read": windows * _window_bytes(name, table)}
    parts: list[Work] = []
    while not parts or (sum(part.elapsed_s for part in parts) < effort.least_measured_s and len(parts) < _MOST_PARTS):
        parts.append(saturated.run(**amount, most_s=effort.most_measured_s, yardstick=yardstick))
    parts.sort(key=lambda part: part.undisturbed_s / max(1, part.tuples) / (part.yardstick_s or 1.0))
    return SteadyState(parts[len(parts) // 2], warm_up, saturated.peak)


def _warm_up(effort: Effort, name: str, saturated: Saturated, table: MasterTable) -> WarmUp:
    """Run until two successive windows of work agree, or three if tuples go through a cache, which fills slowly."""
    began_s = time.perf_counter()
    windows: list[Work] = []
    is_steady = False
    for amount in _windows(effort, name, table):
        left_s = effort.most_warm_up_s - (time.perf_counter() - began_s)
        windows.append(saturated.run(**amount, most_s=left_s))
        if time.perf_counter() - began_s >= effort.most_warm_up_s:
            break  # a window cut short by time proves nothing
        is_steady = _agree(windows, effort)
        if is_steady:
            break
    else:
        # Its window is full after the first scan, and its rate does not change from then on.
        is_steady = name == "meshjoin"
    return WarmUp(
        tuples=sum(window.tuples for window in windows),
        seconds=time.perf_counter() - began_s,
        is_steady=is_steady,
        cache_shares=[round(window.counted.cache_share, 4) for window in windows],
    )


def _windows(effort: Effort, name: str, table: MasterTable) -> Iterator[dict[str, Any]]:
    """Yield the work of successive windows of the warm-up, as arguments of `Saturated.run`."""
    if is_lookup(name):
        done, tuples = 0, effort.lookup_tuples // 2
        while done < effort.most_warm_up_tuples:
            yield {"tuples": tuples}
            done, tuples = done + tuples, 2 * tuples
    else:
        most_bytes = effort.most_warm_up_scans * table.num_bytes // (1 if is_scan(name, table.layout) else 2)
        for _ in range(max(1, most_bytes // _window_bytes(name, table))):
            yield {"bytes_read": _window_bytes(name, table)}


def _window_bytes(name: str, table: MasterTable) -> int:
    if not is_scan(name, table.layout):
        return table.num_bytes // 2  # a tuple waits for its partition about half a scan
    # SSBJ moves keys to its cache only in every third scan.
    return 3 * table.num_bytes if name == "ssbj" else table.num_bytes


def _agree(windows: list[Work], effort: Effort) -> bool:
    wanted = 3 if windows[-1].counted.tuples_through_cache else 2
    return len(windows) >= wanted and all(
        before.tuples > 0
        and abs(after.counted.cache_share - before.counted.cache_share) < effort.share_tolerance
        and abs(after.bytes_per_tuple - before.bytes_per_tuple) <= effort.io_tolerance * before.bytes_per_tuple
        for before, after in pairwise(windows[-wanted:])
    )
