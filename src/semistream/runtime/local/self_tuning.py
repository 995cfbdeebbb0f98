"""Dynamic tuning: b, w and the memory of a running join follow the arrival rate.

N. Polyzotis et al., "Supporting Streaming Updates in an Active Data Warehouse" (S3), section 3.3, leave open how a join
would watch the rate of its stream and adapt b and w, to serve just that rate with the least memory.

::

    arrivals ─► tuples in the system ─► rate ─► cost model: least memory, b, w ─► op.retune
                + arrivals until the next look                                      (in place, exact)

A tuple is in the system for one scan of R. By Little's law the tuples in the system, those that wait outside
included, divided by the time of a scan are the arrival rate over the last scan: the window has to serve this rate now.
An average over a longer time would follow a burst too late; over a shorter time it would pay for a short burst as if it
lasted a scan. On top comes room for the tuples that arrive until the next look.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from semistream.core.contract import Operator
from semistream.core.errors import BudgetTooSmall, InvalidArgument, TargetOutOfReach
from semistream.cost.advice.tuner import highest_rate, least_memory
from semistream.cost.calibration.calibration_file import CLOCK_NAMES, clock_named
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import Prediction, predict
from semistream.operators.driver import StepOperator
from semistream.operators.meshjoin import Meshjoin

__all__ = ["SelfTuning", "Tuned"]

_LOOKS_PER_SCAN = 64
# Rates are rounded to steps: the model is asked once for each, and smaller changes have no effect.
_RATE_STEP = 1.01
# Resizing rebuilds the hash table: memory is given back in shares of at least this size.
_LEAST_SHRINKING = 0.04
# b stays while it is about as good as the best, because a change costs a read and a seek.
_AS_GOOD = 0.98
_CORRECTION = (0.5, 8.0)
# Tuples of a window for each tuple of the stream buffer beside it. The tuples of an iteration have to fit the buffer;
# with few iterations to a scan, that takes more memory than the tuples in the system.
_WINDOW_PER_BUFFER = 20
_LEAST_MARGIN = 1.01


@dataclass(frozen=True)
class Tuned:
    """New settings of the join."""

    at_s: float  # on the clock of the caller
    arrivals_per_s: float  # the rate that it has to serve
    b: int
    w: int
    memory_bytes: int


class SelfTuning:
    """Retunes a join while it runs, so that it serves the rate at which tuples arrive with the least memory.

    It has no clock: the caller tells it the time and the arrivals. `run` does so with the time of this machine,
    `Replay` with simulated time. The same observations lead to the same settings.

    Parameters
    ----------
    op
        From ``operator("meshjoin", ...)``. It never gets more memory than its budget.
    clock
        Prices a scan: ``"machine"`` once it is calibrated, ``"hdd"`` or ``"ssd"``, or a clock.
    on_change
        Called with every change.

    Attributes
    ----------
    changes
        How often the join was retuned.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import semistream as ss
    >>> table = ss.stage(pa.table({"id": range(100_000)}), tempfile.mkdtemp(), key="id", layout="heap")
    >>> stream = [pa.record_batch({"id": range(start, start + 1000)}) for start in range(0, 20_000, 1000)]
    >>> op = ss.operator("meshjoin", table, stream[0].schema, on="id", memory="64MB")
    >>> tuning = ss.SelfTuning(op, clock="hdd")
    >>> sum(batch.num_rows for batch in ss.Replay(op, stream, rate=5000, tuning=tuning, step_cost_s=lambda step: 0.01))
    20000
    >>> op.memory().total_bytes < 4 << 20
    True
    """

    def __init__(
        self, op: Operator, clock: Clock | str = "machine", on_change: Callable[[Tuned], None] | None = None
    ) -> None:
        if not isinstance(op, StepOperator) or not isinstance(op.join, Meshjoin):
            raise InvalidArgument(f"{op.name} cannot be retuned while it runs: make the operator with 'meshjoin'")
        if op.join.shedding is not None:
            raise InvalidArgument("a join that sheds load keeps its memory: leave out shedding= or the tuning")
        if not isinstance(clock, str) and not callable(getattr(clock, "loop_s", None)):
            raise InvalidArgument(f"clock={clock!r} is no clock: use one of {', '.join(CLOCK_NAMES)}, or cost factors")
        self._op = op
        self._clock = clock_named(clock) if isinstance(clock, str) else clock
        self._on_change = on_change
        self._settings: dict[int, Prediction] = {}
        self._table_version: int | None = None
        self._recent: deque[tuple[float, int]] = deque()
        self._looked_at_s = -math.inf
        self._arrived_before = 0
        self._scan_s = 0.0
        self._interval_s = 0.0  # between two looks
        self._loop_share = 1.0  # of an iteration in the time between two looks
        self._correction = 1.0
        self._least_bytes = 0
        self._prediction: Prediction | None = None
        self.changes = 0

    def require_for(self, op: Operator) -> None:
        """Raise `InvalidArgument` when this tunes another operator."""
        if op is not self._op:
            raise InvalidArgument("the tuning was made for another operator: make one for this operator")

    def observe(self, now_s: float, arrived: int) -> None:
        """Note how many tuples have arrived in all, taken by the operator or not, and retune if needed.

        ``now_s`` counts from any moment on, and never falls.
        """
        self._follow_version()
        if not self._recent:
            self._arrived_before = arrived - self._op.metrics.tuples_in
        self._recent.append((now_s, arrived))
        while len(self._recent) > 2 and self._recent[1][0] <= now_s - self._interval_s:
            self._recent.popleft()
        outside = max(0, arrived - self._arrived_before - self._op.metrics.tuples_in)
        is_due = now_s - self._looked_at_s >= self._interval_s
        if is_due or outside:
            self._look(now_s, outside, may_shrink=is_due)
            if is_due:
                self._looked_at_s = now_s

    def _follow_version(self) -> None:
        """Ask the model anew when the operator has moved to another version of its table."""
        if self._table_version == self._op.table.version:
            return
        self._table_version = self._op.table.version
        # Without a cache the frequency of keys plays no part.
        stream = StreamShape(keys=KeyDistribution.zipf(max(1, self._op.table.num_rows), 0.0))
        self._case = JoinCase(TableShape.of(self._op.table), stream, self._op.spec)
        self._settings.clear()
        self._prediction, self._least_bytes = None, 0
        self._take_times(self._predicted(self._op.budget_bytes, self._join.b))

    def _look(self, now_s: float, outside: int, may_shrink: bool) -> None:
        self._correct()
        coming = self._coming(now_s)
        in_the_system = self._op.pending + outside + coming
        tuples = max(in_the_system, coming * self._loop_share * _WINDOW_PER_BUFFER) * self._correction
        step = math.ceil(math.log(max(tuples, 1.0) / self._scan_s, _RATE_STEP))
        setting = self._setting(step)
        wanted, has = max(setting.budget_bytes, self._least_bytes), self._join.memory_target_bytes
        if wanted > has or (may_shrink and wanted < has * (1 - _LEAST_SHRINKING)):
            self._retune(now_s, setting, _RATE_STEP**step)

    @property
    def _join(self) -> Meshjoin:
        assert isinstance(self._op.join, Meshjoin)  # made anew for every version of the table
        return self._op.join

    def _coming(self, now_s: float) -> float:
        """Return how many tuples to expect until the next look: as many as came since the last."""
        since_s, arrived = self._recent[0]
        return (self._recent[-1][1] - arrived) * (self._interval_s / max(now_s - since_s, self._interval_s))

    def _correct(self) -> None:
        """Compare the window with the model's: text and output in order take memory as well."""
        capacity = self._join.stream.capacity_tuples
        if self._prediction is not None and capacity and self._join.is_within_target:
            ratio = self._prediction.plan.window_tuples / capacity
            self._correction = min(max(ratio, _CORRECTION[0]), _CORRECTION[1])

    def _setting(self, step: int) -> Prediction:
        """Return the least memory for a step of the rate, or all of the budget where that is too little."""
        if step not in self._settings:
            name, most_bytes = self._op.name, self._op.budget_bytes
            try:
                setting = least_memory(name, self._case, _RATE_STEP**step, self._clock, most_bytes)
            except (TargetOutOfReach, BudgetTooSmall):
                setting = highest_rate(name, self._case, most_bytes, self._clock)
            self._settings[step] = setting
        return self._settings[step]

    def _retune(self, now_s: float, setting: Prediction, arrivals_per_s: float) -> None:
        b = self._b_for(setting)
        # The model's w is for a constant rate. The tuples of a burst enter at once, as far as there is room.
        w = math.ceil(setting.plan.window_tuples)
        memory_bytes = max(setting.budget_bytes, self._least_bytes)
        try:
            self._op.retune(b=b, w=w, memory=memory_bytes)
        except BudgetTooSmall as error:
            # The model knows the average page. Results take more with more memory, hence the margin.
            least_bytes = max(error.least_bytes or 0, memory_bytes)
            self._least_bytes = min(math.ceil(least_bytes * _LEAST_MARGIN), self._op.budget_bytes)
            if self._least_bytes > memory_bytes:
                self._retune(now_s, setting, arrivals_per_s)
            return
        except InvalidArgument:
            return  # pending tuples leave no room for a larger b: the next look tries again
        self._prediction = setting
        self._take_times(setting)
        self.changes += 1
        if self._on_change is not None:
            self._on_change(Tuned(now_s, arrivals_per_s, b, w, memory_bytes))

    def _b_for(self, setting: Prediction) -> int:
        """Return the operator's b, or the best if a change to it pays."""
        best = int(setting.plan.settings["b"])
        if best == self._join.b:
            return best
        try:
            kept = self._predicted(setting.budget_bytes, self._join.b)
        except BudgetTooSmall:
            return best
        return self._join.b if kept.tuples_per_s >= _AS_GOOD * setting.tuples_per_s else best

    def _predicted(self, memory_bytes: int, b: int) -> Prediction:
        return predict(self._op.name, self._case, memory_bytes, self._clock, {"b": b})

    def _take_times(self, prediction: Prediction) -> None:
        self._scan_s = max(prediction.loop_s * prediction.plan.loops_per_cycle, 1e-9)
        self._interval_s = self._scan_s / _LOOKS_PER_SCAN
        self._loop_share = _LOOKS_PER_SCAN / prediction.plan.loops_per_cycle
