"""Cost models by the name of their algorithm, and what they predict.

Settings of cost models: those that are given, checked, and those among which a tuner looks for the best.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase
from semistream.cost.loop import Loop

__all__ = [
    "CostModel",
    "LoopPlan",
    "Prediction",
    "Times",
    "b_and_cache_share_to_try",
    "b_to_try",
    "known_settings",
    "model",
    "model_names",
    "predict",
    "register_model",
    "whole",
]

Settings = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LoopPlan:
    """What an operator would do with a memory: S3 Eq. 1 and its kin, and the counts of its loop.

    Attributes
    ----------
    settings
        The options of the operator that were chosen or given, by name: b, w, cache_share.
    memory
        Bytes by component, named as `Operator.memory` names them.
    loop
        One iteration.
    loops_per_cycle
        Iterations in which a tuple of the window meets everything that it waits for.
    window_tuples
        hS: how many tuples wait in H_S at most.
    factors
        The name of the cost factors of the loop, where it is not the algorithm's.
    """

    settings: dict[str, float]
    memory: dict[str, int]
    loop: Loop
    loops_per_cycle: float
    window_tuples: float
    factors: str | None = None

    @property
    def memory_bytes(self) -> int:
        return sum(self.memory.values())


class Times(NamedTuple):
    """Seconds of a tuple, on average: in the stream buffer, and from there to its answer (S1 ll. 381-428)."""

    waiting_s: float
    processing_s: float


class CostModel(Protocol):
    """One file per operator implements this."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Return what the operator does with so much memory; raise `BudgetTooSmall` when it cannot work."""
        ...

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return how long tuples take when they arrive at a rate that is at most the service rate."""
        ...

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return the settings among which a tuner looks for the best, such as every b that fits."""
        ...


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of one join on one clock.

    Attributes
    ----------
    budget_bytes
        The memory that it was asked about; what the plan uses of it may be less.
    loop_s
        c_loop: seconds of one iteration.
    tuples_per_s
        The service rate mu = w / c_loop (S3 Eq. 3).
    times
        At the arrival rate that was asked about; None without one, or when it is above the service rate.
    """

    algorithm: str
    clock: str
    budget_bytes: int
    plan: LoopPlan
    loop_s: float
    tuples_per_s: float
    times: Times | None = field(default=None)


_MODELS: dict[str, CostModel] = {}


def register_model(name: str) -> Callable[[type[CostModel]], type[CostModel]]:
    """Make a cost model known under the name of its algorithm."""

    def add(cost_model: type[CostModel]) -> type[CostModel]:
        assert name not in _MODELS, f"{name!r} has two cost models"
        _MODELS[name] = cost_model()
        return cost_model

    return add


def model_names() -> list[str]:
    """Return the algorithms that have a cost model."""
    return sorted(_MODELS)


def model(name: str) -> CostModel:
    """Return the cost model of an algorithm."""
    if name not in _MODELS:
        raise InvalidArgument(f"algorithm {name!r} has no cost model: use one of {', '.join(map(repr, model_names()))}")
    return _MODELS[name]


def predict(
    name: str,
    case: JoinCase,
    memory_bytes: int,
    clock: Clock,
    settings: Settings | None = None,
    arrivals_per_s: float | None = None,
) -> Prediction:
    """Return what the model of an algorithm says, with these settings and the operator's own for the others."""
    cost_model = model(name)
    plan = cost_model.plan(case, memory_bytes, settings or {})
    loop_s = clock.loop_s(plan.factors or name, plan.loop)
    tuples_per_s = plan.loop.tuples / loop_s if loop_s else float("inf")
    times = None
    if arrivals_per_s is not None and arrivals_per_s <= tuples_per_s:
        times = cost_model.times(case, plan, loop_s, arrivals_per_s)
    return Prediction(
        algorithm=name,
        clock=clock.name,
        budget_bytes=memory_bytes,
        plan=plan,
        loop_s=loop_s,
        tuples_per_s=tuples_per_s,
        times=times,
    )


_CACHE_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_B_RATIO = 1.19  # four steps to twice as many pages


def known_settings(name: str, settings: Settings, known: tuple[str, ...]) -> dict[str, float]:
    """Return the settings; raise `InvalidArgument` when one is not among those that the model of ``name`` knows."""
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise InvalidArgument(f"the cost model of {name} has no setting {unknown[0]!r}: use {', '.join(known)}")
    return dict(settings)


def whole(settings: Settings, name: str) -> int | None:
    """Return a setting that counts something, or None when it is not given."""
    value = settings.get(name)
    if value is None:
        return None
    if value != int(value) or value < 1:
        raise InvalidArgument(f"{name}={value} is not a whole number: give one, at least 1")
    return int(value)


def b_to_try(pages: int, fits: Callable[[int], object]) -> list[int]:
    """Return numbers of pages, from 1 on in even ratios, up to all or to the last with which ``fits`` does not raise.

    It raises `BudgetTooSmall` when not even one page fits.
    """
    found: list[int] = []
    b = 1
    while True:
        try:
            fits(b)
        except BudgetTooSmall:
            if not found:
                raise
            return found
        found.append(b)
        if b == pages:
            return found
        b = min(pages, max(b + 1, round(b * _B_RATIO)))


def b_and_cache_share_to_try(pages: int, fits: Callable[..., object]) -> list[dict[str, float]]:
    """Return the b to try with each share of the cache, from the smallest on; those that leave too little are left out.

    It raises `BudgetTooSmall` when not even the smallest fits, with one page.
    """
    found: list[dict[str, float]] = []
    for cache_share in _CACHE_SHARES:
        try:
            fitting = b_to_try(pages, partial(fits, cache_share=cache_share))
        except BudgetTooSmall:
            if not found:
                raise
            break
        found += [{"b": b, "cache_share": cache_share} for b in fitting]
    return found
