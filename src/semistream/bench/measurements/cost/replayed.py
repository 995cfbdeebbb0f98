"""One replay of a bursty stream on the 7200 rpm disk: memory and waiting tuples over time."""

from dataclasses import dataclass, field

import numpy as np

from semistream.bench.measurements.cost.bursty_part import BurstyPart
from semistream.core.contract import Operator
from semistream.cost.clock import HDD
from semistream.runtime.local import Replay, SelfTuning, StepCost, operator
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA
from semistream.workloads.generated.streams import stream

__all__ = ["Timeline", "replayed"]

_POINTS = 300
_WAITING_TUPLE_BYTES = 37  # outside, as in the stream buffer: 20 bytes, key code and number


@dataclass
class Timeline:
    """What a replay took.

    Attributes
    ----------
    peak_bytes, mean_bytes
        Memory of the operator and of the tuples that wait outside for room: the most, and the mean over time.
    longest_wait_s
        For room in the stream buffer.
    scans
        Of the table.
    at_s, memory_bytes, waiting_outside
        The largest in each of a few hundred intervals.
    """

    num_tuples: int
    results: int = 0
    peak_bytes: int = 0
    mean_bytes: float = 0.0
    longest_wait_s: float = 0.0
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


class _Sampler:
    """Prices each step, and looks at the operator before the clock moves on."""

    def __init__(self, op: Operator, timeline: Timeline, interval_s: float) -> None:
        self._op = op
        self._timeline = timeline
        self._interval_s = interval_s
        self._byte_seconds = 0.0
        self._seen_until_s = 0.0
        self._bytes_before = 0
        self.replay: Replay | None = None

    def __call__(self, step: StepCost) -> float:
        assert self.replay is not None
        cost_s = HDD.work_s(step.before, step.after)
        outside = self.replay.waiting_outside
        held = self._op.memory().total_bytes + outside * _WAITING_TUPLE_BYTES
        idle_s = self.replay.now_s - self._seen_until_s
        self._byte_seconds += self._bytes_before * idle_s + held * cost_s
        self._seen_until_s = self.replay.now_s + cost_s
        self._bytes_before = held
        self._note(self.replay.now_s, held, outside)
        return cost_s

    def _note(self, now_s: float, held: int, outside: int) -> None:
        timeline = self._timeline
        timeline.peak_bytes = max(timeline.peak_bytes, held)
        timeline.most_waiting_outside = max(timeline.most_waiting_outside, outside)
        at_s = int(now_s / self._interval_s) * self._interval_s
        if not timeline.at_s or timeline.at_s[-1] != at_s:
            timeline.at_s.append(at_s)
            timeline.memory_bytes.append(held)
            timeline.waiting_outside.append(outside)
            timeline.b.append(getattr(self._op, "b", 0))
        timeline.memory_bytes[-1] = max(timeline.memory_bytes[-1], held)
        timeline.waiting_outside[-1] = max(timeline.waiting_outside[-1], outside)

    def finish(self) -> None:
        """Take the mean."""
        self._timeline.mean_bytes = self._byte_seconds / max(self._seen_until_s, 1e-9)
        self._timeline.seconds = self._seen_until_s


def replayed(
    table: MasterTable,
    part: BurstyPart,
    memory_bytes: int,
    *,
    zipf_exponent: float,
    seed: int,
    b: int | None = None,
    tuned: bool = False,
) -> Timeline:
    """Replay a part of the stream through a MESHJOIN that is fixed, or that tunes itself inside this memory.

    Tuples enter the window as long as it has room, whatever their number in an iteration: a w that spread them evenly
    would make those of a burst wait, or need more memory.
    """
    timeline = Timeline(part.num_tuples)
    op = operator("meshjoin", table, STREAM_SCHEMA, on="key", memory=memory_bytes, b=b, w=table.num_rows)
    tuning = SelfTuning(op, HDD) if tuned else None
    sampler = _Sampler(op, timeline, part.length_s / _POINTS)
    batches = stream(
        part.num_tuples, key_domain=table.num_rows, zipf_exponent=zipf_exponent, seed=seed, batch_rows=16_384
    )
    replay = sampler.replay = Replay(op, batches, part, sampler, tuning)
    for batch in replay:
        timeline.results += batch.num_rows
    sampler.finish()
    timeline.longest_wait_s = replay.longest_wait_s
    timeline.mean_waiting_s = None if replay.mean_waiting_s is None else float(np.float64(replay.mean_waiting_s))
    timeline.scans = op.metrics.cycles
    timeline.seeks = op.metrics.seeks
    timeline.retunings = 0 if tuning is None else tuning.changes
    return timeline
