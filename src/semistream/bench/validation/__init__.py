"""The validation of the cost models: what they predict against what is measured, over the grid of the operators."""

from semistream.bench.validation.run import run_validation
from semistream.bench.validation.spec import DEFAULT, QUICK

__all__ = ["DEFAULT", "QUICK", "run_validation"]
