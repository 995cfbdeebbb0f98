"""The settings that MJoin chooses itself: run length, purge interval and tuple scheduling, from a model of its costs.

S4 names a cost-based choice as future work (section 7) and gives rules of thumb instead: purge at once for the memory,
in batches for the output rate. Here the settings follow from the costs, and from what comes.

Symbols
-------
Costs are in units of the work on one tuple: only their ratios count, and those hardly change from machine to machine.

=======  =================  =========================================================================
symbol   here               meaning
=======  =================  =========================================================================
``r``    ``run_rows``       tuples taken from one stream in a row
``k``    ``purge_every``    punctuations after which the state is purged, at the end of a run
``F``    ``_RUN_COST``      cost of a run, however short; that of a tuple, and of a punctuation in a purge, is 1
``P``    ``purge_cost``     cost of a purge that looks at ``W`` punctuations, however few it uses
``l``    ``per_tuple``      punctuations to a tuple, both streams together
``t0``   ``tuple_cost``     the least cost of a tuple, ``1 + l``
``g``    ``garbage``        tuples that a punctuation purges
``L``    ``live``           tuples in the state that no punctuation has excluded
``W``    ``unpassed``       punctuations that have not been passed on: a purge looks at all of them
``Q``    ``queued``         tuples in the queues
=======  =================  =========================================================================

Model
-----
A run of n tuples costs ``F + n``, a purge by n punctuations ``P + n``, so that a tuple costs ::

    t(r, k) = t0 + F / r + l P / k

output
    The fixed parts take a share ``e`` = 1/50 each: ``r = F / (e t0)`` and ``k = l P / (e t0)``. Longer runs and rarer
    purges gain nothing that could be measured. What waits to be purged, ``k g``, is never more than what lives or a
    run brings, so that the state is at most doubled.
memory
    What waits to be purged is at most 1/32 of what lives: ``k = L / (32 g)``, ``r = k / l``. A run adds at most ``r``
    tuples that could have waited in the queue, so that also ``r <= L / 16``. But the fixed parts together cost no more
    than four times what the tuples cost, ``r >= (F + P) / (4 t0)``, as far as ``r <= max(L / 8, 1024)`` allows: the
    join is not slowed down without bounds. ``g`` is only known from purges, and may have risen since: it counts as 1/2
    at least.
propagation
    A punctuation waits for the tuples before it and for the end of its run, for ``Q t(r, l r) + (F + P + r t0) / 2``,
    least at ``r = sqrt(2 Q (F + P) / t0)``. With few tuples waiting, runs are short; with many, a slow join keeps a
    punctuation waiting most. Once taken from its queue, none waits for the end of a run that is longer than 16384
    tuples (by half, where a batch ends). The state is purged after every run. Tuples that a punctuation of the output
    waits for go first (value-oriented scheduling) when the half run by which the ``W`` are earlier, ``W r t0 / 2``, is
    more than what another ``F + P`` costs those in the queues, ``l Q`` of them.

No run is longer than the output's, nor than 65,536 tuples.
"""

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any, Literal, NamedTuple, TypeAlias

from semistream.core.saved_state import SavedState
from semistream.stream_joins.parts.part import Part

__all__ = ["CostChoice", "Goal", "Settings", "Standing"]

Goal: TypeAlias = Literal["output", "memory", "propagation"]

_RUN_COST = 1200.0  # measured: 300 us and 0.25 us to a tuple
_PURGE_COST = 600.0

_FIXED_SHARE = 1 / 50
_GARBAGE_SHARE = 1 / 32
_RUN_SHARE = 1 / 16
_MOST_SLOWDOWN = 4.0
_SMALL_RUN_ROWS = 1024
_MOST_WAITED_FOR = 16_384
_LEAST_GARBAGE = 0.5
_LEAST_RUN_ROWS = 16
_FIRST_RUN_ROWS = 8192
_MOST_RUN_ROWS = 65_536
_MEMORY_TUPLES, _MEMORY_PUNCTUATIONS = 8192, 32  # over which ratios to them are averaged


class Standing(NamedTuple):
    """How a join stands: tuples in its state and in its queues, punctuations not used and not passed on."""

    held: int
    queued: int
    unpurged: int
    unpassed: int


class Settings(NamedTuple):
    run_rows: int
    purge_every: int
    by_value: bool


class CostChoice(Part):
    """Observes what comes to a join, and chooses its settings, but those that are ``fixed``."""

    def __init__(self, goal: Goal, fixed: Mapping[str, Any]) -> None:
        self._goal = goal
        self.fixed = fixed
        self._punctuations = 0.0  # to a tuple
        self._garbage = 1.0
        self.settings = Settings(_FIRST_RUN_ROWS, 1, False)._replace(**fixed)

    @property
    def is_open(self) -> bool:
        return len(self.fixed) < len(self.settings)

    def observe_run(self, tuples: int, punctuations: int) -> None:
        self._punctuations += _change(self._punctuations, punctuations, max(1, tuples), _MEMORY_TUPLES)

    def observe_purge(self, punctuations: int, purged: int) -> None:
        self._garbage += _change(self._garbage, purged, punctuations, _MEMORY_PUNCTUATIONS)

    def choose(self, now: Standing) -> Settings:
        per_tuple, purge_cost = self._punctuations, _PURGE_COST + now.unpassed
        tuple_cost = 1 + per_tuple
        garbage = max(self._garbage, _LEAST_GARBAGE)
        live = max(0.0, now.held - now.unpurged * self._garbage)
        longest = _RUN_COST / (_FIXED_SHARE * tuple_cost)
        if self._goal == "output":
            rows = longest
            every = min(per_tuple * purge_cost / (_FIXED_SHARE * tuple_cost), max(live, rows) / garbage)
        elif self._goal == "memory":
            least = (_RUN_COST + purge_cost) / (_MOST_SLOWDOWN * tuple_cost)
            least = min(least, max(2 * _RUN_SHARE * live, _SMALL_RUN_ROWS))
            held_back = _GARBAGE_SHARE * live / (garbage * max(per_tuple, 1e-9))
            rows = min(max(least, min(held_back, _RUN_SHARE * live)), longest)
            every = max(_GARBAGE_SHARE * live / garbage, per_tuple * least)
        else:
            rows = min(sqrt(2 * now.queued * (_RUN_COST + purge_cost) / tuple_cost), longest, _MOST_WAITED_FOR)
            every = 1.0
        # What was observed may be off for a while: runs become longer by and by.
        run_rows = int(min(max(rows, _LEAST_RUN_ROWS), _MOST_RUN_ROWS, 2 * self.settings.run_rows))
        earlier = now.unpassed * run_rows * tuple_cost / 2
        by_value = self._goal == "propagation" and earlier > (_RUN_COST + purge_cost) * per_tuple * now.queued
        self.settings = Settings(run_rows, max(1, ceil(every)), by_value)._replace(**self.fixed)
        return self.settings

    def state(self) -> SavedState:
        return SavedState({"ratios": [self._punctuations, self._garbage], "settings": list(self.settings)})

    def set_state(self, saved: SavedState) -> None:
        ratios = SavedState(dict(zip(("punctuations", "garbage"), saved.header["ratios"], strict=True)))
        self._punctuations, self._garbage = ratios.number("punctuations"), ratios.number("garbage")
        kept = SavedState(dict(zip(Settings._fields, saved.header["settings"], strict=True)))
        run_rows, purge_every = kept.whole_number("run_rows", 1), kept.whole_number("purge_every", 1)
        self.settings = Settings(run_rows, purge_every, kept.flag("by_value"))._replace(**self.fixed)


def _change(ratio: float, count: float, of: float, memory: float) -> float:
    """Return the change of a ratio in which the last ``memory`` others count most."""
    return of / (of + memory) * (count / of - ratio) if of > 0 else 0.0
