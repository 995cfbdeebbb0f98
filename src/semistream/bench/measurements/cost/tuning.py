"""The kind ``tuning``: memory of the best fixed MESHJOIN and of one that tunes itself, on the same bursts."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from semistream.bench.framework.measurement import Context, Measurement, Point, check_above, check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.cost.bursty_part import TICKS_OF_PERIOD, BurstyPart
from semistream.core.contract import Operator
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.advice.tuner import least_memory
from semistream.cost.clock import HDD
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import Prediction
from semistream.runtime.local import Replay, SelfTuning, StepCost, operator
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA, stream, synthetic

__all__ = ["BurstTuning", "tuning_measurements"]

_TOLERANCE = 1.01  # of the least memory that keeps up
_FIRST_STEP = 1.04
_INTERVALS = 300
_WAITING_TUPLE_BYTES = 37  # outside, as in the stream buffer: 20 bytes, key code and number
_LINES = ("at_s", "memory_bytes", "waiting_outside", "b")


@dataclass
class _Timeline:
    """What a replay took, and how it went: the largest values in each of a few hundred intervals."""

    num_tuples: int
    results: int = 0
    peak_bytes: int = 0  # of the operator, and of the tuples that wait outside for room
    mean_bytes: float = 0.0  # over time
    longest_wait_s: float = 0.0  # for room in the stream buffer
    most_waiting_outside: int = 0
    mean_waiting_s: float | None = None
    scans: int = 0
    seeks: int = 0
    retunings: int = 0
    seconds: float = 0.0
    at_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    waiting_outside: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)

    def note(self, at_s: float, held: int, outside: int, b: int) -> None:
        self.peak_bytes = max(self.peak_bytes, held)
        self.most_waiting_outside = max(self.most_waiting_outside, outside)
        if not self.at_s or self.at_s[-1] != at_s:
            self.at_s.append(at_s)
            self.memory_bytes.append(held)
            self.waiting_outside.append(outside)
            self.b.append(b)
        self.memory_bytes[-1] = max(self.memory_bytes[-1], held)
        self.waiting_outside[-1] = max(self.waiting_outside[-1], outside)


class _Sampler:
    """Prices each step, and looks at the operator before the clock moves on."""

    def __init__(self, op: Operator, timeline: _Timeline, interval_s: float) -> None:
        self._op = op
        self._timeline = timeline
        self._interval_s = interval_s
        self._bytes_before = 0
        self.byte_seconds = 0.0
        self.seen_until_s = 0.0
        self.replay: Replay | None = None

    def __call__(self, step: StepCost) -> float:
        assert self.replay is not None
        cost_s, now_s, outside = HDD.work_s(step.before, step.after), self.replay.now_s, self.replay.waiting_outside
        held = self._op.memory().total_bytes + outside * _WAITING_TUPLE_BYTES
        self.byte_seconds += self._bytes_before * (now_s - self.seen_until_s) + held * cost_s
        self.seen_until_s = now_s + cost_s
        self._bytes_before = held
        at_s = int(now_s / self._interval_s) * self._interval_s
        self._timeline.note(at_s, held, outside, getattr(self._op, "b", 0))
        return cost_s


def _replayed(
    table: MasterTable,
    part: BurstyPart,
    memory_bytes: int,
    *,
    zipf_exponent: float,
    seed: int,
    b: int | None = None,
    tuned: bool = False,
) -> _Timeline:
    """Replay a part of the stream through a MESHJOIN that is fixed, or that tunes itself inside this memory.

    Tuples enter the window as long as it has room, whatever their number in an iteration: a w that spread them evenly
    would make those of a burst wait, or need more memory.
    """
    timeline = _Timeline(part.num_tuples)
    op = operator("meshjoin", table, STREAM_SCHEMA, on="key", memory=memory_bytes, b=b, w=table.num_rows)
    tuning = SelfTuning(op, HDD) if tuned else None
    sampler = _Sampler(op, timeline, part.length_s / _INTERVALS)
    batches = stream(
        part.num_tuples, key_domain=table.num_rows, zipf_exponent=zipf_exponent, seed=seed, batch_rows=16_384
    )
    replay = sampler.replay = Replay(op, batches, part, sampler, tuning)
    for batch in replay:
        timeline.results += batch.num_rows
    timeline.seconds = sampler.seen_until_s
    timeline.mean_bytes = sampler.byte_seconds / max(sampler.seen_until_s, 1e-9)
    timeline.longest_wait_s = replay.longest_wait_s
    timeline.mean_waiting_s = None if replay.mean_waiting_s is None else float(replay.mean_waiting_s)
    timeline.scans = op.metrics.cycles
    timeline.seeks = op.metrics.seeks
    timeline.retunings = 0 if tuning is None else tuning.changes
    return timeline


@dataclass(frozen=True)
class _Fixed:
    """The least memory with which a fixed setting keeps up with the peak."""

    budget_bytes: int
    b: int
    predicted_bytes: int
    too_small_for_the_peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class BurstTuning:
    """Both joins on a stream with bursts of one time scale."""

    bursts: str  # what the time scale is called
    tick_scans: float  # how long a tick is, in scans of the table
    ticks: int  # of a period that are replayed: the part with the busiest, so the peak is that of the whole period
    rows: int
    page_bytes: int
    burstiness: float
    zipf_exponent: float
    peak_share: float  # tuples that arrive in the busiest scan, as a share of the table's rows
    most_wait_scans: float  # for room in the stream buffer, where a join keeps up; a seek comes on top
    budget_factor: float  # the most of the self-tuned join, as a multiple of the memory of the best fixed one

    @property
    def name(self) -> str:
        return f"{self.bursts} bursts"

    @property
    def weight(self) -> float:
        return 1.0 + 4e-7 * self.rows * self.tick_scans * self.ticks

    def run(self, context: Context) -> list[Point]:
        table = context.table(synthetic(self.rows, zipf_exponent=0.0, seed=context.seed), "heap", self.page_bytes)
        part = BurstyPart.around_peak(
            peak_tuples=self.peak_share * self.rows,
            scan_s=HDD.io_s(seeks=len(table.pages.files), bytes_read=table.num_bytes),
            tick_scans=self.tick_scans,
            ticks=self.ticks,
            burstiness=self.burstiness,
            seed=context.seed,
        )
        replay = partial(_replayed, table, zipf_exponent=self.zipf_exponent, seed=context.seed)
        fixed = self._best_fixed(table, part, replay, context.report)
        context.report(f"fixed at {fixed.budget_bytes:,} bytes")
        as_fixed = replay(part, fixed.budget_bytes, b=fixed.b)
        context.report("self-tuned")
        as_tuned = replay(part, int(fixed.budget_bytes * self.budget_factor), tuned=True)
        shared = {
            "scan_s": part.scan_s,
            "tick_s": part.bursts.tick_s,
            "peak_tuples_per_s": part.peak_tuples() / part.scan_s,
            "mean_tuples_per_s": part.num_tuples / part.length_s,
            "most_wait_s": self._most_wait_s(part),
        }
        return [
            *self._points("fixed", part, as_fixed, {**shared, **asdict(fixed)}),
            *self._points("self-tuned", part, as_tuned, shared),
        ]

    def _most_wait_s(self, part: BurstyPart) -> float:
        return self.most_wait_scans * part.scan_s + HDD.seek_s

    def _best_fixed(
        self, table: MasterTable, part: BurstyPart, replay: Callable[..., _Timeline], report: Callable[[str], None]
    ) -> _Fixed:
        """Look for the least memory that keeps up with the peak, from what the model says on; replays decide."""
        predicted = _predicted(table, part.peak_tuples() / part.scan_s)
        b = int(predicted.plan.settings["b"])
        peak = part.busiest_ticks()

        def keeps_up(memory_bytes: int) -> bool:
            report(f"does a fixed join with {memory_bytes:,} bytes keep up with the peak?")
            try:
                return replay(peak, memory_bytes, b=b).longest_wait_s <= self._most_wait_s(part)
            except BudgetTooSmall:
                return False

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

    def _points(self, join: str, part: BurstyPart, timeline: _Timeline, details: Mapping[str, Any]) -> list[Point]:
        """Return a point for each moment; the first has what is said of the whole replay in its details."""
        at_s = np.array(timeline.at_s)
        width_s = part.length_s / at_s.size
        rates = (part.arrived(at_s + width_s) - part.arrived(at_s)) / width_s
        whole = {name: value for name, value in asdict(timeline).items() if name not in _LINES}
        points = []
        lines = (timeline.at_s, rates.tolist(), timeline.memory_bytes, timeline.waiting_outside, timeline.b)
        for x, rate, memory_bytes, waiting, b in zip(*lines, strict=True):
            values = {"arrivals": round(rate), "memory": memory_bytes / 2**20, "waiting": waiting}
            points.append(Point(join, x, values, {"b": b}, self.name))
        points[0].details.update({**details, **whole, "b": timeline.b[0]})
        return points


def _predicted(table: MasterTable, tuples_per_s: float) -> Prediction:
    spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key", "inner")
    stream = StreamShape(keys=KeyDistribution.zipf(table.num_rows, 0.0))
    return least_memory("meshjoin", JoinCase(TableShape.of(table), stream, spec), tuples_per_s, HDD)


def tuning_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for slow bursts and one for fast ones: parameters named for them are the fields of it."""
    check_least(parameters, rows=1000)
    check_above(parameters, peak_share=0, slow_tick_scans=0, fast_tick_scans=0, most_wait_scans=0, budget_factor=1)
    for name in ("slow_ticks", "fast_ticks"):
        ticks = parameters[name]
        if ticks < 2 or TICKS_OF_PERIOD % ticks:
            raise InvalidArgument(f"{name}={ticks} must be a power of 2 from 2 to {TICKS_OF_PERIOD}")
    shared = {name: value for name, value in parameters.items() if not name.startswith(("slow_", "fast_"))}
    return [
        BurstTuning(
            bursts=bursts, tick_scans=parameters[f"{bursts}_tick_scans"], ticks=parameters[f"{bursts}_ticks"], **shared
        )
        for bursts in ("slow", "fast")
    ]
