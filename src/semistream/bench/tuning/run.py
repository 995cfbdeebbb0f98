"""Runs the best fixed MESHJOIN and one that tunes itself on the same bursts, and compares their memory."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semistream.bench.provenance import collect_provenance
from semistream.bench.result_file import BenchResult, Entry
from semistream.bench.staged import staged_table
from semistream.bench.tuning.bursty_part import BurstyPart
from semistream.bench.tuning.replayed import Timeline, replayed
from semistream.bench.tuning.spec import TuningSpec
from semistream.core.errors import BudgetTooSmall
from semistream.core.semantics import JoinSpec
from semistream.cost.disk_profile import HDD
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import JoinCase, Prediction
from semistream.cost.stream_shape import StreamShape
from semistream.cost.table_shape import TableShape
from semistream.cost.tuner import least_memory
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA

__all__ = ["run_tuning"]

_MOST_TARGET, _MEAN_TARGET = 1.10, 0.60
_TOLERANCE = 1.01  # of the least memory that keeps up
_FIRST_STEP = 1.04

Report = Callable[[str], None]


@dataclass(frozen=True)
class _Fixed:
    """The least memory with which a fixed setting keeps up with the peak."""

    memory_bytes: int
    b: int
    predicted_bytes: int
    too_small_bytes: int


def run_tuning(spec: TuningSpec, data_dir: Path, report: Report = lambda message: None) -> BenchResult:
    """Return memory, over time and at most, of both joins for slow and fast bursts."""
    provenance = collect_provenance(spec.seed)
    table = staged_table(
        data_dir,
        rows=spec.rows,
        layout="heap",
        page_bytes=spec.page_bytes,
        seed=spec.seed,
        progress=lambda rows: report(f"staging the master table: {rows:,} rows"),
    )
    scan_s = HDD.io_s(seeks=len(table.pages.files), bytes_read=table.num_bytes)
    entries: list[Entry] = []
    cells: list[dict[str, Any]] = []
    for bursts, tick_scans, ticks in (
        ("slow", spec.slow_tick_scans, spec.slow_ticks),
        ("fast", spec.fast_tick_scans, spec.fast_ticks),
    ):
        part = BurstyPart.around_peak(
            peak_tuples=spec.peak_share * spec.rows,
            scan_s=scan_s,
            tick_scans=tick_scans,
            ticks=ticks,
            burstiness=spec.burstiness,
            seed=spec.seed,
        )
        fixed = _best_fixed(spec, table, part, _prefixed(report, f"{bursts} bursts: "))
        report(f"{bursts} bursts: {part.length_s / scan_s:.0f} scans, fixed at {fixed.memory_bytes:,} bytes")
        as_fixed = replayed(spec, table, part, fixed.memory_bytes, b=fixed.b, tuned=False)
        report(f"{bursts} bursts: {part.length_s / scan_s:.0f} scans, self-tuned")
        most_bytes = int(fixed.memory_bytes * spec.budget_factor)
        as_tuned = replayed(spec, table, part, most_bytes, b=None, tuned=True)
        entries += _entries(spec, f"{bursts} bursts", part, fixed, as_fixed, as_tuned)
        cells += [_cell(bursts, "fixed", part, as_fixed), _cell(bursts, "self-tuned", part, as_tuned)]
    return BenchResult("tuning", asdict(spec), provenance, tuple(entries), tuple(cells))


def _prefixed(report: Report, before: str) -> Report:
    return lambda message: report(before + message)


def _predicted(table: MasterTable, tuples_per_s: float) -> Prediction:
    spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key", "inner")
    stream = StreamShape(keys=KeyDistribution.zipf(table.num_rows, 0.0))
    return least_memory("meshjoin", JoinCase(TableShape.of(table), stream, spec), tuples_per_s, HDD)


def _best_fixed(spec: TuningSpec, table: MasterTable, part: BurstyPart, report: Report) -> _Fixed:
    """Look for the least memory that keeps up with the peak, from what the model says on; replays decide."""
    predicted = _predicted(table, part.peak_tuples() / part.scan_s)
    b = int(predicted.plan.settings["b"])
    peak = part.busiest_ticks()

    def keeps_up(memory_bytes: int) -> bool:
        report(f"does a fixed join with {memory_bytes:,} bytes keep up with the peak?")
        try:
            timeline = replayed(spec, table, peak, memory_bytes, b=b, tuned=False)
        except BudgetTooSmall:
            return False
        return timeline.longest_wait_s <= _most_wait_s(spec, part)

    low = high = predicted.budget_bytes
    if keeps_up(high):
        low = int(high / _FIRST_STEP)
        while keeps_up(low):
            low, high = int(low / _FIRST_STEP), low
    else:
        high = int(low * _FIRST_STEP)
        while not keeps_up(high):
            low, high = high, int(high * _FIRST_STEP)
    while high > low * _TOLERANCE:
        middle = int((low * high) ** 0.5)
        low, high = (low, middle) if keeps_up(middle) else (middle, high)
    return _Fixed(high, b, predicted.budget_bytes, low)


def _most_wait_s(spec: TuningSpec, part: BurstyPart) -> float:
    return spec.most_wait_scans * part.scan_s + HDD.seek_s


def _entries(
    spec: TuningSpec, bursts: str, part: BurstyPart, fixed: _Fixed, as_fixed: Timeline, as_tuned: Timeline
) -> list[Entry]:
    details = {
        "fixed_memory_bytes": fixed.memory_bytes,
        "fixed_peak_bytes": as_fixed.peak_bytes,
        "fixed_predicted_bytes": fixed.predicted_bytes,
        "too_small_for_the_peak_bytes": fixed.too_small_bytes,
        "b": fixed.b,
        "scan_s": part.scan_s,
        "tick_s": part.bursts.tick_s,
        "peak_tuples_per_s": part.peak_tuples() / part.scan_s,
        "mean_tuples_per_s": part.num_tuples / part.length_s,
        "tuned_peak_bytes": as_tuned.peak_bytes,
        "tuned_mean_bytes": as_tuned.mean_bytes,
        "most_wait_s": _most_wait_s(spec, part),
        "fixed_longest_wait_s": as_fixed.longest_wait_s,
        "tuned_longest_wait_s": as_tuned.longest_wait_s,
        "fixed_mean_waiting_s": as_fixed.mean_waiting_s,
        "tuned_mean_waiting_s": as_tuned.mean_waiting_s,
        "fixed_most_waiting_outside": as_fixed.most_waiting_outside,
        "tuned_most_waiting_outside": as_tuned.most_waiting_outside,
        "retunings": as_tuned.retunings,
        "results_alike": as_fixed.results == as_tuned.results == part.num_tuples,
    }
    judged = spec.is_default_size
    memory = "Memory of the self-tuned join, tuples that wait outside included, by that of the best fixed for the peak."
    wait = "Longest wait of a tuple for room in the stream buffer, by what a join that keeps up may make it wait."
    base = as_fixed.peak_bytes
    return [
        Entry(
            f"{bursts}: memory at most", as_tuned.peak_bytes / base, _MOST_TARGET, "at most", details, memory, judged
        ),
        Entry(f"{bursts}: memory on average", as_tuned.mean_bytes / base, _MEAN_TARGET, "at most", {}, memory, judged),
        Entry(
            f"{bursts}: longest wait",
            as_tuned.longest_wait_s / _most_wait_s(spec, part),
            1.0,
            "at most",
            {},
            wait,
            judged,
        ),
    ]


def _cell(bursts: str, join: str, part: BurstyPart, timeline: Timeline) -> dict[str, Any]:
    at_s = np.array(timeline.at_s)
    width_s = part.length_s / len(at_s) if len(at_s) else 1.0
    rates = (part.arrived(at_s + width_s) - part.arrived(at_s)) / width_s
    return {
        "bursts": bursts,
        "join": join,
        **asdict(timeline),
        "arrivals_per_s": [round(float(rate)) for rate in rates],
    }
