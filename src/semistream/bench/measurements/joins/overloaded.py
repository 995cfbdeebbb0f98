"""Tuples answered per second while more arrive than an operator can answer."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.bench.measurements.joins.arrivals import StepSeconds, disk_step_s
from semistream.core.metrics import Metrics
from semistream.operators.driver import StepOperator
from semistream.runtime.local import Replay

__all__ = ["OverloadedRate", "overloaded_rate"]


@dataclass(frozen=True)
class OverloadedRate:
    """What an operator did while it was overloaded.

    Attributes
    ----------
    counted
        By how much its counters grew in the measured part.
    seconds
        Of the measured part, on the clock that was asked for.
    """

    counted: Metrics
    seconds: float

    @property
    def tuples_per_s(self) -> float:
        """Answered; what was shed and not yet joined does not count."""
        return self.counted.tuples_answered / self.seconds


def overloaded_rate(
    op: StepOperator,
    batches: Iterator[pa.RecordBatch],
    arrivals_per_s: float,
    measured_s: float,
    step_cost_s: StepSeconds = disk_step_s,
    settling_s: float | None = None,
) -> OverloadedRate:
    """Return what ``op`` does in ``measured_s`` seconds, after as many before that or ``settling_s``, and close it."""
    settling_s = measured_s if settling_s is None else settling_s
    replay = Replay(op, batches, arrivals_per_s, step_cost_s=step_cost_s)
    results = iter(replay)
    before: Metrics | None = None
    began_s = 0.0
    try:
        for _ in results:
            if before is None:
                if replay.now_s >= settling_s:
                    before, began_s = Metrics(**op.metrics.as_dict()), replay.now_s
            elif replay.now_s >= began_s + measured_s:
                break
        assert before is not None, "the stream has no end"
        return OverloadedRate(op.metrics.since(before), replay.now_s - began_s)
    finally:
        results.close()
