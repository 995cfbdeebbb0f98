"""The benchmark of the operators: every algorithm over table sizes, skews and budgets."""

from semistream.bench.operators.run import run_operators
from semistream.bench.operators.spec import QUICK, OperatorsSpec

__all__ = ["QUICK", "OperatorsSpec", "run_operators"]
