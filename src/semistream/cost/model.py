"""Cost models by the name of their algorithm, what they are asked, and what they predict."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

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
    "checked_settings",
    "fitting_settings",
    "model",
    "model_names",
    "predict",
    "register_model",
]

Settings = Mapping[str, float]

CACHE_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Shares of the memory for a cache, to try."""

_B_RATIO = 1.19  # four steps to twice as many pages


@dataclass(frozen=True, kw_only=True)
class LoopPlan:
    """The loop of an operator with a given memory.

    Attributes
    ----------
    settings
        Options of the operator, chosen or given, by name: b, w, cache_share.
    memory
        Bytes by component, named as `Operator.memory` names them.
    loop
        Counts of one iteration.
    loops_per_cycle
        Iterations in which a tuple of the window meets all that it waits for.
    window_tuples
        hS: the most tuples that wait in H_S.
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
    """Seconds of a tuple, on average: in the stream buffer, and from there to its answer (S1, section 3)."""

    waiting_s: float
    processing_s: float


class CostModel(Protocol):
    """The model of one algorithm."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Return the loop of the operator with so much memory; raise `BudgetTooSmall` when it cannot work."""
        ...

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return the times of tuples that arrive at a rate not above the service rate."""
        ...

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return the settings among which a tuner looks for the best, such as every b that fits."""
        ...


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A model's prediction for one join on one clock.

    Attributes
    ----------
    budget_bytes
        The memory asked about; the plan may use less.
    loop_s
        c_loop: seconds of one iteration.
    tuples_per_s
        The service rate mu = w / c_loop (S3, Eq. 3).
    times
        At the arrival rate asked about; None without one, or when it is above the service rate.
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
    """Return the prediction for an algorithm with these settings; the operator chooses the others."""
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


# --- settings of models -----------------------------------------------------------------------------------------------


def checked_settings(name: str, settings: Settings, known: Sequence[str]) -> dict[str, Any]:
    """Return the settings given, b and w as whole numbers; raise `InvalidArgument` for one that is not ``known``."""
    found: dict[str, Any] = dict(settings)
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InvalidArgument(f"the cost model of {name} has no setting {unknown[0]!r}: use {', '.join(known)}")
    for count in found.keys() & {"b", "w"}:
        if found[count] != int(found[count]) or found[count] < 1:
            raise InvalidArgument(f"{count}={found[count]} is not a whole number: give one, at least 1")
        found[count] = int(found[count])
    return found


def fitting_settings(
    fits: Callable[..., object], *, pages: int | None = None, cache_shares: Sequence[float] | None = None
) -> list[dict[str, float]]:
    """Return settings with which ``fits`` does not raise `BudgetTooSmall`; raise when there are none.

    Parameters
    ----------
    fits
        Called with the settings ``b`` and ``cache_share``, as far as they are asked for.
    pages
        The most pages to try for b, which grows from 1 in even ratios; None to leave b out.
    cache_shares
        The cache shares to try, in increasing order; None to leave them out.
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
