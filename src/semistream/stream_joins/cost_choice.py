"""What MJoin leaves to its costs: run length, purge interval and scheduling, chosen while it runs.

S4 names a cost-based choice as future work (section 7) and gives rules of thumb instead: purge at once for the memory,
in batches for the output rate. Here the costs are measured, the settings follow from them, and change with them.

Symbols
-------
=========  ========================  ======================================================================
symbol     here                      unit
=========  ========================  ======================================================================
``r``      ``run_rows``              tuples taken from one stream in a row
``k``      ``purge_every``           punctuations after which the state is purged, at the end of a run
``F_r``    ``run fixed_s``           seconds of a run, however short
``v``      ``run per_element_s``     seconds of a tuple
``F_p``    ``purge fixed_s``         seconds of a purge, however few punctuations it uses
``c``      ``purge per_element_s``   seconds of a punctuation in a purge
``l``      ``_punctuations``         punctuations to a tuple, both streams together
``g``      ``_garbage``              tuples that a punctuation purges
``L``      ``live``                  tuples in the state that no punctuation has excluded
``W``      ``unpassed``              punctuations that have not been passed on: a purge looks at all of them
``Q``      ``queued``                tuples in the queues
=========  ========================  ======================================================================

Model
-----
A run and a purge cost ``F_r + v n`` and ``P + c n`` with ``P = F_p + c W``, so that a tuple takes ::

    t(r, k) = t0 + F_r / r + l P / k        t0 = v + l c, the least

output
    The fixed parts take a share ``e`` = 1/50 of the time each: ``r = F_r / (e t0)`` and ``k = l P / (e t0)``. Longer
    runs and rarer purges gain nothing that could be measured. What waits to be purged, ``k g``, is never more than
    what lives or a run brings, so that the state is at most doubled.
memory
    What waits to be purged is at most 1/32 of what lives: ``k = L / (32 g)``, ``r = k / l``. A run adds at most ``r``
    tuples that could have waited in the queue, so that also ``r <= L / 16``. But the fixed parts together take no more
    than four times what the tuples take, ``r >= (F_r + P) / (4 t0)``, as far as ``r <= max(L / 8, 1024)`` allows: the
    join is not slowed down without bounds.
    ``g`` is only known from purges, and may have risen since: it counts as 1/2 at least.
propagation
    A punctuation waits for the tuples before it and for the end of its run, ``D(r) = Q t(r, l r) + (F_r + P + r t0) /
    2`` seconds, least at ``r = sqrt(2 Q (F_r + P) / t0)``. With few tuples waiting, runs are short; with many, what
    keeps a punctuation waiting most is a slow join. Once taken from its queue, none waits for the end of a run that
    is longer than 16384 tuples (by half, where a batch ends). The state is purged after every run. Tuples that a
    punctuation of the output waits for go first (value-oriented scheduling) when the half run by which the ``W`` are
    earlier, ``W r t0 / 2``, is more than what another ``F_r + P`` costs those in the queues, ``l Q`` of them.

No run is longer than the output's, nor than 65,536 tuples. In the code ``run_s``, ``purge_s``, ``tuple_s`` and
``per_tuple`` are ``F_r``, ``P``, ``t0`` and ``l``.

Scheduling takes from the stream whose next tuples gain more: rows, or punctuations of the output, to a second; or, for
the memory, fewer tuples that stay. A look at some of them in the queue says so (`semistream.stream_joins.look_ahead`).
For propagation, where keys of a stream come once, that one has S4's priority: punctuations wait for its tuples.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, NamedTuple, TypeAlias, TypeVar

from semistream.stream_joins.join_key import SIDES, Side
from semistream.stream_joins.look_ahead import Goal
from semistream.stream_joins.measured_cost import LineCost, RecentRatio

__all__ = ["Clock", "CostChoice", "Settings", "Standing"]

Clock: TypeAlias = Callable[[], float]

# What is assumed before anything was measured, and always when there is no clock.
_RUN_S, _TUPLE_S = 300e-6, 0.25e-6
_PURGE_S, _PUNCTUATION_S = 150e-6, 0.25e-6

_FIXED_SHARE = 1 / 50
_GARBAGE_SHARE = 1 / 32
_RUN_SHARE = 1 / 16
_MOST_SLOWDOWN = 4.0
_SMALL_RUN_ROWS = 1024
_MOST_WAITED_FOR = 16_384
_LEAST_GARBAGE = 0.5
_LEAST_RUN_ROWS = 16
_FIRST_RUN_ROWS = 4096
_MOST_RUN_ROWS = 65_536
_MEMORY_TUPLES = 65_536

_T = TypeVar("_T")


@dataclass(frozen=True)
class Standing:
    """How a join stands: tuples in its state and in its queues, punctuations not used and not passed on."""

    held: int
    queued: int
    unpurged: int
    unpassed: int


class Settings(NamedTuple):
    """What was chosen."""

    run_rows: int
    purge_every: int
    by_value: bool


class CostChoice:
    """Measures a join and chooses its settings.

    Parameters
    ----------
    clock
        Returns seconds. Without one, costs stay as they are assumed, and all choices follow from what has come alone.

    Examples
    --------
    >>> choice = CostChoice("propagation", clock=None)
    >>> few, many = Standing(0, 100, 0, 0), Standing(0, 100_000, 0, 0)
    >>> choice.settings(few).run_rows < choice.settings(many).run_rows
    True
    """

    def __init__(self, goal: Goal, clock: Clock | None) -> None:
        self._goal = goal
        self._clock = clock
        self._runs = (LineCost(_RUN_S, _TUPLE_S), LineCost(_RUN_S, _TUPLE_S))
        self._purges = LineCost(_PURGE_S, _PUNCTUATION_S)
        self._right_share = RecentRatio(0.5, _MEMORY_TUPLES)
        self._punctuations = RecentRatio(0.0, _MEMORY_TUPLES // 8)
        self._garbage = RecentRatio(1.0, 32)
        self._spent_s = 0.0
        self._purge_spent_s = 0.0
        self._run_rows = _FIRST_RUN_ROWS

    # --- measuring ----------------------------------------------------------------------------------------------

    def timed_run(self, work: Iterator[_T]) -> Iterator[_T]:
        """Do the work of a run; the time of whoever takes its results does not count."""
        self._spent_s = self._purge_spent_s = 0.0
        if self._clock is None:
            yield from work
            return
        while True:
            started = self._clock()
            item = next(work, None)
            self._spent_s += self._clock() - started
            if item is None:
                return
            yield item

    def timed_purge(self, work: Iterator[_T], looked_at: int) -> Iterator[_T]:
        """Do the work of a purge, which looks at some punctuations."""
        if self._clock is None:
            yield from work
            return
        spent_s = 0.0
        while True:
            started = self._clock()
            item = next(work, None)
            spent_s += self._clock() - started
            if item is None:
                break
            yield item
        self._purge_spent_s += spent_s
        self._purges.observe(looked_at, spent_s)

    def saw_run(self, side: Side, tuples: int, punctuations: int) -> None:
        """Learn from the run that was timed last."""
        if self._clock is not None:
            self._runs[side].observe(tuples, max(0.0, self._spent_s - self._purge_spent_s))
        self._right_share.observe(tuples * side, of=tuples)
        self._punctuations.observe(punctuations, of=max(1, tuples))

    def saw_purge(self, punctuations: int, purged: int) -> None:
        """Learn how many tuples punctuations purge."""
        self._garbage.observe(purged, of=punctuations)

    # --- choosing -----------------------------------------------------------------------------------------------

    def weighted(self, side: Side, gain: float, rows: int) -> float:
        """Return a gain to a tuple as one to what counts: for the memory a tuple, else a second."""
        return gain if self._goal == "memory" else gain * rows / self._runs[side].seconds(rows)

    def settings(self, now: Standing) -> Settings:
        """Return what the model says."""
        shares = (1 - self._right_share.value, self._right_share.value)
        run_s = sum(shares[side] * self._runs[side].fixed_s for side in SIDES)
        purge_s = self._purges.seconds(now.unpassed)
        per_tuple = self._punctuations.value
        tuple_s = sum(shares[side] * self._runs[side].per_element_s for side in SIDES)
        tuple_s += per_tuple * self._purges.per_element_s
        garbage = max(self._garbage.value, _LEAST_GARBAGE)
        live = max(0.0, now.held - now.unpurged * self._garbage.value)
        longest = run_s / (_FIXED_SHARE * tuple_s)
        if self._goal == "output":
            rows = longest
            every = min(per_tuple * purge_s / (_FIXED_SHARE * tuple_s), max(live, rows) / garbage)
        elif self._goal == "memory":
            least = min((run_s + purge_s) / (_MOST_SLOWDOWN * tuple_s), max(2 * _RUN_SHARE * live, _SMALL_RUN_ROWS))
            held_back = _GARBAGE_SHARE * live / (garbage * max(per_tuple, 1e-9))
            rows = min(max(least, min(held_back, _RUN_SHARE * live)), longest)
            every = max(_GARBAGE_SHARE * live / garbage, per_tuple * least)
        else:
            rows = min(sqrt(2 * now.queued * (run_s + purge_s) / tuple_s), longest, _MOST_WAITED_FOR)
            every = 1.0
        # What was measured may be off for a while: runs become longer by and by.
        run_rows = int(min(max(rows, _LEAST_RUN_ROWS), _MOST_RUN_ROWS, 2 * self._run_rows))
        self._run_rows = run_rows
        earlier_s = now.unpassed * run_rows * tuple_s / 2
        by_value = self._goal == "propagation" and earlier_s > (run_s + purge_s) * per_tuple * now.queued
        return Settings(run_rows, max(1, ceil(every)), by_value)

    # --- snapshot -----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what `set_state` takes: with it, a join that is restored chooses as the one it was taken of."""
        return {
            "costs": [cost.state() for cost in (*self._runs, self._purges)],
            "ratios": [ratio.value for ratio in self._ratios()],
            "run_rows": self._run_rows,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where another choice was."""
        for cost, values in zip((*self._runs, self._purges), state["costs"], strict=True):
            cost.set_state(values)
        for ratio, value in zip(self._ratios(), state["ratios"], strict=True):
            ratio.value = value
        self._run_rows = state["run_rows"]

    def _ratios(self) -> tuple[RecentRatio, ...]:
        return (self._right_share, self._punctuations, self._garbage)
