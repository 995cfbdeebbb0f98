"""The joins whose states are fuzzed: each algorithm as it is, and what it does with other options."""

from inspect import signature
from typing import Any

import semistream as ss
from semistream.operators import SheddingConfig
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from tests.operators.kept_states import STREAM

__all__ = ["VARIANTS", "busy_join", "kinds_of", "small_steps"]

_DROPPING = SheddingConfig(strategy="random", to="drop", seed=1)
_BETWEEN = {"on": None, "condition": ss.between("id", "id", "id"), "columns": ["name"]}
_ABOVE = {"on": None, "condition": ss.compare("id", ">", "id"), "columns": ["name"]}

_OTHERS: dict[str, dict[str, Any]] = {
    "meshjoin between": _BETWEEN,
    "meshjoin above": _ABOVE,
    "meshjoin in order": {"order": "stream"},
    "meshjoin in order between": {"order": "stream", **_BETWEEN},
    "ssbj in order": {"order": "stream"},
    "meshjoin random": {"shedding": "random"},
    "meshjoin drop": {"shedding": _DROPPING},
    "cmeshjoin keep": {"shedding": "keep"},
    "hybridjoin considering": {"shedding": "considering", "memory": 85_000},
    "chybridjoin considering in order": {"shedding": "considering", "order": "stream", "memory": 120_000},
    "chybridjoin tinylfu": {"cache_policy": "tinylfu"},
    "chybridjoin threshold": {"cache_policy": "threshold"},
    "chybridjoin inequality": {"cache_policy": "inequality"},
    "cinlj tinylfu": {"cache_policy": "tinylfu"},
    "cinlj threshold": {"cache_policy": "threshold"},
    "cmeshjoin tinylfu": {"cache_policy": "tinylfu"},
    "cmeshjoin threshold": {"cache_policy": "threshold"},
    "sweepjoin from disk": {"io": "drop_behind"},  # else it uses pages that are in memory, and caches nothing
}

VARIANTS: dict[str, dict[str, Any]] = {**{name: {} for name in ss.algorithm_names()}, **_OTHERS}
"""Options by name, which begins with the algorithm."""


def kinds_of(variant: str) -> list[str]:
    """Return the kinds of state that a join has: none is exact where tuples or results wait in files."""
    options = VARIANTS[variant]
    if "order" in options or "shedding" in options:
        return ["snapshot"]
    return ["exact"] if "cache_policy" in options else ["snapshot", "exact"]


def small_steps(variant: str, table: MasterTable) -> StepOperator:
    """Return a join that reads a page at a time where it can, so that tuples wait between its steps."""
    name = variant.split()[0]
    options: dict[str, Any] = {"b": 1} if "b" in signature(algorithm(name).config).parameters else {}
    given = {"on": "id", "memory": 200_000, **options, **VARIANTS[variant]}
    return ss.operator(name, table, STREAM.schema, how="left", **given)


def busy_join(variant: str, table: MasterTable) -> StepOperator:
    """Return such a join with tuples in its buffer and, where it has them, in its window, cache, spool and results."""
    op = small_steps(variant, table)
    most = 200 if "shedding" in VARIANTS[variant] else 40  # load is shed when more is offered than is read
    # Rows are cached in a second turn of the scan; before its end results wait for older ones.
    least_steps, steps, taken = 2 * (op.steps_per_cycle or 1) - 3, 0, 0
    while taken < 700 or steps < least_steps:
        start = taken % 700
        taken += op.offer(STREAM.slice(start, min(most, 700 - start)))
        list(op.step())
        steps += 1
    op.offer(STREAM.slice(700, 50))
    return op
