"""Algorithms by name. An algorithm joins by being registered; the conformance suite then covers it."""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple, TypeVar

from semistream.core.budget import require_at_least
from semistream.core.errors import BudgetTooSmall, InvalidArgument, StateTooLarge
from semistream.core.semantics import JoinSpec
from semistream.operators.driver import StepOperator
from semistream.operators.empty_table import EmptyTableJoin
from semistream.operators.join import Join, JoinInputs
from semistream.storage import MasterTable

__all__ = ["Algorithm", "algorithm", "algorithm_names", "register"]

_MOST_TRIALS = 50

_MakeJoin = TypeVar("_MakeJoin", bound=Callable[..., Join])


class Algorithm(NamedTuple):
    """How to make a join, its settings, and what it can do."""

    name: str
    join: Callable[[JoinInputs, Any], Join]
    config: Callable[..., object]
    layouts: tuple[str, ...]  # of tables that it works on
    plain_stream_columns: bool  # it copies stream tuples: columns of fixed width, text and binary values only
    caches: bool  # it keeps master rows: columns of the same kinds only
    takes_conditions: bool  # it joins on a condition without any equality

    @property
    def option_names(self) -> list[str]:
        return sorted(signature(self.config).parameters)

    def make(self, table: MasterTable, spec: JoinSpec, budget_bytes: int, options: dict[str, Any]) -> StepOperator:
        known = self.option_names
        for option in options:
            if option not in known:
                # It may be a misspelt argument of the function that passes on all it does not know.
                raise InvalidArgument(
                    f"option {option!r} is unknown to {self.name}, and no argument of the join: "
                    f"use one of {', '.join(known)}"
                )
        config = self.config(**options)
        try:
            return self._driver(table, spec, budget_bytes, config)
        except BudgetTooSmall as error:
            require_at_least(budget_bytes, self._least_bytes(table, spec, config, error), error.what)
            raise
        except StateTooLarge:
            raise
        except MemoryError as error:
            raise StateTooLarge(f"memory={budget_bytes} bytes cannot be had here ({error}): lower memory=") from error

    def _driver(self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: object) -> StepOperator:
        def join(inputs: JoinInputs) -> Join:
            return EmptyTableJoin(inputs) if inputs.table.num_pages == 0 else self.join(inputs, config)

        return StepOperator(self.name, table, spec, budget_bytes, join)

    def _least_bytes(self, table: MasterTable, spec: JoinSpec, config: object, error: BudgetTooSmall) -> int:
        """Return a memory that really does: with a larger one some parts are larger too, and ask for more."""
        for _ in range(_MOST_TRIALS):
            if error.least_bytes is None:
                raise error
            try:
                self._driver(table, spec, error.least_bytes, config).close()
            except BudgetTooSmall as larger:
                error = larger
            else:
                break
        assert error.least_bytes is not None
        return error.least_bytes


_REGISTRY: dict[str, Algorithm] = {}


def register(
    name: str,
    config: Callable[..., object],
    layouts: tuple[str, ...],
    *,
    plain_stream_columns: bool = False,
    caches: bool = False,
    takes_conditions: bool = False,
) -> Callable[[_MakeJoin], _MakeJoin]:
    """Make an algorithm known under the name that its paper gives it."""

    def add(join: _MakeJoin) -> _MakeJoin:
        assert name not in _REGISTRY, f"{name!r} is registered twice"
        _REGISTRY[name] = Algorithm(name, join, config, layouts, plain_stream_columns, caches, takes_conditions)
        return join

    return add


def algorithm_names() -> list[str]:
    """Return the names of all algorithms."""
    return sorted(_REGISTRY)


def algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name."""
    if name not in _REGISTRY:
        raise InvalidArgument(f"algorithm {name!r} is unknown: use one of {', '.join(map(repr, algorithm_names()))}")
    return _REGISTRY[name]
