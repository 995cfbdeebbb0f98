"""The algorithm inside an operator: tests look at the structures that a paper draws."""

from typing import Any

from semistream.core.contract import Operator
from semistream.operators.driver import StepOperator

__all__ = ["inside"]


def inside(op: Operator) -> Any:
    """Return the algorithm, with its parts as attributes."""
    assert isinstance(op, StepOperator)
    return op.join
