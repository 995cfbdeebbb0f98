"""The plan of one join: small, picklable, the same for every task; and the check that it fits its memory."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import How, JoinSpec
from semistream.operators import algorithm
from semistream.operators.empty_table import EmptyTableJoin
from semistream.runtime.spark.session import share_of_operator, telling_least_memory
from semistream.storage import MasterTable
from semistream.storage.files.store import Store, open_store

__all__ = ["Completion", "Exchange", "JoinPlan", "Refresh", "require_budget", "shrink_to_budget"]

Completion: TypeAlias = Literal["batch", "staggered"]
Exchange: TypeAlias = Literal["bucket", "none"]
Refresh: TypeAlias = Literal["batch", "never"]


@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """A join of a stream with a master table, as tasks run it."""

    # A hash of arguments and table, the same in every run with them. It names soft state: warm operators and caches.
    # Pinned versions are named by the query's id instead.
    join_id: str
    table: MasterTable  # with refresh="batch" a micro-batch may use a newer version
    stream_schema: pa.Schema
    on: dict[str, str]
    how: How
    columns: tuple[str, ...] | None
    algorithm: str  # never "auto"
    options: dict[str, Any] = field(default_factory=dict)
    task_bytes: int  # the memory of an executor over its task slots
    slots: int
    exchange: Exchange
    refresh: Refresh
    completion: Completion
    cycle_batches: int = 8
    output_schema: pa.Schema | None = None  # what tasks return, in Arrow types that Spark takes
    may_write_rows: bool = True  # on disks of executors; not where Spark encrypts what it writes there
    operators_kept: int = 1  # how many a worker keeps warm, each with an equal share of task_bytes
    pins: str | None = None  # the folder for pinned versions and marks of pending tuples; None for the table's

    @property
    def operator_bytes(self) -> int:
        if self.completion == "staggered":
            return share_of_operator(self.task_bytes)
        return self.task_bytes // self.operators_kept

    @property
    def bucket_keys(self) -> list[str]:
        """The stream's keys in the order of the table's key, by which buckets are cut."""
        stream_key_of = {master: stream for stream, master in self.on.items()}
        return [stream_key_of[name] for name in self.table.key]

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
    with telling_least_memory(plan.task_bytes, plan.slots, f"{plan.algorithm} on {table.path}", with_blobs=staggered):
        op = algorithm(plan.algorithm).make(largest, plan.spec(table), plan.operator_bytes, plan.options)
    with op:
        if staggered and op.steps_per_cycle is None and not isinstance(op.join, EmptyTableJoin):
            raise InvalidArgument(
                f"completion='staggered' is for algorithms that read a part of the table in every micro-batch; "
                f"{plan.algorithm} answers every row in its own: use completion='batch', or algorithm='ssbj'"
            )
