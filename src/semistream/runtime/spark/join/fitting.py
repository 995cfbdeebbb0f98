"""Whether a join fits its memory, found out in the driver before any job runs, by making an operator as a task does."""

from dataclasses import replace

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.sizes import format_bytes
from semistream.operators import algorithm
from semistream.operators.empty_table import EmptyTableJoin
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.stateful.packing import operator_bytes, task_bytes_for
from semistream.storage import MasterTable

__all__ = ["fitted", "require_fit"]


def fitted(plan: JoinPlan) -> JoinPlan:
    """Return the plan, with fewer operators in a worker where the memory does not reach for so many.

    Raises what an operator of this join raises when it is made.
    """
    try:
        require_fit(plan, plan.table)
    except BudgetTooSmall:
        if plan.operators_kept == 1:
            raise
        return fitted(replace(plan, operators_kept=plan.operators_kept // 2))
    return plan


def require_fit(plan: JoinPlan, table: MasterTable) -> None:
    """Make an operator for the bucket of a version that needs most, and close it."""
    staggered = plan.completion == "staggered"
    largest = table
    if plan.exchange == "bucket":
        sizes = table.bucket_bytes
        largest = table.bucket(sizes.index(max(sizes)))
    budget_bytes = operator_bytes(plan.task_bytes) if staggered else plan.operator_bytes
    try:
        op = algorithm(plan.algorithm).make(largest, plan.spec(table), budget_bytes, plan.options)
    except BudgetTooSmall as error:
        if error.least_bytes is None:
            raise
        least_bytes = (task_bytes_for(error.least_bytes) if staggered else error.least_bytes) * plan.slots
        raise BudgetTooSmall(
            f"memory=, which {plan.slots} tasks of an executor share, leaves each {plan.task_bytes} bytes, too few for "
            f"{plan.algorithm} on {table.path}: give at least {least_bytes} bytes ({format_bytes(least_bytes)})",
            error.least_bytes,
        ) from None
    with op:
        if staggered and op.steps_per_cycle is None and not isinstance(op.join, EmptyTableJoin):
            raise InvalidArgument(
                f"completion='staggered' is for algorithms that read a part of the table in every micro-batch; "
                f"{plan.algorithm} answers every row in its own: use completion='batch', or algorithm='ssbj'"
            )
