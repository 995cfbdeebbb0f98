"""The plan of one join: small, picklable, the same for every task; and the check that it fits its memory."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import How, JoinSpec
from semistream.core.sizes import format_bytes
from semistream.operators import algorithm
from semistream.operators.empty_table import EmptyTableJoin
from semistream.runtime.spark.stateful.packing import operator_bytes, task_bytes_for
from semistream.storage import MasterTable
from semistream.storage.files.store import Store, open_store

__all__ = ["Completion", "Exchange", "JoinPlan", "Refresh", "require_budget", "shrink_to_budget"]

Completion: TypeAlias = Literal["batch", "staggered"]
Exchange: TypeAlias = Literal["bucket", "none"]
Refresh: TypeAlias = Literal["batch", "never"]


@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """A join of a stream with a master table, as tasks run it.

    Attributes
    ----------
    join_id
        A hash of the arguments and the table, the same in every run with the same arguments. It names soft state:
        warm operators and caches. Pinned versions are named by the query's id instead.
    table
        The version passed to the join. With ``refresh="batch"`` a micro-batch may use a newer one.
    algorithm
        A registered name, never ``"auto"``.
    task_bytes
        The memory of one task: that of an executor over its task slots.
    slots
        Tasks that run at once in an executor.
    cycle_batches
        With ``completion="staggered"``: how many micro-batches one pass over a bucket takes while the stream is slow.
    output_schema
        The schema that tasks return, in Arrow types that Spark takes. None until it is known.
    operators_kept
        How many operators a worker keeps warm at once, each with an equal share of ``task_bytes``.
    pins
        The folder for the version of each micro-batch and for marks of pending tuples; None for the table's.
    """

    join_id: str
    table: MasterTable
    stream_schema: pa.Schema
    on: dict[str, str]
    how: How
    columns: tuple[str, ...] | None
    algorithm: str
    options: dict[str, Any] = field(default_factory=dict)
    task_bytes: int
    slots: int
    exchange: Exchange
    refresh: Refresh
    completion: Completion
    cycle_batches: int = 8
    output_schema: pa.Schema | None = None
    operators_kept: int = 1
    pins: str | None = None

    @property
    def operator_bytes(self) -> int:
        """The budget of one operator."""
        if self.completion == "staggered":
            return operator_bytes(self.task_bytes)
        return self.task_bytes // self.operators_kept

    @property
    def joins_on_table_key(self) -> bool:
        """Whether matching rows are in the same bucket."""
        return self.table.is_key(self.on.values())

    def query_files(self) -> Store:
        """Return the store of the query's own files: beside the table, or in ``pins``."""
        if self.pins is None:
            return self.table.store
        return open_store(f"{self.pins.rstrip('/')}/{self.table.table_id}")

    def spec(self, table: MasterTable) -> JoinSpec:
        """Return the join, checked against a version of the table."""
        return JoinSpec.resolve(self.stream_schema, table.schema, self.on, self.how, columns=self.columns)

    def identity(self) -> dict[str, Any]:
        """Return the settings that a checkpoint fixes."""
        return {
            "table": self.table.table_id,
            "buckets": self.table.buckets,
            "on": sorted(map(list, self.on.items())),
            "how": self.how,
            "columns": list(self.spec(self.table).master_columns),
            "stream": [[field.name, str(field.type)] for field in self.stream_schema],
        }


def shrink_to_budget(plan: JoinPlan) -> JoinPlan:
    """Return the plan, with fewer warm operators where its memory is too small for so many."""
    try:
        require_budget(plan, plan.table)
    except BudgetTooSmall:
        if plan.operators_kept == 1:
            raise
        return shrink_to_budget(replace(plan, operators_kept=plan.operators_kept // 2))
    return plan


def require_budget(plan: JoinPlan, table: MasterTable) -> None:
    """Make an operator for the largest bucket of a version, and close it; raise whatever it raises.

    The driver calls this before any job runs, so that wrong arguments and too little memory are found there.
    """
    staggered = plan.completion == "staggered"
    largest = table
    if plan.exchange == "bucket":
        sizes = table.bucket_bytes
        largest = table.bucket(sizes.index(max(sizes)))
    try:
        op = algorithm(plan.algorithm).make(largest, plan.spec(table), plan.operator_bytes, plan.options)
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
