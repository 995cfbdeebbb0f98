"""The settings that MJoin chooses itself: run length, purge interval and tuple scheduling, from measured costs.

S4 names a cost-based choice as future work (section 7) and gives rules of thumb instead: purge at once for the memory,
in batches for the output rate. Here the costs are measured, the settings follow from them, and change with them.

Symbols
-------
=========  ========================  ======================================================================
symbol     here                      unit
=========  ========================  ======================================================================
``r``      ``run_rows``              tuples taken from one stream in a row
``k``      ``purge_every``           punctuations after which the state is purged, at the end of a run
``F_r``    ``run_s``                 seconds of a run, however short
``v``      ``_runs.per_element_s``   seconds of a tuple
``F_p``    ``_purges.fixed_s``       seconds of a purge, however few punctuations it uses
``c``      ``_purges.per_element_s`` seconds of a punctuation in a purge
``P``      ``purge_s``               seconds of a purge that looks at ``W`` punctuations
``l``      ``per_tuple``             punctuations to a tuple, both streams together
``g``      ``garbage``               tuples that a punctuation purges
``L``      ``live``                  tuples in the state that no punctuation has excluded
``W``      ``unpassed``              punctuations that have not been passed on: a purge looks at all of them
``Q``      ``queued``                tuples in the queues
=========  ========================  ======================================================================

Model
-----
A run and a purge cost ``F_r + v n`` and ``P + c n`` with ``P = F_p + c W``, so that a tuple takes ::

    t(r, k) = t0 + F_r / r + l P / k        t0 = v + l c, the least; ``tuple_s``

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
    2`` seconds, least at ``r = sqrt(2 Q (F_r + P) / t0)``. With few tuples waiting, runs are short; with many, a slow
    join keeps a punctuation waiting most. Once taken from its queue, none waits for the end of a run that is longer
    than 16384 tuples (by half, where a batch ends). The state is purged after every run. Tuples that a punctuation of
    the output waits for go first (value-oriented scheduling) when the half run by which the ``W`` are earlier,
    ``W r t0 / 2``, is more than what another ``F_r + P`` costs those in the queues, ``l Q`` of them.

No run is longer than the output's, nor than 65,536 tuples.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from math import ceil, sqrt
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from semistream.core.saved_state import SavedState
from semistream.stream_joins.parts.part import Part

__all__ = ["Clock", "CostChoice", "Goal", "LineCost", "Settings", "Standing"]

Clock: TypeAlias = Callable[[], float]
Goal: TypeAlias = Literal["output", "memory", "propagation"]

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
_MEMORY_TUPLES, _MEMORY_PUNCTUATIONS = 8192, 32  # over which the ratios to them are averaged

_FORGOTTEN = 0.05  # of what was seen, at each new observation
_ASSUMED_WEIGHT = 0.01  # of what was assumed, against an observation; more while there are few
_SURPRISE = 2.0  # times what was expected: more is taken for something else that ran, or was compiled, meanwhile
_LEAST_SHARE = 0.01  # of what was assumed at first: no part of a cost becomes nothing

_T = TypeVar("_T")


class Standing(NamedTuple):
    """How a join stands: tuples in its state and in its queues, punctuations not used and not passed on."""

    held: int
    queued: int
    unpurged: int
    unpassed: int


class Settings(NamedTuple):
    """What is chosen."""

    run_rows: int
    purge_every: int
    by_value: bool


class CostChoice(Part):
    """Measures a join and chooses its settings.

    Parameters
    ----------
    clock
        Returns seconds. Without one, costs stay as they are assumed, and all choices follow from what has come alone.
    fixed
        Settings that are given, and not chosen.

    Attributes
    ----------
    settings
        The last choice.

    Examples
    --------
    >>> choice = CostChoice("propagation", clock=None)
    >>> few, many = Standing(0, 100, 0, 0), Standing(0, 100_000, 0, 0)
    >>> choice.choose(few).run_rows < choice.choose(many).run_rows
    True
    """

    def __init__(self, goal: Goal, clock: Clock | None, fixed: Mapping[str, Any] | None = None) -> None:
        self._goal = goal
        self._clock = clock
        self._fixed = {} if fixed is None else fixed
        self._runs = LineCost(_RUN_S, _TUPLE_S)
        self._purges = LineCost(_PURGE_S, _PUNCTUATION_S)
        self._punctuations = 0.0  # to a tuple
        self._garbage = 1.0
        self._run_s = 0.0  # of the last run, without its purges
        self.settings = Settings(_FIRST_RUN_ROWS, 1, False)
        self.choose(Standing(0, 0, 0, 0))

    # --- measuring ----------------------------------------------------------------------------------------------

    def timed_run(self, work: Iterator[_T]) -> Iterator[_T]:
        """Do the work of a run; the time of whoever takes its results does not count."""
        self._run_s = 0.0
        spent_s = yield from self._timed(work)
        self._run_s += spent_s  # purges have taken theirs off

    def timed_purge(self, work: Iterator[_T], looked_at: int) -> Iterator[_T]:
        """Do the work of a purge, which looks at some punctuations."""
        spent_s = yield from self._timed(work)
        if self._clock is not None:
            self._run_s -= spent_s
            self._purges.observe(looked_at, spent_s)

    def _timed(self, work: Iterator[_T]) -> Generator[_T, None, float]:
        if self._clock is None:
            yield from work
            return 0.0
        spent_s = 0.0
        while True:
            started = self._clock()
            item = next(work, None)
            spent_s += self._clock() - started
            if item is None:
                return spent_s
            yield item

    def observe_run(self, tuples: int, punctuations: int) -> None:
        """Learn from the run that was timed last."""
        if self._clock is not None:
            self._runs.observe(tuples, max(0.0, self._run_s))
        self._punctuations += _new_ratio(self._punctuations, punctuations, max(1, tuples), _MEMORY_TUPLES)

    def observe_purge(self, punctuations: int, purged: int) -> None:
        """Learn how many tuples punctuations purge."""
        self._garbage += _new_ratio(self._garbage, purged, punctuations, _MEMORY_PUNCTUATIONS)

    # --- choosing -----------------------------------------------------------------------------------------------

    def choose(self, now: Standing) -> Settings:
        """Return what the model says."""
        run_s, purge_s = self._runs.fixed_s, self._purges.seconds(now.unpassed)
        per_tuple = self._punctuations
        tuple_s = self._runs.per_element_s + per_tuple * self._purges.per_element_s
        garbage = max(self._garbage, _LEAST_GARBAGE)
        live = max(0.0, now.held - now.unpurged * self._garbage)
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
        run_rows = int(min(max(rows, _LEAST_RUN_ROWS), _MOST_RUN_ROWS, 2 * self.settings.run_rows))
        earlier_s = now.unpassed * run_rows * tuple_s / 2
        by_value = self._goal == "propagation" and earlier_s > (run_s + purge_s) * per_tuple * now.queued
        self.settings = Settings(run_rows, max(1, ceil(every)), by_value)._replace(**self._fixed)
        return self.settings

    # --- what the driver asks -----------------------------------------------------------------------------------

    def state(self) -> SavedState:
        """Return all that was learned: a join that is restored chooses as the one it was taken of."""
        return SavedState(
            {
                "runs": self._runs.state(),
                "purges": self._purges.state(),
                "ratios": [self._punctuations, self._garbage],
                "settings": list(self.settings),
            }
        )

    def set_state(self, saved: SavedState) -> None:
        self._runs.set_state(saved.header["runs"])
        self._purges.set_state(saved.header["purges"])
        self._punctuations, self._garbage = saved.header["ratios"]
        self.settings = Settings(*saved.header["settings"])._replace(**self._fixed)


def _new_ratio(ratio: float, count: float, of: float, memory: float) -> float:
    """Return the change of a ratio of which the recent ones count most, those to so many others."""
    return of / (of + memory) * (count / of - ratio) if of > 0 else 0.0


class LineCost:
    """Seconds of work on n elements, ``fixed_s + per_element_s * n``: least squares of relative errors.

    What was assumed at first gives the ratio of both parts until they can be told apart, and what was seen their size.

    Examples
    --------
    >>> cost = LineCost(fixed_s=1.0, per_element_s=0.1)
    >>> for elements in [10, 1000] * 50:
    ...     cost.observe(elements, 4.0 + 0.1 * elements)
    >>> round(cost.fixed_s, 1), round(cost.per_element_s, 2)
    (4.0, 0.1)
    """

    def __init__(self, fixed_s: float, per_element_s: float) -> None:
        self.fixed_s = fixed_s
        self.per_element_s = per_element_s
        self._assumed = (fixed_s, per_element_s)
        self._scale = 1.0  # of what is seen to what was assumed
        self._observations = 0
        self._sums = [0.0] * 5  # of w, w n, w n^2, w t, w n t

    def seconds(self, elements: float) -> float:
        """Return the expected time of work on some elements."""
        return self.fixed_s + self.per_element_s * elements

    def observe(self, elements: int, seconds: float) -> None:
        """Learn from one piece of work."""
        seconds = min(seconds, _SURPRISE * self.seconds(elements))
        fixed_s, per_element_s = self._assumed
        seen_scale = seconds / (fixed_s + per_element_s * elements)
        self._scale += _FORGOTTEN * 2 * (seen_scale - self._scale)
        self._sums = [
            (1 - _FORGOTTEN) * old + new for old, new in zip(self._sums, self._terms(elements, seconds), strict=True)
        ]
        turn = fixed_s / per_element_s  # so many elements take as long as the fixed part
        self._observations += 1
        trust = max(_ASSUMED_WEIGHT, 1 / self._observations)
        assumed = [
            [trust * term for term in self._terms(n, self._scale * (fixed_s + per_element_s * n))] for n in (0.0, turn)
        ]
        w, wn, wnn, wt, wnt = (sum(terms) for terms in zip(self._sums, *assumed, strict=True))
        slope = (w * wnt - wn * wt) / (w * wnn - wn * wn)
        self.per_element_s = max(slope, _LEAST_SHARE * self._scale * per_element_s)
        self.fixed_s = max((wt - self.per_element_s * wn) / w, _LEAST_SHARE * self._scale * fixed_s)

    def _terms(self, elements: float, seconds: float) -> list[float]:
        fixed_s, per_element_s = self._assumed
        weight = (1 + elements * per_element_s / fixed_s) ** -2  # errors are relative to what is expected
        return [weight, weight * elements, weight * elements**2, weight * seconds, weight * elements * seconds]

    def state(self) -> list[float]:
        """Return what `set_state` takes."""
        return [self.fixed_s, self.per_element_s, self._scale, float(self._observations), *self._sums]

    def set_state(self, state: list[float]) -> None:
        """Go on where another one was."""
        self.fixed_s, self.per_element_s, self._scale, observations, *self._sums = state
        self._observations = int(observations)
