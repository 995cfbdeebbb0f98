"""One replay of a bursty stream on the 7200 rpm disk: memory and waiting tuples over time."""

from dataclasses import dataclass, field

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

    def __init__(self, op: Operator, timeline: Timeline, interval_s: float) -> None:
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
    timeline.seconds = sampler.seen_until_s
    timeline.mean_bytes = sampler.byte_seconds / max(sampler.seen_until_s, 1e-9)
    timeline.longest_wait_s = replay.longest_wait_s
    timeline.mean_waiting_s = None if replay.mean_waiting_s is None else float(replay.mean_waiting_s)
    timeline.scans = op.metrics.cycles
    timeline.seeks = op.metrics.seeks
    timeline.retunings = 0 if tuning is None else tuning.changes
    return timeline
