"""Cost models by the name of their algorithm, what they are asked, and what they predict."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, NamedTuple

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.loop import Loop

__all__ = [
    "CACHE_SHARES",
    "CostModel",
    "LoopPlan",
    "Prediction",
    "Settings",
    "Times",
    "fitting_settings",
    "loop_of",
    "model",
    "model_names",
    "predict",
    "register_model",
]

Settings = Mapping[str, float]

CACHE_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Shares of the memory for a cache, to try."""

_B_RATIO = 1.19  # four steps to twice as many pages


class Times(NamedTuple):
    """Seconds of a tuple, on average: in the stream buffer, and from there to its answer (S1, section 3)."""

    waiting_s: float
    processing_s: float


@dataclass(frozen=True, kw_only=True)
class LoopPlan:
    """The loop of an operator with a given memory."""

    settings: dict[str, float]  # options of the operator, chosen or given: b, w, cache_share
    memory: dict[str, int]  # bytes by component, named as `Operator.memory` names them
    loop: Loop
    loops_per_cycle: float  # iterations in which a tuple of the window meets all that it waits for
    window_tuples: float  # hS: the most tuples that wait in H_S
    # From the seconds of a loop, and a rate of arrivals not above the service rate.
    times: Callable[[float, float], Times] = field(repr=False, compare=False)
    factors: str | None = None  # the name of the loop's cost factors, where it is not the algorithm's

    @property
    def memory_bytes(self) -> int:
        return sum(self.memory.values())


def loop_of(
    case: JoinCase,
    disk_tuples: float,
    cached_tuples: float,
    *,
    pages: float,
    reads: float,
    seeks: float,
    searches: float = 0.0,
) -> Loop:
    """Return the counts of an iteration that reads so many pages of average size."""
    return Loop(
        cached_tuples=cached_tuples,
        disk_tuples=disk_tuples,
        master_rows=pages * case.table.rows_per_page,
        results=(cached_tuples + disk_tuples) * case.results_per_tuple,
        reads=reads,
        seeks=seeks,
        pages=pages,
        bytes_read=pages * case.table.page_bytes,
        searches=searches,
    )


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A model's prediction for one join on one clock."""

    algorithm: str
    clock: str
    budget_bytes: int  # the memory asked about; the plan may use less
    plan: LoopPlan
    loop_s: float  # c_loop: of one iteration
    tuples_per_s: float  # the service rate mu = w / c_loop (S3, Eq. 3)
    times: Times | None = None

    def at(self, arrivals_per_s: float | None) -> "Prediction":
        """Return this with the times of tuples at an arrival rate, unless it is above the service rate."""
        if arrivals_per_s is None or arrivals_per_s > self.tuples_per_s:
            return self
        return replace(self, times=self.plan.times(self.loop_s, arrivals_per_s))


@dataclass(frozen=True)
class CostModel:
    """The model of one algorithm."""

    name: str
    # From a case, a memory in bytes and settings; raises `BudgetTooSmall` when the operator cannot work with them.
    planned: Callable[..., LoopPlan]
    # The settings among which a tuner looks for the best, such as every b that fits a memory.
    settings_to_try: Callable[[JoinCase, int], list[dict[str, float]]]

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Return the loop with these settings; raise `InvalidArgument` for one that the model does not have."""
        given: dict[str, Any] = dict(settings)
        known = [*signature(self.planned).parameters][2:]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise InvalidArgument(
                f"the cost model of {self.name} has no setting {unknown[0]!r}: use {', '.join(known)}"
            )
        for count in given.keys() & {"b", "w"}:
            if given[count] != int(given[count]) or given[count] < 1:
                raise InvalidArgument(f"{count}={given[count]} is not a whole number: give one, at least 1")
            given[count] = int(given[count])
        return self.planned(case, memory_bytes, **given)


_MODELS: dict[str, CostModel] = {}


def register_model(cost_model: CostModel) -> None:
    """Make a cost model known under the name of its algorithm."""
    assert cost_model.name not in _MODELS, f"{cost_model.name!r} has two cost models"
    _MODELS[cost_model.name] = cost_model


def model_names() -> list[str]:
    """Return the algorithms that have a cost model."""
    return sorted(_MODELS)


def model(name: str) -> CostModel:
    if name not in _MODELS:
        raise InvalidArgument(f"algorithm {name!r} has no cost model: use one of {', '.join(map(repr, model_names()))}")
    return _MODELS[name]


def predict(name: str, case: JoinCase, memory_bytes: int, clock: Clock, settings: Settings | None = None) -> Prediction:
    """Return the prediction for an algorithm with these settings; the operator chooses the others."""
    plan = model(name).plan(case, memory_bytes, settings or {})
    loop_s = clock.loop_s(plan.factors or name, plan.loop)
    tuples_per_s = plan.loop.tuples / loop_s if loop_s else float("inf")
    return Prediction(
        algorithm=name,
        clock=clock.name,
        budget_bytes=memory_bytes,
        plan=plan,
        loop_s=loop_s,
        tuples_per_s=tuples_per_s,
    )


def fitting_settings(
    fits: Callable[..., object], *, pages: int | None = None, cache_shares: Sequence[float] | None = None
) -> list[dict[str, float]]:
    """Return settings with which ``fits`` does not raise `BudgetTooSmall`; raise when there are none.

    They are b from 1 to ``pages`` in even ratios, and cache shares in increasing order, each where it is asked for.
    """
    found: list[dict[str, float]] = []
    for shares in [{}] if cache_shares is None else [{"cache_share": share} for share in cache_shares]:
        before = len(found)
        try:
            for pages_read in [{}] if pages is None else [{"b": b} for b in _growing(pages)]:
                fits(**pages_read, **shares)
                found.append({**pages_read, **shares})
        except BudgetTooSmall:
            if not found:
                raise
            if len(found) == before:  # larger caches leave even less
                break
    return found


def _growing(most: int) -> Iterator[int]:
    number = 1
    while number < most:
        yield number
        number = min(most, max(number + 1, round(number * _B_RATIO)))
    yield most
