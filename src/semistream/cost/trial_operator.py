"""Makes operators that are tried out: with more memory where what they were to have is too little."""

from typing import Any

from semistream.core.errors import BudgetTooSmall
from semistream.core.semantics import JoinSpec
from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable, drop_pages

__all__ = ["trial_operator"]


def trial_operator(
    name: str, table: MasterTable, spec: JoinSpec, memory_bytes: int, options: dict[str, Any]
) -> StepOperator:
    """Return an operator, with the least memory that it needs if that is more.

    It finds no page of the table in the page cache, and leaves none there: what is tried is a table larger than memory.
    """
    drop_pages(table)
    try:
        return algorithm(name).make(table, spec, memory_bytes, {"io": "drop_behind", **options})
    except BudgetTooSmall as error:
        if error.least_bytes is None or error.least_bytes <= memory_bytes:
            raise
        return trial_operator(name, table, spec, error.least_bytes, options)
